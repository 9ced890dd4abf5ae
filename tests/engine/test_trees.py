"""Trees of drafts: the text of greedy and seeded runs is the one without drafts, whatever shares their passes."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from tests.models.tiny_models import RECIPES, make, random_tokens

import specdec_native as sd

MAX_TOKENS = 48
SIZES = [1, 5, 16, 63]


@pytest.fixture(scope="module")
def plain() -> sd.Generator:
    return sd.Generator(n_threads=1, num_draft_tokens=0)


def of_trees(size: Any, **options: Any) -> sd.Generator:
    return sd.Generator(n_threads=1, suffix=False, draft_tree=size, auto_cache=False, **options)


@pytest.mark.parametrize("size", SIZES)
def test_texts_and_logprobs_are_those_without_drafts(
    plain: sd.Generator, library_prompts: list[str], size: int
) -> None:
    accepted = drafted = calls = 0
    with of_trees(size) as gen:
        for seed, prompt in enumerate(library_prompts):
            temperature = 0 if seed % 2 else 0.8
            runs = []
            for generator in [plain, gen]:
                stream = generator.stream(
                    prompt, max_tokens=MAX_TOKENS, temperature=temperature, seed=seed, top_logprobs=3
                )
                runs.append([(piece.token, piece.logprob, piece.top_logprobs) for piece in stream])
            assert runs[0] == runs[1]
            accepted += stream.stats.accepted
            drafted += stream.stats.drafted
            calls += stream.stats.target_calls
    assert accepted > len(library_prompts)  # the drafts did take part
    assert drafted > 0.3 * size * calls  # and were trees


def test_auto_gives_the_same_text(plain: sd.Generator, library_prompts: list[str]) -> None:
    with of_trees("auto") as gen:
        for prompt in library_prompts[:4]:
            expected = plain.generate(prompt, max_tokens=MAX_TOKENS, temperature=0)
            assert gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0).tokens == expected.tokens


def test_trees_and_copies(plain: sd.Generator) -> None:
    prompt = "def first(a, b):\n    return a + b\n\n" * 4 + "def second(a, b):\n"
    expected = plain.generate(prompt, max_tokens=MAX_TOKENS, temperature=0)
    with sd.Generator(n_threads=1, draft_tree=12, auto_cache=False) as gen:
        found = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0)
    assert found.tokens == expected.tokens
    assert found.stats.accepted_copies > 0


def test_batches_share_passes(plain: sd.Generator, library_prompts: list[str]) -> None:
    prompts = library_prompts[:5]
    expected = [plain.generate(p, max_tokens=MAX_TOKENS, temperature=0).tokens for p in prompts]
    with of_trees(9, max_sequences=5) as gen:
        found = gen.generate_many(prompts, max_tokens=MAX_TOKENS, temperature=0)
        assert [c.tokens for c in found] == expected
        assert sum(c.stats.accepted for c in found) > 0


@pytest.mark.parametrize(
    "options",
    [
        {"regex": "[a-z ]{20,60}"},
        {"repeat_penalty": 1.3, "penalty_last_n": 32},
        {"stop": ["\n\n", "return"]},
        {"logit_bias": {5: -100.0, 11: 3.0}},
        {"dry_multiplier": 0.8},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_changes_rows(plain: sd.Generator, library_prompts: list[str], options: dict[str, object]) -> None:
    with of_trees(14) as gen:
        for seed, prompt in enumerate(library_prompts[:4]):
            for temperature in [0, 0.9]:
                given: dict[str, object] = {"max_tokens": 40, "temperature": temperature, "seed": seed, **options}
                expected = plain.generate(prompt, **given)  # type: ignore[arg-type]
                assert gen.generate(prompt, **given).text == expected.text  # type: ignore[arg-type]


def test_a_fixed_number_of_drafts_is_a_chain(library_prompts: list[str]) -> None:
    with of_trees(16) as gen:
        stats = gen.generate(library_prompts[0], max_tokens=30, temperature=0, num_draft_tokens=3).stats
    assert stats.drafted <= 3 * stats.target_calls


def test_a_closed_stream_leaves_the_generator_usable(plain: sd.Generator, library_prompts: list[str]) -> None:
    expected = plain.generate(library_prompts[0], max_tokens=30, temperature=0).tokens
    with of_trees(16) as gen:
        for _ in range(3):
            stream = gen.stream(library_prompts[1], max_tokens=100)
            next(iter(stream))
            stream.close()
            assert gen.generate(library_prompts[0], max_tokens=30, temperature=0).tokens == expected


@pytest.mark.parametrize("name", RECIPES)
def test_every_architecture(name: str, tmp_path: pathlib.Path) -> None:
    """Those whose state cannot branch draft chains."""
    model = make(name)
    path = model.write(tmp_path / "m.gguf")
    prompt = random_tokens(model, 90)
    with sd.Generator(path, n_threads=2, n_ctx=200, num_draft_tokens=0) as gen:
        expected = [gen.generate(prompt, max_tokens=40, temperature=t, seed=4).tokens for t in [0, 1.0]]
    draft = make(name, seed=1).write(tmp_path / "d.gguf")
    for file in [path, draft]:  # nearly all drafts are accepted, or nearly none
        with sd.Generator(path, file, n_threads=2, n_ctx=200, draft_tree=20, suffix=False, auto_cache=False) as gen:
            for temperature, tokens in zip([0, 1.0], expected, strict=True):
                assert gen.generate(prompt, max_tokens=40, temperature=temperature, seed=4).tokens == tokens


def test_wrong_sizes() -> None:
    for size in [-1, 64, "many", 1.5]:
        with pytest.raises((ValueError, TypeError), match="draft_tree"):
            sd.Generator(draft_tree=size)  # type: ignore[arg-type]
