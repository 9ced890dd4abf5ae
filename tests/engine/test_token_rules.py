"""Tokens that may not come, or end an output: with any draft or none, for the drafts too."""

from __future__ import annotations

import string
from typing import Any

import pytest

import specdec_native as sd

PROMPT = "def bfs(graph, start):"


@pytest.fixture(scope="module")
def gen() -> sd.Generator:
    return sd.Generator(n_threads=1)


def outputs(gen: sd.Generator, **options: Any) -> list[sd.Completion]:
    """Without drafts and with, greedy and sampled."""
    found = []
    for sampling in ({"temperature": 0}, {"seed": 1}, {"seed": 2, "verification": "block"}):
        for k in (0, 5, "auto"):
            common: dict[str, Any] = {"max_tokens": 24, "num_draft_tokens": k, **sampling}
            found.append(gen.generate(PROMPT, **{**common, **options}))
    return found


def test_outputs_of_some_length(gen: sd.Generator) -> None:
    end = {gen.metadata["tokenizer.ggml.eos_token_id"]: 100.0}  # likely
    for completion in outputs(gen, logit_bias=end):
        assert len(completion.tokens) == 1 and completion.finish_reason == "stop"
    for completion in outputs(gen, logit_bias=end, min_tokens=7):
        assert len(completion.tokens) == 8 and completion.finish_reason == "stop"
    for completion in outputs(gen, logit_bias=end, ignore_eos=True):
        assert len(completion.tokens) == 24 and completion.finish_reason == "length"


def test_stop_tokens(gen: sd.Generator) -> None:
    for free in outputs(gen):
        stop = free.tokens[10]
        options: dict[str, Any] = {"max_tokens": 24, "num_draft_tokens": 5, "seed": free.seed, "temperature": 0}
        tokens = gen.generate(PROMPT, **options).tokens
        ended = gen.generate(PROMPT, **options, stop_token_ids=[stop])
        assert ended.tokens == (tokens[: tokens.index(stop) + 1] if stop in tokens else tokens)
        later = gen.generate(PROMPT, **options, stop_token_ids=[tokens[0]], min_tokens=3)
        assert tokens[0] not in later.tokens[:3]


def test_tokens_that_are_allowed(gen: sd.Generator) -> None:
    allowed = gen.tokenize("abc def") + gen.tokenize("return")
    for completion in outputs(gen, allowed_token_ids=allowed):
        assert set(completion.tokens) <= set(allowed)


def test_bad_words(gen: sd.Generator) -> None:
    words = ["return", "self", "import", "the", "in"]
    banned = [gen.tokenize(text, special=False) for word in words for text in (word, " " + word)]
    for completion in outputs(gen, bad_words=words):
        for i in range(len(completion.tokens)):
            assert not any(completion.tokens[i : i + len(one)] == one for one in banned)


def test_what_leaves_no_token(gen: sd.Generator) -> None:
    token = gen.tokenize("x")[-1]
    with pytest.raises(sd.Error, match="the banned tokens leave no token"):
        gen.generate(PROMPT, allowed_token_ids=[token], bad_words=[gen.detokenize([token])])
    for option, value in (("stop_token_ids", [10**6]), ("allowed_token_ids", [-1])):
        with pytest.raises(ValueError, match=option):
            gen.generate(PROMPT, **{option: value})
    for option in ("bad_words", "dry_sequence_breakers"):
        with pytest.raises(ValueError, match=f"{option} has an empty text"):
            gen.generate(PROMPT, **{option: ["", "a"], "dry_multiplier": 1.0})
    assert gen.generate(PROMPT, max_tokens=3).tokens


def test_dry_and_xtc_with_any_draft(gen: sd.Generator) -> None:
    """A seed gives one output."""
    for options in ({"dry_multiplier": 5.0}, {"dry_multiplier": 5.0, "dry_sequence_breakers": []}):
        for seed in (None, 1):
            common: dict[str, Any] = {
                "max_tokens": 60,
                "temperature": 0 if seed is None else 0.9,
                "seed": seed,
                **options,
            }
            assert len({gen.generate(PROMPT, **common, num_draft_tokens=k).text for k in (0, 3, 7)}) == 1
    plain = gen.generate(PROMPT, max_tokens=60, temperature=0).text
    dry: dict[str, Any] = {"max_tokens": 60, "temperature": 0, "dry_multiplier": 5.0}
    assert gen.generate(PROMPT, **dry).text != plain
    assert gen.generate(PROMPT, **dry, dry_sequence_breakers=list(string.printable)).text == plain
    assert gen.generate(PROMPT, **dry, dry_sequence_breakers=[]).text != plain
    assert gen.generate(PROMPT, max_tokens=60, temperature=0, xtc_probability=1.0).text == plain  # not when greedy
    for probability in (0.5, 1.0):
        xtc: dict[str, Any] = {"max_tokens": 40, "seed": 5, "xtc_probability": probability, "xtc_threshold": 0.05}
        texts = {gen.generate(PROMPT, **xtc, num_draft_tokens=k).text for k in (0, 3, 7)}
        assert len(texts) == 1 and texts != {gen.generate(PROMPT, max_tokens=40, seed=5).text}
