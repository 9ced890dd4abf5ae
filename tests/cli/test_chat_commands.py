"""Every sequence of up to three commands of `specdec chat`, in every state of a conversation: none ends the chat, and
the context never holds more than its size."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import subprocess

import pytest
from tests.cli.test_chat_terminal import Chat
from tests.models.tiny_models import Vocabulary, make

CONTEXT = 256
CHATML = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system prompts') }}{% endif %}"
    "{% if 'forbidden' in m.content %}{{ raise_exception('not this word') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}{% endfor %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("commands") / "chat.gguf"
    return make("llama", seed=4, vocabulary=Vocabulary(chat_template=CHATML)).write(path)


def conversation(path: pathlib.Path, turns: int, size: int = 40, last: int | None = None) -> pathlib.Path:
    """A file for /load. last: characters of the last answer."""
    messages = []
    for i in range(turns):
        answer = size if last is None or i < turns - 1 else last
        messages += [
            {"role": "user", "content": f"question {i} " + "q" * size},
            {"role": "assistant", "content": "a b c d " * (answer // 8)},
        ]
    path.write_text(json.dumps(messages))
    return path


def commands(folder: pathlib.Path) -> list[str]:
    (folder / "text.txt").write_text("import os\n")
    (folder / "bad.json").write_text('[{"role": "tool"}]')
    (folder / "none.json").write_text("[]")
    (folder / "open.json").write_text('[{"role": "user", "content": "unanswered"}]')
    return [
        "hello",
        "x" * 3000,  # an error: longer than the context
        "/help",
        "/clear",
        "/system be brief",
        "/regen",
        "/more",
        "/undo",
        "/stats",
        f"/read {folder / 'text.txt'}",
        "/show",
        f"/save {folder / 'saved.json'}",
        f"/load {conversation(folder / 'short.json', 2)}",
        f"/load {conversation(folder / 'long.json', 60)}",  # longer than the context
        f"/load {conversation(folder / 'one.json', 2, last=4000)}",  # its last turn alone is
        f"/load {folder / 'open.json'}",
        f"/load {folder / 'bad.json'}",
        f"/load {folder / 'none.json'}",
        "/set max_tokens 3",
        "/set grammar nonsense",
    ]


def all_sequences(symbols: list[str], length: int) -> list[str]:
    """A de Bruijn sequence: every sequence of this length occurs in it."""
    count, word, result = len(symbols), [0] * (length + 1), []

    def extend(at: int, period: int) -> None:
        if at > length:
            if length % period == 0:
                result.extend(word[1 : period + 1])
            return
        word[at] = word[at - period]
        extend(at + 1, period)
        for symbol in range(word[at - period] + 1, count):
            word[at] = symbol
            extend(at + 1, at)

    extend(1, 1)
    sequence = [symbols[i] for i in result]
    return sequence + sequence[: length - 1]


def run(specdec: pathlib.Path, lines: list[str], *options: object) -> subprocess.CompletedProcess[str]:
    command = [specdec, "chat", "--lines", "-t", "1", "-n", "2", "--temp", "0", "-c", CONTEXT, *options]
    return subprocess.run(
        list(map(str, command)), input="\n".join(lines), capture_output=True, text=True, timeout=300, check=False
    )


def check_uses(shown: str, expected: int) -> None:
    """Counts what /show says. expected: how often it was given."""
    used = [int(count) for count in re.findall(r"^used +(\d+) token", shown, re.MULTILINE)]
    assert len(used) == expected, "the chat goes on to its last command"
    assert max(used) <= CONTEXT and len(set(used)) > 3


@pytest.mark.parametrize("kind", ["with a template", "without one"])
def test_all_sequences_of_three_commands(
    specdec: pathlib.Path, model: pathlib.Path, target_path: pathlib.Path, tmp_path: pathlib.Path, kind: str
) -> None:
    path = model if kind == "with a template" else target_path
    words = commands(tmp_path)
    if path == target_path:  # slower
        words = [word for word in words if word not in ("/help", "/set max_tokens 3", "/set grammar nonsense")]
    lines = all_sequences(words, 3 if path == model else 2)
    result = run(specdec, [*lines, "/show"], "-m", path, "-md", "none")
    assert result.returncode in (0, 1) and result.stdout.endswith("\n"), result.stderr[-1000:]
    check_uses(result.stderr, lines.count("/show") + 1)


def test_the_first_commands_of_a_chat(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A chat that has not answered anything yet, as /load and /stats once ended it."""
    loads = [word for word in commands(tmp_path) if word.startswith("/load")]
    for load, between in itertools.product(loads, ["/stats", "/more", "/regen", "/undo"]):
        result = run(specdec, [load, between, "/stats", "/show"], "-m", model)
        assert result.returncode in (0, 1) and "used  " in result.stderr, (load, between, result.stderr)
    result = run(specdec, [loads[0], "/stats"], "-m", model)
    assert "there are no statistics of this answer" in result.stderr


def test_a_message_that_fails_does_not_end_a_chat(specdec: pathlib.Path, model: pathlib.Path) -> None:
    """Its turn is forgotten; a script learns of it by the exit status."""
    alone = run(specdec, ["hello"], "-m", model)
    result = run(specdec, ["forbidden", "hello"], "-m", model)
    assert alone.returncode == 0 and result.returncode == 1 and result.stdout == alone.stdout
    assert "not this word" in result.stderr


def test_after_a_stopped_answer(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """At a terminal: Ctrl-C in an answer, then every command."""
    options = ["-m", model, "-n", 100_000, "-c", 8192, "-l", "0-inf"]
    words = [word for word in commands(tmp_path) if word[0] == "/" and not word.startswith("/set")]
    with Chat(specdec, tmp_path, *options) as chat:
        for word in words:
            seen = len(chat.terminal.text)
            chat.terminal.type("go\r")
            chat.terminal.read_until(lambda text, seen=seen: len(text) > seen + 100)  # type: ignore[misc]
            chat.terminal.type("\x03")

            # Stopped before the answer began, the question is the message being written again. An answer may also end
            # before it is stopped.
            def is_over(text: str, seen: int = seen) -> bool:
                return re.search(r"\(stopped|tokens/s", text[seen:]) is not None and text.endswith(("> ", "> go"))

            chat.terminal.read_until(is_over)
            chat.terminal.type("\x15")
            chat.say("/set max_tokens 2")
            chat.say(word)
            chat.say("/set max_tokens 100000")
        chat.say("/show")
        assert re.search(r"\nused +\d+ tokens? in", chat.terminal.text)
        assert chat.terminal.process.poll() is None
