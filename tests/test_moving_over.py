"""docs/moving.md: the flags that it tells to use exist, and the flags of llama.cpp that it names are known."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.quick

TEXT = (pathlib.Path(__file__).parents[1] / "docs" / "moving.md").read_text(encoding="utf-8")
COMMANDS = {"llama-cli": ["chat", "generate"], "llama-server": ["serve"], "Ollama": ["chat", "generate", "serve"]}
FLAG = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
SLASH = re.compile(r"(?:^| )(/[a-z]+)\b")


def output(specdec: pathlib.Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run([specdec, *arguments], input=stdin, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def rows(section: str) -> list[tuple[str, str]]:
    """What one did before, and what to do now."""
    body = re.search(rf"^## From {section}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert body
    found = re.findall(r"^\| (?!-)(.+?) \| (.+) \|$", body[1], re.MULTILINE)[1:]
    assert len(found) > 7
    return found


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def flags_of(specdec: pathlib.Path, commands: list[str]) -> set[str]:
    return {flag for command in commands for flag in FLAG.findall(output(specdec, command, "--help-all"))}


@pytest.mark.parametrize("section", COMMANDS)
def test_the_flags_to_use_exist(section: str, specdec: pathlib.Path) -> None:
    commands = COMMANDS[section]
    slashes = set(re.findall(r"^(/\w+)", output(specdec, "chat", "--lines", stdin="/help\n"), re.MULTILINE))
    num_flags = 0
    for theirs, ours in rows(section):
        named_once = theirs if ours.startswith(("the same", "always there")) else ""
        for span in spans(ours) + spans(named_once):
            command = re.match(r"specdec (\w+)", span)
            flags = FLAG.findall(span)
            num_flags += len(flags)
            if not span.startswith("ollama"):
                assert set(flags) <= flags_of(specdec, [command[1]] if command else commands), span
            assert set(SLASH.findall(span)) <= slashes, span
    assert num_flags >= 8


@pytest.mark.parametrize("section", ["llama-cli", "llama-server"])
def test_their_flags_are_known(section: str, specdec: pathlib.Path) -> None:
    """Each works, is accepted with a note, or is an error that says more than that."""
    for theirs, ours in rows(section):
        for flag in {flag for span in spans(theirs) for flag in FLAG.findall(span)}:
            command = "generate" if "generate" in ours else COMMANDS[section][0]
            said = output(specdec, command, flag, "1", "-m", "none.gguf")
            assert "unknown option" not in said, flag
            if ours.startswith("errors"):
                assert f"there is no option {flag}: " in said, flag
            if "no effect" in ours and flag not in flags_of(specdec, [command]):
                assert f"note: {flag} changes nothing: " in said, flag
