"""The suffix index against a search of all suffixes in Python, on texts that Hypothesis makes."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LONGEST_MATCH = 31  # TextIndex::max_depth - 1


class Index:
    def __init__(self, program: pathlib.Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, command: str, *numbers: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join([command, *map(str, numbers)]) + "\n")

    def find(self, context: Sequence[int]) -> tuple[int, ...]:
        self.tell("find", *context)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.flush()
        return tuple(map(int, self.process.stdout.readline().split()))


@pytest.fixture(scope="module")
def index(built: Callable[[str], pathlib.Path]) -> Iterator[Index]:
    index = Index(built("speculative/test_suffix_index_replay"))
    yield index
    assert index.process.stdin is not None
    index.process.stdin.close()
    assert index.process.wait() == 0


def search(text: Sequence[int], context: Sequence[int]) -> tuple[int, ...]:
    """Length of the longest match, the likeliest token after it, how often it follows, how often any does.

    Of equally frequent tokens, the one that followed for the first time latest.
    """
    for length in range(min(len(context), LONGEST_MATCH), 0, -1):
        following: dict[int, list[int]] = {}
        for start in range(len(text) - length):
            if text[start : start + length] == context[-length:]:
                following.setdefault(text[start + length], []).append(start)
        if following:
            token, starts = max(following.items(), key=lambda item: (len(item[1]), item[1][0]))
            return length, token, len(starts), sum(map(len, following.values()))
    return 0, -1, 0, 0


def tokens(most: int) -> st.SearchStrategy[list[int]]:
    return st.integers(1, 4).flatmap(lambda words: st.lists(st.integers(0, words), max_size=most))


# Tokens to add, a part of the text to say again (start, length), or how many tokens to take back.
steps = st.lists(
    st.one_of(tokens(40), st.tuples(st.integers(0, 200), st.integers(1, 60)), st.integers(0, 50)), min_size=1, max_size=12
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(steps=steps, elsewhere=tokens(40))
def test_it_finds_what_a_search_finds(
    index: Index, steps: list[list[int] | tuple[int, int] | int], elsewhere: list[int]
) -> None:
    text: list[int] = []
    index.tell("clear")
    for step in steps:
        if isinstance(step, int):
            text = text[: max(0, len(text) - step)]
            index.tell("truncate", len(text))
        else:
            added = step if isinstance(step, list) else (text + text)[step[0] : step[0] + step[1]]
            text = text + added
            index.tell("push", *added)
        for context in (text[-40:], elsewhere):
            assert index.find(context) == search(text, context)


def test_the_search_can_tell_a_wrong_index(index: Index) -> None:
    index.tell("clear")
    index.tell("push", 1, 2, 3, 1, 2)
    assert index.find([1, 2]) == search([1, 2, 3, 1, 2], [1, 2]) != search([1, 2, 4, 1, 2], [1, 2])
