"""On a device, a row of logits has the same bits wherever the passes of one width begin, and in whatever company."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from tests.models.tiny_models import F32Array, make, random_tokens

from specdec_native import _core

ARCHITECTURES = ["llama", "qwen3", "gemma2", "gemma3", "qwen2moe", "phi2", "qwen35", "lfm2", "nemotron_h", "mamba"]
CUTS = [[1], [3, 1, 8, 2], [13]]


def rows(path: pathlib.Path, tokens: list[int], cuts: list[int], device: str, width: int = 8) -> F32Array:
    found: F32Array = _core.evaluate(str(path), tokens, cuts, devices=[device], width=width)
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rows_do_not_depend_on_the_cut(name: str, device: str, tmp_path: pathlib.Path) -> None:
    model = make(name, seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 48)
    expected = rows(path, tokens, [8], device)
    on_cpu = _core.evaluate(str(path), tokens, [64])
    assert (expected.argmax(-1) == on_cpu.argmax(-1)).mean() > 0.8
    for cut in CUTS:
        found = rows(path, tokens, cut, device)
        assert np.array_equal(found.view(np.uint32), expected.view(np.uint32)), cut


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


def test_narrow_passes_differ(device: str, tmp_path: pathlib.Path) -> None:
    """The control: what the width is for. On a device where this fails, none is needed."""
    model = make("llama", seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 64)
    one, eight = (rows(path, tokens, [cut], device, width=0) for cut in (1, 8))
    assert not np.array_equal(one, eight)
    assert np.allclose(one, eight, atol=0.05 * np.abs(one).max())


@pytest.mark.parametrize("layers", [1, 2])
def test_with_some_layers_on_the_cpu(layers: int, device: str, tmp_path: pathlib.Path) -> None:
    model = make("llama", seed=1)
    path = model.write(tmp_path / "tiny.gguf")
    tokens = random_tokens(model, 40)

    def of(cuts: list[int]) -> F32Array:
        found: F32Array = _core.evaluate(str(path), tokens, cuts, devices=[device], n_gpu_layers=layers, width=8)
        return found

    expected = of([8])
    for cuts in CUTS:
        assert np.array_equal(of(cuts), expected)
