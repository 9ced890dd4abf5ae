"""What lies where: MXFP6 as Q8_0, experts on the CPU, tensors by name; and the test of `specdec info`."""

from __future__ import annotations

import pathlib
import subprocess

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

    def made(**options: object) -> list[int]:
        gen = sd.Generator(path, n_gpu_layers="all", devices=device, n_threads=1, n_ctx=512, **options)  # type: ignore[arg-type]
        return list(gen.generate("the of", max_tokens=16, temperature=0.0).tokens)

    on_cpu = made(n_cpu_moe=100, num_draft_tokens=0)
    assert made(n_cpu_moe=100, draft="suffix", num_draft_tokens=3) == on_cpu
    assert made(override_tensor=r"ffn_.*_exps=CPU", tensor_split="1") == on_cpu


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
    assert "Exact at widths 1 to 8: no row differs between ways to cut a text into passes" in text
    assert "; with --no-exact 64 of 64 rows do. A pass over one token takes " in text
