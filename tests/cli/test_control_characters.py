"""What a model file holds reaches standard error without control characters: a terminal would obey them."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from gguf_bytes import STRING, string
from parsed_gguf import Parsed
from tests.models.tiny_models import Vocabulary, make

EVIL = "a\x1b[2J\x1b]0;owned\x07\r\x9b5m\x7f"
CONTROLS = set(range(0x20)) - {ord("\n")} | set(range(0x7F, 0xA0))


def errors_of(specdec: pathlib.Path, *arguments: object) -> str:
    """Standard error of a command that fails."""
    result = subprocess.run([specdec, *map(str, arguments)], capture_output=True, timeout=60, check=False)
    assert result.returncode == 1, result.stderr
    text = result.stderr.decode()
    assert not CONTROLS & set(map(ord, text)), repr(text)
    return text


@pytest.mark.parametrize("key", ["general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre"])
def test_names_in_the_metadata(specdec: pathlib.Path, tmp_path: pathlib.Path, key: str) -> None:
    path = make("llama").write(tmp_path / "m.gguf")
    parsed = Parsed.of(path.read_bytes())
    parsed.entries[key] = (STRING, string(EVIL))
    path.write_bytes(parsed.build())
    for command in (["generate", "-p", "x"], ["chat"]):
        assert "a\\x1b[2J\\x1b]0;owned\\x07" in errors_of(specdec, *command, "-m", path)


def test_texts_of_tokens(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = make("llama").write(tmp_path / "t.gguf")
    draft = make("llama", vocabulary=Vocabulary(renamed={100: EVIL})).write(tmp_path / "d.gguf")
    message = errors_of(specdec, "generate", "-p", "x", "-m", target, "-md", draft)
    assert 'token 100 is "a\\x1b[2J' in message


def test_names_of_tensors(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = make("llama").write(tmp_path / "m.gguf")
    parsed = Parsed.of(path.read_bytes())
    _, shape, _, offset = parsed.tensors[0]
    parsed.tensors[0] = (EVIL, shape, 200, offset)
    path.write_bytes(parsed.build())
    for command in (["generate", "-p", "x", "-m", path], ["info", path], ["quantize", path, tmp_path / "out.gguf"]):
        assert 'tensor "a\\x1b[2J\\x1b]0;owned\\x07' in errors_of(specdec, *command)
