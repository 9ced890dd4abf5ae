"""Stock weights repacked at load: the same bits, also for experts and tied embeddings, and a reason if it is not done."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import SHAPES, Model, Shape, make, random_tokens

import specdec_native as sd
from specdec_native import _core


def tiny(name: str) -> Model:
    """Rows that K-quants divide into blocks, and a number of rows that fills no tile."""
    return make(name, shape=dataclasses.replace(SHAPES.get(name, Shape()), width=256, ffn=256, head=64))


@pytest.mark.parametrize("name", ["llama", "llama_tied", "mixtral"])
@pytest.mark.parametrize("type", ["Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K"])
def test_logits_are_the_same_bits(name: str, type: str, tmp_path: pathlib.Path) -> None:
    model = tiny(name)
    path = str(model.write(tmp_path / "m.gguf", GgmlType[type]))
    tokens = random_tokens(model, 90)
    for passes in [[8, 1, 3], [90]]:
        as_in_file, repacked = (_core.evaluate(path, tokens, passes, 2, repack=repack) for repack in (False, True))
        assert (as_in_file == repacked).all()


def test_what_has_no_tiles_stays_as_it_is(tmp_path: pathlib.Path, target_path: pathlib.Path) -> None:
    model = tiny("llama")
    path = str(model.write(tmp_path / "m.gguf", GgmlType.Q8_0))
    with pytest.raises(sd.ModelError, match="no weights that can be repacked"):
        _core.evaluate(str(target_path), [1, 2], [2], repack=True)  # F16
    with pytest.raises(sd.ModelError, match="no weights that can be repacked"):
        _core.evaluate(path, [1, 2], [2], mmap=False, repack=True)


def test_memory_that_is_needed_for_other_things_is_left(tmp_path: pathlib.Path) -> None:
    path = str(tiny("llama").write(tmp_path / "m.gguf", GgmlType.Q8_0))
    message = r"m\.gguf: the weights are not repacked, .*: \d+ MiB needed and 4398046511104 MiB to be left, \d+ MiB available"
    with pytest.raises(sd.ModelError, match=message):
        _core.evaluate(path, [1, 2], [2], repack=True, memory_to_leave=1 << 62)


def test_generators_write_the_same_text(tmp_path: pathlib.Path) -> None:
    path = tiny("llama").write(tmp_path / "m.gguf", GgmlType.Q4_K)
    results = []
    for repack in (True, False):
        gen = sd.Generator(path, draft="ngram", repack=repack, n_ctx=128)
        results.append(gen.generate([1, 2, 3], max_tokens=60, seed=3))
    assert results[0].tokens == results[1].tokens
    assert len(results[0].tokens) > 5
