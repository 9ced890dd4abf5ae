"""The target as its own draft, rounded, over its own cache: no text changes, and no prompt is read twice."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.engine.branching import check_trees
from tests.models.tiny_models import RECIPES, make

import specdec_native as sd

MAX_TOKENS = 40


@pytest.fixture(scope="module")
def plain() -> sd.Generator:
    return sd.Generator(n_threads=1, draft="none")


def of_itself(**options: object) -> sd.Generator:
    given = {"n_threads": 1, "suffix": False, "auto_cache": False} | options
    return sd.Generator(draft="self", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [1, 3, 16, 63, "auto"])
@pytest.mark.parametrize("weights", ["file", "3-bit", "2-bit"])
def test_texts_and_logprobs_are_those_without_drafts(
    plain: sd.Generator, library_prompts: list[str], k: int | str, weights: str
) -> None:
    accepted = 0
    with of_itself(num_draft_tokens=k, draft_weights=weights) as gen:
        for seed, prompt in enumerate(library_prompts[:6]):
            runs = []
            for generator in [plain, gen]:
                stream = generator.stream(
                    prompt,
                    max_tokens=MAX_TOKENS,
                    temperature=0.8 * (seed % 2),
                    seed=seed,
                    top_logprobs=3,
                    verification="invariant",
                )
                runs.append([(piece.token, piece.logprob, piece.top_logprobs) for piece in stream])
            assert runs[0] == runs[1]
            accepted += stream.stats.accepted
    assert accepted > 6 or k == "auto"


def test_drafts_read_what_the_target_has_read(plain: sd.Generator, library_prompts: list[str]) -> None:
    """With the file's weights its drafts are right, whatever the length of the prompt, which is read once."""
    prompt = "".join(library_prompts[:2])
    expected = plain.generate(prompt, max_tokens=MAX_TOKENS, temperature=0).tokens
    with of_itself(num_draft_tokens=7, draft_weights="file") as gen:
        found = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0)
    assert found.tokens == expected
    assert found.stats.accepted == found.stats.drafted > 0
    assert found.stats.draft_tokens_read == found.stats.drafted
    assert found.stats.prompt_tokens > MAX_TOKENS


@pytest.mark.parametrize("size", ["auto", 1, 16])
def test_trees(size: int | str) -> None:
    def branching(count: int) -> sd.Generator:
        return of_itself(draft_tree=size, max_sequences=count)

    with sd.Generator(n_threads=1, draft="none") as alone:
        check_trees(alone, branching, None if size == "auto" else 0.3 * int(size))


def test_copies_take_part(plain: sd.Generator) -> None:
    prompt = "def first(a, b):\n    return a + b\n\n" * 4 + "def second(a, b):\n"
    expected = plain.generate(prompt, max_tokens=MAX_TOKENS, temperature=0).tokens
    for k in (6, "auto"):
        with of_itself(num_draft_tokens=k, suffix=True) as gen:
            found = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0)
        assert found.tokens == expected
        assert found.stats.accepted_copies > 0


def test_to_the_end_of_the_context(plain: sd.Generator, library_prompts: list[str]) -> None:
    with sd.Generator(n_threads=1, draft="none", n_ctx=64) as alone, of_itself(num_draft_tokens=16, n_ctx=64) as gen:
        for prompt in library_prompts[:4]:
            expected = alone.generate(prompt[:60], max_tokens=200, temperature=0, ignore_eos=True)
            found = gen.generate(prompt[:60], max_tokens=200, temperature=0, ignore_eos=True)
            assert (found.tokens, found.finish_reason) == (expected.tokens, expected.finish_reason)


def test_what_a_cancelled_cycle_has_read_is_gone(plain: sd.Generator, library_prompts: list[str]) -> None:
    prompt = library_prompts[0]
    expected = plain.generate(prompt, max_tokens=MAX_TOKENS, temperature=0).tokens
    with of_itself(num_draft_tokens=16, max_sequences=2) as gen:
        for delay in range(12):
            handles = [gen.submit(prompt, max_tokens=200, temperature=0.9) for _ in range(2)]
            threading.Event().wait(0.004 * delay)
            for handle in handles:
                handle.cancel()
            found = gen.submit(prompt, max_tokens=MAX_TOKENS, temperature=0).result()
            assert found.tokens == expected


def test_saved_prefixes(plain: sd.Generator, library_prompts: list[str], tmp_path: pathlib.Path) -> None:
    prompt, path = library_prompts[0] * 2, tmp_path / "prompt"
    expected = plain.generate(prompt, max_tokens=MAX_TOKENS, temperature=0).tokens
    for _ in range(2):
        with of_itself(num_draft_tokens=5) as gen:
            if path.exists():
                gen.load_prefix(path)
            found = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0)
            assert found.tokens == expected
            assert found.stats.accepted > 0
            gen.save_prefix(path)
    assert found.stats.prompt_cached_tokens > 0


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_every_family(recipe: str, tmp_path: pathlib.Path) -> None:
    """A state that cannot branch drafts with a copy of its own."""
    path = str(make(recipe).write(tmp_path / "m.gguf", GgmlType.Q8_0))
    options: Any = {"max_tokens": 24, "ignore_eos": True, "seed": 5}
    with sd.Generator(path, n_threads=1, n_ctx=128, draft="none") as alone:
        expected = [alone.generate("def x", temperature=t, **options).tokens for t in (0, 0.8)]
    with sd.Generator(
        path, n_threads=1, n_ctx=128, draft="self", num_draft_tokens=3, suffix=False, draft_weights="3-bit"
    ) as gen:
        for t, tokens in zip((0, 0.8), expected, strict=True):
            found = gen.generate("def x", temperature=t, verification="invariant", **options)
            assert found.tokens == tokens
            assert found.stats.drafted > 0
