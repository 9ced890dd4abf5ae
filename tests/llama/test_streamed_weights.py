"""Weights that are streamed from the disk: the same bits as in memory, for every type and architecture."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.mxfp6_files import quantize
from tests.models.tiny_models import RECIPES, SHAPES, Model, Shape, make, random_tokens

import specdec_native as sd
from specdec_native import _core

MUCH = 600_000  # bytes: some of the matrices stay


def wide(name: str) -> Model:
    """Rows that K-quants divide into blocks, and matrices of several parts."""
    return make(name, shape=dataclasses.replace(SHAPES.get(name, Shape()), width=256, ffn=768, head=64))


def check(path: pathlib.Path, model: Model, folder: pathlib.Path) -> None:
    tokens = random_tokens(model, 60)
    for passes in [[8, 1, 3], [60]]:
        expected = _core.evaluate(str(path), tokens, passes, 2)
        for memory in (1, MUCH):
            rows = _core.evaluate(str(path), tokens, passes, 2, memory=memory, tile_cache=str(folder))
            assert (rows == expected).all()


@pytest.mark.parametrize("type", ["Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "F16", "BF16"])
@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_every_kind_of_weights(name: str, type: str, tmp_path: pathlib.Path) -> None:
    model = wide(name)
    check(model.write(tmp_path / "m.gguf", GgmlType[type]), model, tmp_path / "tiles")


def test_mxfp6(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = wide("llama")
    check(quantize(specdec, model.write(tmp_path / "16.gguf", GgmlType.F16)), model, tmp_path / "tiles")


@pytest.mark.parametrize("name", RECIPES)
def test_every_architecture(name: str, tmp_path: pathlib.Path) -> None:
    """Tiny ones have too little to stream, with the room that streaming needs; that is said."""
    model = make(name)
    path = str(model.write(tmp_path / "m.gguf", GgmlType.F16))
    tokens = random_tokens(model, 40)
    expected = _core.evaluate(path, tokens, [8, 1], 2)
    try:
        rows = _core.evaluate(path, tokens, [8, 1], 2, memory=1, tile_cache=str(tmp_path))
    except sd.ModelError as error:
        assert "nothing is streamed" in str(error)
    else:
        assert (rows == expected).all()
