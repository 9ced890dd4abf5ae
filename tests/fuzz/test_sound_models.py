"""What the fuzzers change is sound: otherwise they would test rejections only."""

from __future__ import annotations

import pathlib

import gguf
import pytest
from tests.fuzz import make_models
from tests.models.tiny_models import RECIPES

import specdec_native as sd


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sound")
    make_models.main(folder)
    return folder


def test_all_generate(models: pathlib.Path) -> None:
    architectures, tokenizers = set(), set()
    for path in sorted(models.glob("*.gguf")):
        with sd.Generator(path, draft="ngram", n_ctx=64, n_threads=1) as gen:
            assert gen.generate("Hello", max_tokens=4, seed=1).stats.tokens > 0, path.name
        fields = gguf.GGUFReader(path).fields
        architectures.add(fields["general.architecture"].contents())
        tokenizers.add(fields["tokenizer.ggml.model"].contents())
    assert len(architectures) >= 20, architectures
    assert tokenizers == {"gpt2", *make_models.BYTES}


def test_there_is_one_of_every_recipe(models: pathlib.Path) -> None:
    assert {path.stem for path in models.glob("*.gguf")} >= set(RECIPES)
