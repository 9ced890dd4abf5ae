"""Keys and values in 8.5 bits: logits do not depend on the passes, and are close to those with 16 bits."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import SHAPES, Model, Shape, make, random_tokens

import specdec_native as sd
from specdec_native import _core

LENGTH = 300


def model_with_heads(name: str, head: int) -> Model:
    return make(name, shape=dataclasses.replace(SHAPES.get(name, Shape()), head=head))


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "gemma3", "mixtral", "gpt-oss"])
def test_logits_do_not_depend_on_the_passes(name: str, tmp_path: pathlib.Path) -> None:
    model = model_with_heads(name, 64)
    path = str(model.write(tmp_path / "m.gguf", GgmlType.F16))
    tokens = random_tokens(model, LENGTH)
    expected = _core.evaluate(path, tokens, [1], 1, "q8_0")
    for sizes, threads in (([8], 1), ([3, 7, 5], 2), ([64, 2], 1)):
        assert (_core.evaluate(path, tokens, sizes, threads, "q8_0") == expected).all()


@pytest.mark.parametrize("head", [32, 64])
def test_logits_are_close_to_those_of_f16(head: int, tmp_path: pathlib.Path) -> None:
    model = model_with_heads("llama", head)
    path = str(model.write(tmp_path / "m.gguf", GgmlType.F16))
    tokens = random_tokens(model, LENGTH)
    f16, q8_0 = (_core.evaluate(path, tokens, [LENGTH], 1, kv_type) for kv_type in ("f16", "q8_0"))
    error = np.sqrt(((q8_0 - f16) ** 2).mean())
    assert 0 < error < 0.02 * f16.std()


def test_heads_that_blocks_do_not_fit_are_rejected(tmp_path: pathlib.Path) -> None:
    path = make("llama").write(tmp_path / "m.gguf", GgmlType.F16)  # heads of 16
    with pytest.raises(sd.ModelError, match=r"m\.gguf: kv_type q8_0 .* heads are 16 and 16 .* Use kv_type f16"):
        sd.Generator(path, kv_type="q8_0")
    assert sd.Generator(path, kv_type="f16").generate("def", max_tokens=2, seed=1).tokens


def test_other_types_are_rejected() -> None:
    with pytest.raises(ValueError, match='kv_type is "q4_0"; it must be f16 or q8_0'):
        sd.Generator(kv_type="q4_0")
