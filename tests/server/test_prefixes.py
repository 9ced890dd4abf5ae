"""Conversations keep what the server has read of them, whatever comes between their turns."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from tests.server.running import DidNotStart, Server, serving, wait_until

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


def texts(server: Server, turns: int = 3) -> list[tuple[str, int, int]]:
    """Two conversations that take turns: each turn's text, and what of its prompt was cached and read."""
    talks = [Talk(server, "walk", 20), Talk(server, "scan", 12)]
    result = []
    for _ in range(turns):
        for talk in talks:
            cached, read = talk.turn()
            result.append((talk.text, cached, read))
    return result


@pytest.mark.parametrize("draft", [[], ["-k", "0"], ["--draft", "suffix"]])
def test_more_conversations_than_slots(specdec: pathlib.Path, draft: list[str]) -> None:
    options = ["-np", "1", "-c", "2048", "--no-repack", *draft]
    with serving(specdec, *options, "--cache-ram", "0") as server:
        read_again = texts(server)
        assert min(read for _, _, read in read_again) > 150
    with serving(specdec, *options, "--cache-ram", "512") as server:
        kept = texts(server)
        assert max(read for _, _, read in kept[2:]) < 40
    assert [text for text, _, _ in kept] == [text for text, _, _ in read_again]


def test_a_restarted_server_goes_on_where_it_was(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = ["-np", "2", "-c", "2048", "--no-repack", "--cache-disk", f"{tmp_path / 'kept'}:100"]
    with serving(specdec, *options) as server:
        talk = Talk(server, "walk", 30)
        assert talk.turn()[1] > 400
        assert server.stop()[0] == 0
    before = talk.text
    with serving(specdec, *options) as server:
        talk.server = server
        cached, read = talk.turn()
        assert cached > 400 and read < 40
        files = list((tmp_path / "kept").glob("*.prefix"))
        assert len(files) == 1 and files[0].suffix == ".prefix"
    with serving(specdec, "-np", "2", "-c", "2048", "--no-repack") as server:  # the same text without
        other = Talk(server, "walk", 0)
        other.text = before
        assert other.turn()[1] > 400 and other.text == talk.text


def test_a_damaged_file_is_noted_and_read_again(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = ["-c", "2048", "--no-repack", "--cache-disk", str(tmp_path)]
    with serving(specdec, *options) as server:
        Talk(server, "walk", 30).turn()
        server.stop()
    (file,) = tmp_path.glob("*.prefix")
    content = file.read_bytes()
    file.write_bytes(content[:-1000] + bytes(1000))
    with serving(specdec, *options) as server:
        cached, read = Talk(server, "walk", 30).turn()
        assert cached == 0 and read > 400
        code, error = server.stop()
        assert code == 0 and f"a kept prompt is read again: {file}: is damaged" in error
    with serving(specdec, *options) as server:
        assert Talk(server, "walk", 30).turn()[0] > 400


def test_servers_share_a_folder(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = ["-c", "2048", "--no-repack", "--cache-disk", str(tmp_path)]
    with serving(specdec, *options) as one, serving(specdec, *options) as two:
        talk = Talk(one, "walk", 30)
        talk.turn()
        wait_until(lambda: any(path.suffix == ".prefix" for path in tmp_path.iterdir()))
        talk.server = two
        assert talk.turn()[1] < 40
        talk.server = one
        assert talk.turn()[1] < 60


def test_a_folder_that_cannot_be_made(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DidNotStart, match="cannot be created as a folder"),
        serving(specdec, "--cache-disk", str(tmp_path / "file")),
    ):
        pass
