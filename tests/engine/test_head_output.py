"""Heads of models with many tokens find their logits in two passes, of which the target's output matrix keeps clear."""

from __future__ import annotations

import math
import pathlib

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.mxfp6_files import quantize
from tests.models.tiny_models import (
    Block,
    Model,
    Shape,
    Vocabulary,
    block_drafter,
    damped,
    eagle3_head,
    gemma4_assistant,
    idle_gemma4,
    make,
    with_head,
    with_mask,
)

import specdec_native as sd

PROMPT = "def the self return"
OPTIONS: sd.StreamOptions = {"max_tokens": 32, "logit_bias": {1: -math.inf}}  # texts of full length
SHAPE = Shape(width=128, head=32, ffn=128)


def model_and_head(kind: str, size: int) -> tuple[Model, Model | None]:
    vocabulary = Vocabulary(size=size)
    if kind.startswith("mtp"):
        model = with_head("qwen35", shape=SHAPE, vocabulary=vocabulary)
        if kind == "mtp":
            return model, None
        matrix = model.tensors["output.weight"]
        return model.with_tensors({f"blk.{SHAPE.layers}.nextn.shared_head_head.weight": matrix}), None
    if kind == "assistant":
        target = idle_gemma4(make("gemma4", shape=SHAPE, vocabulary=vocabulary))
        table = target.tensors["per_layer_token_embd.weight"]
        target = target.with_tensors({"per_layer_token_embd.weight": np.resize(table, (size, table.shape[1]))})
        return target, gemma4_assistant(target)
    if kind.startswith("block"):
        target = with_mask(make("llama", shape=SHAPE, vocabulary=vocabulary))
        return target, block_drafter(target, Block(biased=kind == "block-biased"))
    target = damped(make("llama", shape=SHAPE, vocabulary=vocabulary))
    return target, eagle3_head(target, own_parts=kind == "eagle3-own", tokens=size - 10)


Pair = tuple[pathlib.Path, pathlib.Path | str]


def write(kind: str, size: int, type: str, folder: pathlib.Path, specdec: pathlib.Path) -> Pair:
    target, head = model_and_head(kind, size)
    path = target.write(folder / "target.gguf", GgmlType.F16 if type == "mxfp6" else GgmlType[type])
    if type == "mxfp6":
        path = quantize(specdec, path)
    return path, "mtp" if head is None else head.write(folder / "head.gguf", GgmlType.F16)


@pytest.fixture(
    scope="module",
    params=[
        "mtp:F16",
        "mtp:Q8_0",
        "mtp:mxfp6",
        "mtp-own:Q8_0",
        "eagle3:F16",
        "eagle3:Q4_0",
        "eagle3-own:F16",
        "assistant:F16",
        "block:Q8_0",
        "block-biased:F16",
    ],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, specdec: pathlib.Path) -> Pair:
    kind, _, type = request.param.partition(":")
    return write(kind, 33_000, type, tmp_path_factory.mktemp(kind), specdec)


def generator(pair: Pair, weights: str = "4-bit", **options: int) -> sd.Generator:
    target, head = pair
    return sd.Generator(target, head, draft_weights=weights, suffix=False, n_threads=1, n_ctx=128, **options)


def plain(pair: Pair) -> sd.Generator:
    return sd.Generator(pair[0], num_draft_tokens=0, n_threads=1, n_ctx=128)


def test_the_text_is_that_of_plain_decoding(pair: Pair) -> None:
    gen, together = generator(pair), generator(pair, max_sequences=3)
    for seed, temperature in enumerate([0.0, 0.9, 0.9]):
        options: sd.StreamOptions = {**OPTIONS, "temperature": temperature, "seed": seed}
        expected = plain(pair).generate(PROMPT, **options)
        for k in (1, 5, "auto"):
            assert gen.generate(PROMPT, num_draft_tokens=k, **options).tokens == expected.tokens
    prompts = [PROMPT, "def the", "self return x"]
    completions = together.generate_many(prompts, num_draft_tokens=3, temperature=0, **OPTIONS)
    for prompt, completion in zip(prompts, completions, strict=True):
        assert completion.tokens == plain(pair).generate(prompt, temperature=0, **OPTIONS).tokens


def drafted_and_accepted(pair: Pair, weights: str, temperature: float) -> list[tuple[list[int], int, int]]:
    gen = generator(pair, weights)
    results = []
    for seed in range(6):
        options: sd.StreamOptions = {**OPTIONS, "temperature": temperature, "seed": seed, "verification": "token"}
        completion = gen.generate(f"{PROMPT} {seed}", num_draft_tokens=3, **options)
        results.append((completion.tokens, completion.stats.drafted, completion.stats.accepted))
    return results


def test_the_likeliest_drafts_are_the_same(pair: Pair) -> None:
    """Sampled ones differ now and then: the head knows the logits of unlikely tokens only roughly."""
    exact, rough = (drafted_and_accepted(pair, weights, 0.0) for weights in ("file", "4-bit"))
    assert [tokens for tokens, _, _ in exact] == [tokens for tokens, _, _ in rough]
    exactly, roughly = (sum(accepted for _, _, accepted in results) for results in (exact, rough))
    assert exactly > 0 and abs(exactly - roughly) <= 0.1 * exactly
    assert drafted_and_accepted(pair, "file", 0.9) != drafted_and_accepted(pair, "4-bit", 0.9)


def test_a_head_of_few_tokens_multiplies_all_of_its_rows(tmp_path: pathlib.Path, specdec: pathlib.Path) -> None:
    pair = write("mtp", 3000, "F16", tmp_path, specdec)
    assert drafted_and_accepted(pair, "file", 0.9) == drafted_and_accepted(pair, "4-bit", 0.9)


def test_the_target_does_without(pair: Pair) -> None:
    """Its own passes multiply all rows, also those that are not drafted from."""
    gen = generator(pair)
    tokens = gen.tokenize(PROMPT) + list(range(300, 340))
    assert gen.score(tokens).logprobs == plain(pair).score(tokens).logprobs


def test_weights_that_are_not_repacked(pair: Pair) -> None:
    target, head = pair
    options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": 1, "num_draft_tokens": 3}
    gen = sd.Generator(target, head, repack=False, mmap=False, n_ctx=128)
    assert gen.generate(PROMPT, **options).tokens == plain(pair).generate(PROMPT, **options).tokens
