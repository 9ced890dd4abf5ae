"""Conversations keep what the server has read of them, whatever comes between their turns."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from tests.server.running import Server, serving

WORDS = "for name in os.listdir(folder):\n    print(name)\n"


@pytest.fixture
def server(specdec: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "-np", "4", "-c", "2048", "--no-repack") as running:
        yield running


class Talk:
    """A conversation whose text grows turn by turn; each turn says how much was cached and read."""

    def __init__(self, server: Server, name: str, repeats: int) -> None:
        self.server, self.text = server, f"import os\n\ndef {name}(folder):\n" + WORDS * repeats

    def turn(self) -> tuple[int, int]:
        body = self.server.complete(prompt=self.text, max_tokens=8, temperature=0, seed=1)
        self.text += body["choices"][0]["text"] + f"\n# {len(self.text)}\n"
        timings, usage = body["timings"], body["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == timings["cache_n"]
        assert usage["prompt_tokens"] == timings["cache_n"] + timings["prompt_n"]
        return timings["cache_n"], timings["prompt_n"]


def test_a_side_request_does_not_cost_a_conversation_its_prefix(server: Server) -> None:
    talk = Talk(server, "walk", 30)
    cached, read = talk.turn()
    assert cached <= 3 and read > 400
    for number in range(6):
        side = Talk(server, f"side{number}", 1)
        side.turn()
        cached, read = talk.turn()
        assert cached > 400 and read < 40, number


def test_conversations_that_take_turns_keep_theirs(server: Server) -> None:
    talks = [Talk(server, name, repeats) for name, repeats in (("walk", 20), ("scan", 12), ("look", 16))]
    for talk in talks:
        assert talk.turn()[1] > 150
    for _ in range(4):
        for talk in talks:
            assert talk.turn()[1] < 40
