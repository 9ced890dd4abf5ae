"""What lies where: MXFP6 as Q8_0, experts on the CPU, tensors by name; and the test of `specdec info`."""

from __future__ import annotations

import pathlib
import re
import subprocess
import warnings
from typing import Any

import numpy as np
import pytest
from tests.models.mxfp6_files import decoded_copy, quantize
from tests.models.tiny_models import F32Array, make, random_tokens

import specdec_native as sd
from specdec_native import _core


def rows(path: pathlib.Path, tokens: list[int], device: str) -> F32Array:
    found: F32Array = _core.evaluate(str(path), tokens, [8], devices=[device], width=8)
    return found


@pytest.mark.parametrize("name", ["llama", "qwen2moe"])
def test_mxfp6_on_a_device(name: str, specdec: pathlib.Path, device: str, tmp_path: pathlib.Path) -> None:
    """Its rows are near those of the decoded weights; the control is another model."""
    model = make(name, seed=1)
    source = model.write(tmp_path / "source.gguf")
    path = quantize(specdec, source)
    decoded = decoded_copy(model, path)
    tokens = random_tokens(model, 30)
    found, expected = rows(path, tokens, device), rows(decoded, tokens, device)
    other = rows(source, tokens, device)

    def distance(x: F32Array) -> float:
        return float(np.median(np.linalg.norm(x - expected, axis=-1) / np.linalg.norm(expected, axis=-1)))

    assert distance(found) < 0.03 < distance(other)


def test_experts_on_the_cpu(device: str, tmp_path: pathlib.Path) -> None:
    path = make("qwen2moe", seed=2).write(tmp_path / "moe.gguf")

    def made(**options: Any) -> list[int]:
        gen = sd.Generator(path, n_gpu_layers="all", devices=device, n_threads=1, n_ctx=512, **options)
        return list(gen.generate("the of", max_tokens=16, temperature=0.0).tokens)

    on_cpu = made(n_cpu_moe=100, num_draft_tokens=0)
    assert made(n_cpu_moe=100, draft="suffix", num_draft_tokens=3) == on_cpu
    assert made(override_tensor=r"ffn_.*_exps=CPU", tensor_split="1") == on_cpu


def test_experts_of_the_draft_on_the_cpu(device: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """Options of either model do not affect the other; none of the draft's changes the text."""
    target = make("qwen2moe", seed=2).write(tmp_path / "target.gguf")
    draft = make("qwen2moe", seed=3).write(tmp_path / "draft.gguf")

    def made(**options: object) -> tuple[list[int], list[float]]:
        """The text, and the MiB of either model's weights on the device, by llama.cpp's log."""
        caplog.clear()
        with caplog.at_level("DEBUG", logger="specdec_native"):
            gen = sd.Generator(
                target, draft, n_gpu_layers="all", n_gpu_layers_draft="all", devices=device, n_threads=1, n_ctx=512,
                num_draft_tokens=3, **options,  # type: ignore[arg-type]
            )  # fmt: skip
        tokens = list(gen.generate("the of", max_tokens=16, temperature=0.0).tokens)
        sizes = re.findall(rf"{device} model buffer size = +([0-9.]+) MiB", caplog.text)
        assert len(sizes) == 2, caplog.text
        return tokens, [float(size) for size in sizes]

    text, (all_of_target, all_of_draft) = made()
    same, (target_left, draft_left) = made(n_cpu_moe_draft=100)
    assert same == text and target_left == all_of_target and draft_left < all_of_draft
    same, (target_left, draft_left) = made(override_tensor_draft="ffn_.*_exps=CPU")
    assert same == text and target_left == all_of_target and draft_left < all_of_draft
    _, (target_left, draft_left) = made(n_cpu_moe=100)
    assert target_left < all_of_target and draft_left == all_of_draft


def test_a_prefix_of_other_places_is_not_loaded(device: str, tmp_path: pathlib.Path) -> None:
    """Experts on the CPU round otherwise than on the device, so its rows would be neither's."""
    path = make("qwen2moe", seed=2).write(tmp_path / "moe.gguf")

    def generator(**options: Any) -> sd.Generator:
        return sd.Generator(path, n_gpu_layers="all", devices=device, n_threads=1, n_ctx=512, **options)

    first = generator(n_cpu_moe=1)
    first.prefill("the of and to")
    first.save_prefix(tmp_path / "prefix")
    assert generator(n_cpu_moe=1).load_prefix(tmp_path / "prefix") > 0
    for options in ({}, {"n_cpu_moe": 2}, {"n_cpu_moe": 1, "override_tensor": "attn_q=CPU"}):
        with pytest.warns(RuntimeWarning, match="another model, kind of cache, processor or layer placement"):
            assert generator(**options).load_prefix(tmp_path / "prefix") == 0


def test_weights_without_kernels_are_named(device: str, tmp_path: pathlib.Path) -> None:
    """Vulkan has no scan of Mamba's first kind. Weights that were sent to the CPU need no note."""

    def notes(name: str, **options: Any) -> list[str]:
        path = make(name, seed=1).write(tmp_path / f"{name}.gguf")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sd.Generator(path, n_gpu_layers="all", devices=device, n_threads=1, n_ctx=512, **options)
        return [str(one.message) for one in caught]

    assert notes("llama") == notes("qwen2moe", n_cpu_moe=100) == []
    assert notes("mamba") == [
        f"weights of {tmp_path / 'mamba.gguf'} stay on the CPU, since there are no kernels for them on {device}: "
        "1 MiB in F32"
    ]


def test_bad_places(device: str, tmp_path: pathlib.Path) -> None:
    path = make("llama", seed=1).write(tmp_path / "tiny.gguf")
    for options, message in (
        ({"override_tensor": "ffn"}, "expected PATTERN=DEVICE"),
        ({"override_tensor": "(=CPU"}, "not a valid regular expression"),
        ({"override_tensor": "ffn=Vulkan9"}, "there is no device Vulkan9"),
        ({"tensor_split": "a"}, "must be numbers from 0"),
    ):
        with pytest.raises(sd.Error, match=message):
            sd.Generator(path, n_gpu_layers="all", devices=device, **options)  # type: ignore[arg-type]


def test_info_checks_the_device(specdec: pathlib.Path, device: str, tmp_path: pathlib.Path) -> None:
    path = make("llama", seed=1).write(tmp_path / "tiny.gguf")
    command = [specdec, "info", "--check", "-dev", device, path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    text = " ".join(shown.split())
    assert "Exact at widths 1 to 8: no row depends on how a text is divided into passes" in text
    assert "; with --no-exact 64 of 64 rows do. A pass over one token takes " in text
    assert "Other devices, drivers and numbers of layers on them give other bits." in text
