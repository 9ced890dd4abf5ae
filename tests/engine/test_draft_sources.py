"""A draft model and suffix decoding together: which source proposed what, and that it does not change the text."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import specdec_native as sd

PROMPT = "def bfs(graph, start):\n"
# Its continuation repeats it.
REPEATED = "".join(f"    self.assertEqual(add({i}, 1), {i + 1})\n" for i in range(12))


@pytest.fixture
def pair(target_path: pathlib.Path, draft_path: pathlib.Path) -> tuple[str, str]:
    return str(target_path), str(draft_path)


@pytest.mark.parametrize("num_draft_tokens", [4, "auto"])
def test_both_sources_propose(pair: tuple[str, str], num_draft_tokens: int) -> None:
    completion = sd.Generator(*pair, num_draft_tokens=num_draft_tokens, n_threads=1).generate(
        REPEATED, max_tokens=120, temperature=0
    )
    sources = [piece.draft_source for piece in completion.pieces]
    stats = completion.stats
    assert stats.accepted_copies == sources.count("suffix") <= stats.drafted_copies
    assert stats.accepted == sum(piece.from_draft for piece in completion.pieces)
    assert stats.accepted - stats.accepted_copies == sources.count("model")
    assert set(sources) <= {"suffix", "model", None}
    if num_draft_tokens == 4:  # whether "auto" drafts depends on measured times
        assert {"suffix", "model"} <= set(sources)


def test_the_text_does_not_depend_on_the_sources(pair: tuple[str, str]) -> None:
    target, draft = pair
    for options in ({"temperature": 0.0}, {"temperature": 0.8, "seed": 5}):
        given: Any = {"max_tokens": 80, **options}
        texts = {
            sd.Generator(target, source, n_threads=1).generate(REPEATED, **given).text
            for source in (None, draft, [draft], [draft, "suffix"], "suffix", ["suffix"], "ngram")
        }
        assert len(texts) == 1


def test_sources_are_given_as_a_list(pair: tuple[str, str]) -> None:
    target, draft = pair
    for generator, copies in (
        (sd.Generator(target, [draft]), False),
        (sd.Generator(target, draft, suffix=False), False),
        (sd.Generator(target, [pathlib.Path(draft), "suffix"]), True),
        (sd.Generator(target, ["suffix"]), True),
    ):
        stats = generator.generate(REPEATED, max_tokens=60, temperature=0, num_draft_tokens=4).stats
        assert (stats.drafted_copies > 0) == copies
        assert (stats.draft_calls > 0) == (stats.drafted > stats.drafted_copies)
    for sources in ([], [draft, draft], ["ngram", "suffix"]):
        with pytest.raises(ValueError, match="a list holds the path of one model"):
            sd.Generator(target, sources)


def test_many_sequences_use_both(pair: tuple[str, str]) -> None:
    prompts = [REPEATED, PROMPT, REPEATED + "    self", "import os\n"]
    alone = [sd.Generator(*pair, n_threads=1).generate(prompt, max_tokens=48, temperature=0).text for prompt in prompts]
    with sd.Generator(*pair, max_sequences=4, n_threads=1) as gen:
        together = gen.generate_many(prompts, max_tokens=48, temperature=0, num_draft_tokens=4)
    assert [completion.text for completion in together] == alone
    assert together[0].stats.accepted_copies > 0
