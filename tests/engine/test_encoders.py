"""Models that make embeddings only (BERT and its kin), against the forward pass in numpy."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.models.numpy_llama import F64Array, half
from tests.models.tiny_models import ENCODERS, F32Array, Model, Shape, make, make_encoder, word_pieces

import specdec_native as sd

TOKENS = [0, *range(5, 45)]


def layer_norm(model: Model, name: str, x: F64Array) -> F64Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled: F64Array = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return scaled * model.tensors[f"{name}.weight"] + model.tensors[f"{name}.bias"]


def gelu(x: F64Array) -> F64Array:
    y: F64Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return y


def rows_of_bert(model: Model, tokens: list[int]) -> F64Array:
    """Every token attends to all."""
    s, t = model.shape, model.tensors

    def linear(name: str, x: F64Array) -> F64Array:
        y: F64Array = x @ t[f"{name}.weight"].T.astype(np.float64) + t[f"{name}.bias"]
        return y

    x = t["token_embd.weight"][tokens] + t["token_types.weight"][0] + t["position_embd.weight"][: len(tokens)]
    x = layer_norm(model, "token_embd_norm", x.astype(np.float64))
    for i in range(s.layers):
        layer = f"blk.{i}"
        q, k, v = (linear(f"{layer}.attn_{name}", x).reshape(len(x), s.heads, s.head) for name in "qkv")
        scores = np.einsum("qhd,khd->hqk", half(q), half(k)) / np.sqrt(s.head)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out = np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), half(v)).reshape(len(x), -1)
        x = layer_norm(model, f"{layer}.attn_output_norm", x + linear(f"{layer}.attn_output", out))
        x = layer_norm(
            model, f"{layer}.layer_output_norm", x + linear(f"{layer}.ffn_down", gelu(linear(f"{layer}.ffn_up", x)))
        )
    return x


POOLED: dict[int, Callable[[F64Array], F64Array]] = {1: lambda x: x.mean(0), 2: lambda x: x[0], 3: lambda x: x[-1]}


@pytest.mark.parametrize("pooling_type", POOLED)
def test_bert(tmp_path: pathlib.Path, pooling_type: int) -> None:
    model = make_encoder("bert", shape=Shape(kv_heads=4, context=700))
    model = replace(model, keys={**model.keys, "pooling_type": pooling_type})
    model.write(tmp_path / "bert.gguf")
    long = [2 + i % 200 for i in range(650)]  # more than a pass of a model that makes text
    with sd.Generator(target=tmp_path / "bert.gguf", n_threads=2) as gen:
        rows = gen.embed([TOKENS, long, TOKENS[:1]])
    for row, tokens in zip(rows, (TOKENS, long, TOKENS[:1]), strict=True):
        expected = POOLED[pooling_type](rows_of_bert(model, tokens))
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=2e-3)


def embedded(path: pathlib.Path, texts: list[list[int]]) -> F32Array:
    with sd.Generator(target=path, n_threads=1) as gen:
        rows: F32Array = gen.embed(texts)
        return rows


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder(tmp_path: pathlib.Path, name: str) -> None:
    model = make_encoder(name, shape=Shape(kv_heads=4, layers=6))  # both kinds of attention of gemma-embedding
    model = replace(model, keys={**model.keys, "pooling_type": 2})
    path = model.write(tmp_path / "m.gguf")
    other_end = [*TOKENS[:-1], 99]
    rows = embedded(path, [TOKENS, other_end, TOKENS, list(range(2, 258)) * 4])
    assert np.isfinite(rows).all() and (rows[0] == rows[2]).all()
    assert np.abs(rows[0] - rows[1]).max() > 1e-3, "the first token's row depends on the last token"


def test_word_pieces(tmp_path: pathlib.Path) -> None:
    """[CLS] before a text and [SEP] after it, and ends of words."""
    vocabulary, keys = word_pieces(["the", "self", "##ish", "un", "##self"])
    model = make_encoder("bert", vocabulary=vocabulary)
    replace(model, keys={**model.keys, **keys}).write(tmp_path / "bert.gguf")
    with sd.Generator(target=tmp_path / "bert.gguf") as gen:
        assert gen.tokenize("The selfish unself") == [2, 4, 5, 6, 7, 8, 3]
        [of_text, of_tokens] = gen.embed(["the self", [2, 4, 5, 3]])
        assert (of_text == of_tokens).all()


def test_what_makes_no_text_says_so(tmp_path: pathlib.Path) -> None:
    path = make_encoder("bert", shape=Shape(kv_heads=4, context=300)).write(tmp_path / "bert.gguf")
    with pytest.warns(match="cannot read longer texts"), sd.Generator(target=path, n_ctx=4096) as gen:
        assert gen.n_ctx == 300
        for run in (gen.generate, gen.submit, gen.score):
            with pytest.raises(ValueError, match=r"bert.gguf is an embedding model \(bert\), which generates no text"):
                run("a")  # type: ignore[operator]
        with pytest.raises(sd.ContextFull):
            gen.embed([[5] * 301])
        gen.embed([[5] * 300])
    with pytest.raises(ValueError, match="is an embedding model, which generates no text"):
        sd.Generator(target=path, draft=make("llama").write(tmp_path / "draft.gguf"))


def test_an_encoder_is_no_draft(tmp_path: pathlib.Path) -> None:
    target = make("llama").write(tmp_path / "target.gguf")
    encoder = make_encoder("bert").write(tmp_path / "bert.gguf")
    with pytest.raises(sd.Error, match=r"bert\.gguf: is an embedding model"):
        sd.Generator(target=target, draft=encoder)


def test_an_encoder_that_ranks(tmp_path: pathlib.Path) -> None:
    model = make_encoder("bert")
    replace(model, keys={**model.keys, "pooling_type": 4}).write(tmp_path / "ranks.gguf")
    with sd.Generator(target=tmp_path / "ranks.gguf") as gen, pytest.raises(sd.ModelError, match="reranking model"):
        gen.embed("a")
