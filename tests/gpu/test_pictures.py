"""Pictures before a target on a device: the text and its log-probabilities are those without drafts, alone, among
requests, and with a prefix that is read again. Attention over a picture in both directions, positions in several axes,
a recurrent state."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.test_pictures import PICTURES, Files, files_of

import specdec_native as sd

TOKENS = 12
BEFORE, BETWEEN = "the of and to in " * 25, "that the of to " * 20  # more than a piece of 64 tokens
QUESTION = "what is it"
Make = Callable[..., sd.Generator]


@pytest.fixture(scope="module", params=["gemma3", "qwen2vl", "qwen35"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return files_of(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def make(device: str, files: Files) -> Make:
    def on_device(draft: Any = None, **options: Any) -> sd.Generator:
        places = {"n_gpu_layers": "all", "devices": device, "devices_draft": "none", "n_threads": 1}
        sizes = {"n_ctx": 700, "n_batch": 64, "auto_cache": False, "suffix": False}
        return sd.Generator(files[0], draft, mmproj=files[1], **places, **(sizes | options))

    return on_device


def message(*parts: Any) -> list[dict[str, Any]]:
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": part} for part in parts
    ]
    return [{"role": "user", "content": content}]


LONG = message(BEFORE, PICTURES[0], BETWEEN, PICTURES[1], QUESTION)
SHORT = message(PICTURES[1], QUESTION)


def answer(gen: sd.Generator, messages: Any, temperature: float = 0.0) -> list[tuple[int, float]]:
    made = gen.chat(messages, max_tokens=TOKENS, temperature=temperature, seed=3, ignore_eos=True)
    return [(piece.token, piece.logprob) for piece in made.pieces]


@pytest.fixture(scope="module")
def expected(make: Make) -> dict[str, Any]:
    gen = make(num_draft_tokens=0)
    assert gen._core.placement.startswith("3 of 3 layers of target.gguf run on ")
    return {
        "long": answer(gen, LONG),
        "sampled": answer(gen, LONG, 1.0),
        "short": answer(make(num_draft_tokens=0), SHORT),
    }


def test_any_draft_gives_the_same(make: Make, files: Files, expected: dict[str, Any]) -> None:
    for draft, count in ((files[2], 4), (files[0], 3), ("suffix", 5)):
        gen = make(draft, num_draft_tokens=count)
        assert answer(gen, LONG) == expected["long"]
        assert answer(gen, LONG, 1.0) == expected["sampled"]


def test_requests_share_passes(make: Make, files: Files, expected: dict[str, Any]) -> None:
    gen = make(files[2], num_draft_tokens=3, max_sequences=3)
    handles = [
        gen.submit_chat(messages, max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
        for messages in (LONG, SHORT, LONG, SHORT)
    ]
    for handle, name in zip(handles, ("long", "short", "long", "short"), strict=True):
        assert handle.result().tokens == [token for token, _ in expected[name]]


def test_the_second_question_reads_what_differs(make: Make, files: Files) -> None:
    """Reuse ends with whole pieces: behind the last picture, none of which is one, with the picture."""
    other = message(BEFORE, PICTURES[0], BETWEEN, PICTURES[1], "which one do you see")
    gen = make(files[2], num_draft_tokens=3)
    gen.chat(LONG, max_tokens=4, temperature=0)
    again = gen.chat(other, max_tokens=TOKENS, temperature=0, ignore_eos=True)
    assert again.tokens == [token for token, _ in answer(make(num_draft_tokens=0), other)]
    cached, length = again.stats.prompt_cached_tokens, again.stats.prompt_tokens
    assert cached == 0 if has_recurrent_state(files) else length - 40 < cached < length
    # A prompt that has only the first picture shares what was read with it.
    shorter = message(BEFORE, PICTURES[0], QUESTION)
    less = gen.chat(shorter, max_tokens=TOKENS, temperature=0, ignore_eos=True)
    assert less.tokens == [token for token, _ in answer(make(num_draft_tokens=0), shorter)]
    assert has_recurrent_state(files) or 64 < less.stats.prompt_cached_tokens < cached


def test_kept_prefixes(make: Make, files: Files, expected: dict[str, Any], tmp_path: pathlib.Path) -> None:
    gen = make(num_draft_tokens=0)
    gen.chat(LONG, max_tokens=1, temperature=0)
    gen.save_prefix(tmp_path / "prefix")
    fresh = make(files[2], num_draft_tokens=3)
    fresh.load_prefix(tmp_path / "prefix")
    assert answer(fresh, LONG) == expected["long"]


def has_recurrent_state(files: Files) -> bool:
    return files[0].parent.name.startswith("qwen35")
