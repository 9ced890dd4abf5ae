"""Speculative decoding of models with recurrent layers, whose state cannot simply be cut: snapshots and checkpoints."""

from __future__ import annotations

import math
import pathlib

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.engine.interruptions import check_cancelled_passes, check_stops
from tests.models.tiny_models import RECURRENT, make, random_tokens

import specdec_native as sd

ROOT = pathlib.Path(__file__).parents[2]
PROMPT = "def the self return"
OPTIONS: sd.StreamOptions = {"max_tokens": 48, "logit_bias": {1: -math.inf}}  # texts of full length


@pytest.fixture(scope="module", params=RECURRENT)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    model, folder = make(request.param), tmp_path_factory.mktemp(request.param)
    return model.write(folder / "target.gguf", GgmlType.F16), model.near(0.1).write(folder / "draft.gguf", GgmlType.F16)


def generator(target: pathlib.Path, draft: pathlib.Path | str | None = None, **options: int) -> sd.Generator:
    return sd.Generator(target, draft, n_threads=1, n_ctx=512, **options)


# Up to 8 drafts are rolled back by snapshots where llama.cpp has them; more by a checkpoint.
@pytest.mark.parametrize("num_draft_tokens", [1, 5, 12])
def test_greedy_text_does_not_depend_on_the_draft(
    pair: tuple[pathlib.Path, pathlib.Path], num_draft_tokens: int
) -> None:
    target, draft = pair
    expected = generator(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    assert len(expected) == 48 and len(set(expected)) > 10
    for source in (draft, "suffix", "ngram"):
        gen = generator(target, source)
        for k in (num_draft_tokens, "auto"):
            completion = gen.generate(PROMPT, temperature=0, num_draft_tokens=k, **OPTIONS)
            assert completion.tokens == expected, (source, k)
    completion = generator(target, draft).generate(PROMPT, temperature=0, num_draft_tokens=num_draft_tokens, **OPTIONS)
    assert 0 < completion.stats.accepted < completion.stats.drafted


def test_more_drafts_than_snapshots(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    """A request may ask for more than the Generator was made for."""
    target, draft = pair
    expected = generator(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    gen = generator(target, draft, num_draft_tokens=1)
    for k in (12, 1, 2, 12):
        completion = gen.generate(PROMPT, temperature=0, num_draft_tokens=k, **OPTIONS)
        assert completion.tokens == expected and 0 < completion.stats.accepted < completion.stats.drafted


def test_a_model_accepts_all_of_its_own_drafts(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    """All, because its logits have the same bits one by one, in a pass of 6, and after a checkpoint."""
    target, _ = pair
    gen = sd.Generator(target, target, suffix=False, n_threads=1, n_ctx=512)
    for seed in (1, 2):
        stats = gen.generate(PROMPT, temperature=0.8, seed=seed, num_draft_tokens=5, **OPTIONS).stats
        assert stats.drafted >= 35 and stats.acceptance_rate == 1


def test_a_seed_gives_the_same_text_with_any_draft(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, draft = pair
    for seed in range(3):
        options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": seed}
        expected = generator(target).generate(PROMPT, **options).tokens
        for k in (2, 11):
            assert (
                generator(target, draft)
                .generate(PROMPT, num_draft_tokens=k, verification="invariant", **options)
                .tokens
                == expected
            )


def test_several_requests_together(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, draft = pair
    prompts = ["def the", "self return x", "def", "the the the self", PROMPT]
    plain = generator(target)
    expected = [plain.generate(prompt, temperature=0, **OPTIONS).tokens for prompt in prompts]
    for k in (3, 11):
        together = generator(target, draft, max_sequences=4, num_draft_tokens=k)
        for _ in range(2):  # the second time with reused prefixes
            completions = together.generate_many(prompts, temperature=0, **OPTIONS)
            assert [completion.tokens for completion in completions] == expected
        assert sum(completion.stats.accepted for completion in completions) > 0


def test_a_text_may_be_stopped_after_any_token(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    """The next one finds the state of the prefix that they share, or reads it again."""
    target, draft = pair
    expected = generator(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    for k in (4, 12):
        check_stops(generator(target, draft, num_draft_tokens=k), PROMPT, expected, 15, OPTIONS)


def test_cancelled_passes(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, draft = pair
    prompt = random_tokens(make("llama"), 200)
    expected = generator(target).generate(prompt, temperature=0, **OPTIONS).tokens
    check_cancelled_passes(generator(target, draft, num_draft_tokens=4), prompt, expected, OPTIONS)


def test_prompts_on_disk(pair: tuple[pathlib.Path, pathlib.Path], tmp_path: pathlib.Path) -> None:
    target, draft = pair
    gen = generator(target, draft, num_draft_tokens=4)
    expected = gen.generate(PROMPT, temperature=0, **OPTIONS).tokens
    num_tokens = gen.save_prefix(tmp_path / "prefix")
    again = generator(target, draft, num_draft_tokens=4)
    assert again.load_prefix(tmp_path / "prefix") == num_tokens
    longer = gen.tokenize(PROMPT) + expected
    more = again.generate(longer, temperature=0, **OPTIONS)
    assert more.stats.prompt_cached_tokens == num_tokens
    assert more.tokens == generator(target).generate(longer, temperature=0, **OPTIONS).tokens
