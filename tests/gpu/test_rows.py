"""On a device, a row of logits has the same bits however the text is cut into passes, and in whatever company."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from tests.gpu.listed import listed_devices
from tests.models.tiny_models import F32Array, GgmlType, Shape, make, random_tokens

from specdec_native import _core

ARCHITECTURES = ["llama", "qwen3", "gemma2", "gemma3", "qwen2moe", "phi2", "qwen35", "lfm2", "nemotron_h", "mamba"]
CUTS = [[1], [3, 1, 8, 2], [13]]


def rows(
    path: pathlib.Path, tokens: list[int], cuts: list[int], device: str, width: int = 8, pads: bool = False
) -> F32Array:
    found: F32Array = _core.evaluate(str(path), tokens, cuts, devices=[device], width=width, pads=pads)
    return found


@pytest.mark.parametrize(
    ("name", "pads"), [(name, False) for name in ARCHITECTURES] + [("llama", True), ("mamba", True)]
)
def test_rows_do_not_depend_on_the_cut(name: str, pads: bool, device: str, tmp_path: pathlib.Path) -> None:
    model = make(name, seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 48)
    expected = rows(path, tokens, [8], device, pads=pads)
    on_cpu = _core.evaluate(str(path), tokens, [64])
    assert (expected.argmax(-1) == on_cpu.argmax(-1)).mean() > 0.8
    for cut in CUTS:
        found = rows(path, tokens, cut, device, pads=pads)
        assert np.array_equal(found.view(np.uint32), expected.view(np.uint32)), cut


@pytest.mark.parametrize("name", ["gpt-oss", "deepseek2", "gemma3n", "rwkv7"])
def test_other_products_without_padding(name: str, device: str, tmp_path: pathlib.Path) -> None:
    """Attention with sinks, matrices for each head, products of activations, one without attention."""
    model = make(name, seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 40)
    expected = rows(path, tokens, [8], device)
    for cut in ([1], [5, 2, 3]):
        assert np.array_equal(rows(path, tokens, cut, device), expected), cut


@pytest.mark.parametrize("weights", ["Q8_0", "Q4_K", "Q4_0", "Q6_K", "IQ4_XS", "MXFP4", "BF16"])
def test_types_without_padding(weights: str, device: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    _, listed = listed_devices(specdec)
    if "llvmpipe" in listed and weights not in ("Q8_0", "Q4_K"):
        pytest.skip(f"Mesa's software device takes up to three minutes to compile the kernels for {weights}")
    model = make("llama", seed=1, shape=Shape(width=256, ffn=256, heads=4, head=64))
    path = model.write(tmp_path / "tiny.gguf", GgmlType[weights])
    tokens = random_tokens(model, 40)
    expected = rows(path, tokens, [8], device)
    assert np.isfinite(expected).all()
    for cut in ([1], [2, 5, 3]):
        assert np.array_equal(rows(path, tokens, cut, device), expected), cut


def test_rows_across_a_step_of_the_cache(device: str, tmp_path: pathlib.Path) -> None:
    """Attention runs over more cells once a pass ends behind the 256th. Only the passes near it are cut in several
    ways, since passes are slow on a software device."""
    model = make("llama", seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 270)
    expected = rows(path, tokens, [8], device)
    for cut in CUTS:
        found = rows(path, tokens, [240, *cut * 30], device)
        assert np.array_equal(found.view(np.uint32), expected.view(np.uint32)), cut


def test_other_passes_differ(device: str, tmp_path: pathlib.Path) -> None:
    """The control: what all this is for. On a device where this fails, nothing is needed."""
    model = make("llama", seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 64)
    one, eight = (rows(path, tokens, [cut], device, width=0, pads=True) for cut in (1, 8))
    assert not np.array_equal(one, eight)
    assert np.allclose(one, eight, atol=0.05 * np.abs(one).max())


@pytest.mark.parametrize("layers", [1, 2])
def test_with_some_layers_on_the_cpu(layers: int, device: str, tmp_path: pathlib.Path) -> None:
    model = make("llama", seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 40)

    def of(cuts: list[int]) -> F32Array:
        found: F32Array = _core.evaluate(
            str(path), tokens, cuts, devices=[device], n_gpu_layers=layers, width=8, pads=False
        )
        return found

    expected = of([8])
    for cuts in CUTS:
        assert np.array_equal(of(cuts), expected)
