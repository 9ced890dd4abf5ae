"""llama.cpp's own weight types in many architectures: logits do not depend on how a sequence is split into passes."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import RECIPES, RECURRENT, SHAPES, Shape, make, random_tokens

from specdec_native import _core

LENGTH = 300  # past cell 257, where llama.cpp's own attention changes its algorithm for one query
THREADED = [250, *range(1, 9), 4, 3, 1]  # few passes, because two threads are slow for such small operations


def check_invariant(
    path: pathlib.Path, tokens: list[int], passes: list[tuple[list[int], int]], kv_type: str = "f16"
) -> None:
    """passes: (sizes, threads)"""
    expected = _core.evaluate(str(path), tokens, [1], 1, kv_type)
    assert np.isfinite(expected).all() and (expected.std(-1) > 0.1).all()
    for sizes, n_threads in passes:
        y = _core.evaluate(str(path), tokens, sizes, n_threads, kv_type)
        assert (y == expected).all(), (sizes, n_threads, int((y != expected).any(-1).argmax()))


@pytest.mark.parametrize("type", ["F32", "F16", "Q8_0"])
@pytest.mark.parametrize("name", RECIPES)
def test_scoring_passes(name: str, type: str, tmp_path: pathlib.Path) -> None:
    model = make(name)
    path = model.write(tmp_path / "m.gguf", GgmlType[type])
    check_invariant(
        path, random_tokens(model, LENGTH), [([2], 1), ([3, 7, 5], 1), ([4, 6, 1], 1), ([8], 1), (THREADED, 2)]
    )


@pytest.mark.parametrize("type", ["F32", "F16", "BF16", "Q8_0"])
@pytest.mark.parametrize("name", ["llama", "gemma2", "mixtral", "deepseek2", *RECURRENT])
def test_passes_of_a_prompt(name: str, type: str, tmp_path: pathlib.Path) -> None:
    model = make(name)
    path = model.write(tmp_path / "m.gguf", GgmlType[type])
    check_invariant(path, random_tokens(model, LENGTH), [([9], 1), ([33], 1), ([64], 1), ([65], 1), ([LENGTH], 2)])


@pytest.mark.parametrize("type", ["F32", "F16", "Q4_0", "Q8_0"])
def test_passes_of_a_prompt_with_a_quantized_cache(type: str, tmp_path: pathlib.Path) -> None:
    """Heads of 64: llama.cpp rotates them before it rounds them, by one of two algorithms."""
    model = make("llama", shape=dataclasses.replace(Shape(), width=256, ffn=256, head=64))
    path = model.write(tmp_path / "m.gguf", GgmlType[type])
    passes = [([8], 1), ([9], 1), ([64], 1), ([65], 1), ([128], 2), ([65, 3, 1], 2)]
    check_invariant(path, random_tokens(model, LENGTH), passes, "q8_0")


@pytest.mark.parametrize(
    "type", ["Q4_K", "Q6_K", "Q4_0", "Q5_1", "MXFP4", "NVFP4", "TQ1_0", "IQ3_S", "IQ2_XS", "IQ1_M"]
)
@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_stock_types_in_passes_of_any_length(name: str, type: str, tmp_path: pathlib.Path) -> None:
    model = make(name, shape=dataclasses.replace(SHAPES.get(name, Shape()), width=256, ffn=256, head=64))
    path = model.write(tmp_path / "m.gguf", GgmlType[type])
    passes = [([2, 5, 3], 1), ([8], 1), ([9], 1), ([65], 1), ([LENGTH], 2), ([130, 64, 1, 2, 8], 2)]
    check_invariant(path, random_tokens(model, LENGTH), passes)


@pytest.mark.parametrize("type", ["Q4_K", "Q6_K"])
@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_k_quants(name: str, type: str, tmp_path: pathlib.Path) -> None:
    shape = dataclasses.replace(SHAPES.get(name, Shape()), width=256, ffn=256, head=64)
    model = make(name, shape=shape)
    path = model.write(tmp_path / "m.gguf", GgmlType[type])
    check_invariant(
        path,
        random_tokens(model, LENGTH),
        [([2, 5, 3], 1), ([7], 1), ([8], 1), ([9], 1), ([64], 1), ([65], 1), ([LENGTH], 1), ([128, 100, 64, 1, 2], 2)],
    )
