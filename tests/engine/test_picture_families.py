"""Tiny models of many families that read pictures: greedy text and log-probabilities are the same with any draft or
none, alone and among requests, and with a prefix that was read before."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from tests.models.projectors import FAMILIES, make_pair, random_picture

import specdec_native as sd

PROMPT = "def the self return"
WITHOUT_END = {1: float("-inf")}
PICTURE, OTHER = random_picture(40, 30), random_picture(40, 30, seed=1)

Answer = list[tuple[int, float]]


def answer(gen: sd.Generator, prompt: str = PROMPT, images: Any = PICTURE, **options: Any) -> Answer:
    options = {"max_tokens": 40, "temperature": 0, "logit_bias": WITHOUT_END, **options}
    pieces = gen.generate(prompt, images=images, **options).pieces
    return [(piece.token, piece.logprob) for piece in pieces]


class Files:
    def __init__(self, name: str, folder: pathlib.Path) -> None:
        pair = make_pair(name)
        self.target, self.projector = pair.write(folder)
        self.draft = pair.target.near(0.15).write(folder / "draft.gguf")

    def generator(self, draft: Any = None, **options: Any) -> sd.Generator:
        options = {"n_threads": 1, "num_draft_tokens": 4, **options}
        return sd.Generator(self.target, draft, mmproj=self.projector, **options)


@pytest.fixture(params=FAMILIES)
def files(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Files:
    return Files(request.param, tmp_path)


def test_the_answer_depends_on_the_picture_and_on_no_draft(files: Files) -> None:
    plain = files.generator(num_draft_tokens=0)
    expected, other = answer(plain), answer(plain, images=OTHER)
    assert len(expected) == 40 and expected[0][1] != other[0][1]
    assert answer(plain) == expected  # the prefix was read before
    assert plain.stats.prompt_cached_tokens > 0
    with_draft = files.generator(files.draft)
    for num_draft_tokens in (1, 4, "auto"):
        assert answer(with_draft, num_draft_tokens=num_draft_tokens) == expected
    assert with_draft.stats.drafted > 0
    assert answer(with_draft, images=OTHER) == other
    assert answer(files.generator("suffix")) == expected


def test_pictures_among_requests(files: Files) -> None:
    plain = files.generator(num_draft_tokens=0)
    images: list[Any] = [PICTURE, OTHER, None, [PICTURE, OTHER], [OTHER, OTHER]]
    expected = [answer(plain, images=one) for one in images]
    gen = files.generator(files.draft, max_sequences=3)
    options: dict[str, Any] = {"max_tokens": 40, "temperature": 0, "logit_bias": WITHOUT_END}
    requests = [gen.submit(PROMPT, images=one, **options) for one in images]
    assert [[(piece.token, piece.logprob) for piece in one.result().pieces] for one in requests] == expected


def test_the_context_ends(files: Files) -> None:
    """In a picture, or soon after one."""
    plain = files.generator(num_draft_tokens=0)
    answer(plain)
    length = plain.stats.prompt_tokens
    for context in range(length - 8, length + 24, 5):
        gens = [files.generator(draft, n_ctx=context) for draft in (None, files.draft)]
        if context <= length:
            for gen in gens:
                with pytest.raises(sd.ContextFull):
                    answer(gen)
                answer(gen, images=None, max_tokens=2)
        else:
            one, two = (answer(gen, max_tokens=100) for gen in gens)
            assert one == two and len(one) <= 32


def test_a_seed_gives_the_same_text(files: Files) -> None:
    options: dict[str, Any] = {"temperature": 1.0, "seed": 7, "max_tokens": 24}
    expected = answer(files.generator(num_draft_tokens=0), **options)
    assert answer(files.generator(files.draft), **options) == expected
