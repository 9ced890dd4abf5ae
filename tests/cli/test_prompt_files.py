"""Prompt files and standard input as editors write them: line breaks, byte order marks, other encodings."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

PLAIN = b"import os\nimport sys"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    from tests.models.tiny_models import make

    return make("llama", seed=4).write(tmp_path_factory.mktemp("prompts") / "tiny.gguf")


class Ways:
    """The ways to give a file's bytes as a prompt, which must all read the same."""

    def __init__(self, specdec: pathlib.Path, model: pathlib.Path, folder: pathlib.Path) -> None:
        self.command = [specdec, "generate", "-m", model, "-md", "none", "-t", "1", "-n", "1", "--temp", "0", "--json"]
        self.file = folder / "prompt.txt"

    def run(self, *options: object, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        line = list(map(str, [*self.command, *options]))
        return subprocess.run(line, input=given, capture_output=True, timeout=60, check=False)

    def results(self, data: bytes) -> list[subprocess.CompletedProcess[bytes]]:
        self.file.write_bytes(data)
        return [self.run("-f", self.file), self.run(given=data), self.run("-f", "-", given=data)]

    def tokens(self, data: bytes) -> int:
        """The number of tokens of the prompt."""
        counts = set()
        for result in self.results(data):
            assert result.returncode == 0, result.stderr
            counts.add(json.loads(result.stdout.splitlines()[-1])["stats"]["prompt_tokens"])
        (count,) = counts
        return int(count)

    def errors(self, data: bytes) -> list[str]:
        results = self.results(data)
        assert [result.returncode for result in results] == [1] * 3
        return [result.stderr.decode() for result in results]


@pytest.fixture
def ways(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> Ways:
    return Ways(specdec, model, tmp_path)


def test_line_breaks_and_marks(ways: Ways) -> None:
    plain = ways.tokens(PLAIN)
    assert ways.tokens(PLAIN + b"\n") == ways.tokens(b"\xef\xbb\xbf" + PLAIN) == plain
    assert ways.tokens(PLAIN + b"\n\n") == ways.tokens(PLAIN + b"\r") == plain + 1
    windows = PLAIN.replace(b"\n", b"\r\n")
    assert ways.tokens(windows) == ways.tokens(windows + b"\r\n") == plain + 1, "breaks within a text stay as they are"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("import os\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (b"\xfe\xff" + "import os\n".encode("utf-16-be"), "is UTF-16 text; save it as UTF-8"),
        ("import os\n".encode("utf-16-le"), "has a NUL at byte 1, as UTF-16 and binary files do; save it as UTF-8"),
        ("# caf\u00e9".encode("latin-1"), "not UTF-8 text at byte 5; save it as UTF-8"),
        ("# \u6f22".encode()[:-1], "not UTF-8 text at byte 2; save it as UTF-8"),
        (b"# \xed\xa0\xbd", "not UTF-8 text at byte 2; save it as UTF-8"),
    ],
)
def test_other_encodings_are_errors(ways: Ways, data: bytes, message: str) -> None:
    for name, error in zip((str(ways.file), "standard input", "standard input"), ways.errors(data), strict=True):
        assert f"{name}: {message}" in error


def test_chats(specdec: pathlib.Path, model: pathlib.Path) -> None:
    """Also piped: one message, or lines. A line in another encoding is an error, the others are answered."""

    def chat(given: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
        line = [specdec, "chat", "-m", model, "-md", "none", "-t", "1", "-n", "2", "--temp", "0", *options]
        return subprocess.run(list(map(str, line)), input=given, capture_output=True, timeout=60, check=False)

    plain = chat(b"one\ntwo\n\nthree", "--lines")
    assert plain.returncode == 0 and chat(b"\xef\xbb\xbfone\r\ntwo\r\n\r\nthree", "--lines").stdout == plain.stdout
    mixed = chat(b"one\ncaf\xe9\ntwo\n\nthree", "--lines")
    assert mixed.stdout == plain.stdout and mixed.returncode == 1
    assert b"standard input, line 2: not UTF-8 text at byte 3" in mixed.stderr
    assert chat(b"\xef\xbb\xbfone\n").stdout == chat(b"one").stdout
    utf_16 = chat("one".encode("utf-16"))
    assert utf_16.returncode == 1 and b"standard input: is UTF-16 text" in utf_16.stderr
