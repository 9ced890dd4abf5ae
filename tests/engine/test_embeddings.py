"""Generator.embed, against the forward pass in numpy."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import numpy as np
import pytest
from tests.models.numpy_llama import F64Array, exact, layer_inputs, rms_norm
from tests.models.tiny_models import Model, make

import specdec_native as sd

TOKENS = [0, *range(5, 45)]


def expected(model: Model, tokens: list[int], pooling: str) -> F64Array:
    rows = rms_norm(layer_inputs(model, tokens, exact)[-1], model.tensors["output_norm.weight"])
    row: F64Array = {"mean": rows.mean(0), "first": rows[0], "last": rows[-1]}[pooling]
    return row / np.linalg.norm(row)


def with_pooling(model: Model, pooling_type: int | None) -> Model:
    return model if pooling_type is None else replace(model, keys={**model.keys, "pooling_type": pooling_type})


@pytest.mark.parametrize(
    ("pooling_type", "pooling"), [(None, "mean"), (0, "mean"), (1, "mean"), (2, "first"), (3, "last")], ids=str
)
def test_pooled_as_the_file_says(tmp_path: pathlib.Path, pooling_type: int | None, pooling: str) -> None:
    model = with_pooling(make("llama"), pooling_type)
    model.write(tmp_path / "m.gguf")
    with sd.Generator(target=tmp_path / "m.gguf") as gen:
        rows = gen.embed([TOKENS, TOKENS[:1]])
        assert rows.shape == (2, model.shape.width) and rows.dtype == np.float32
        for row, tokens in zip(rows, (TOKENS, TOKENS[:1]), strict=True):
            np.testing.assert_allclose(row, expected(model, tokens, pooling), atol=2e-3)
            assert abs(float(np.linalg.norm(row)) - 1) < 1e-6


@pytest.mark.parametrize("pooling_type", [1, 2, 3])
def test_texts_longer_than_a_pass(tmp_path: pathlib.Path, pooling_type: int) -> None:
    model = with_pooling(make("llama"), pooling_type)
    model.write(tmp_path / "m.gguf")
    tokens = [2 + i % 200 for i in range(900)]  # a pass has 512
    with sd.Generator(target=tmp_path / "m.gguf", n_ctx=1024) as gen:
        [row] = gen.embed([tokens])
    pooling = {1: "mean", 2: "first", 3: "last"}[pooling_type]
    np.testing.assert_allclose(row, expected(model, tokens, pooling), atol=2e-3)


def test_the_same_bits_each_time() -> None:
    with sd.Generator() as gen:
        text = "def bfs(graph, start):"
        [row] = gen.embed(text)
        again = gen.embed(["import os", text, "x = 1\n" * 50, gen.tokenize(text)])
        assert (again[1] == row).all() and (again[3] == row).all() and (again[0] != row).any()


def test_requests_keep_their_caches() -> None:
    prompt = "def bfs(graph, start):\n" * 8
    with sd.Generator() as gen:
        whole = gen.generate(prompt, max_tokens=40, seed=3)
        stream = gen.stream(prompt, max_tokens=40, seed=3)
        text = next(stream).text
        gen.embed(["import os\n" * 50])
        text += "".join(piece.text for piece in stream)
        assert text == whole.text
        gen.embed("another text")
        assert gen.generate(prompt, max_tokens=1).stats.prompt_cached_tokens >= len(gen.tokenize(prompt)) - 1


@pytest.mark.parametrize("architecture", ["qwen3", "gemma2", "mamba", "lfm2"])
def test_other_architectures(tmp_path: pathlib.Path, architecture: str) -> None:
    make(architecture).write(tmp_path / "m.gguf")
    with sd.Generator(target=tmp_path / "m.gguf", n_threads=1) as gen:
        rows = gen.embed([TOKENS, TOKENS[:9], TOKENS])
        assert np.isfinite(rows).all() and (rows[0] == rows[2]).all() and (rows[0] != rows[1]).any()


def test_bad_texts(tmp_path: pathlib.Path) -> None:
    with sd.Generator(n_ctx=64) as gen:
        with pytest.raises(ValueError, match="texts is empty"):
            gen.embed([])
        with pytest.raises(sd.ContextFull):
            gen.embed("a b c " * 100)
        with pytest.raises(sd.ContextFull):
            gen.embed([[5] * 65])
        with pytest.raises(ValueError, match="a token"):
            gen.embed([[10**6]])
        with pytest.raises(TypeError, match="texts"):
            gen.embed([3])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="no tokens"):
            gen.embed([[]])
    with_pooling(make("llama"), 4).write(tmp_path / "ranks.gguf")
    with sd.Generator(target=tmp_path / "ranks.gguf") as gen, pytest.raises(sd.ModelError, match="reranking model"):
        gen.embed("a")
    with pytest.raises(sd.Error):  # closed
        gen.embed("a")
