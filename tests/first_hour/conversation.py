"""`specdec chat` as someone uses it who has just got a pair of models."""

from __future__ import annotations

import json
import pathlib
import re

from tests.first_hour.tmux import Tmux

READY = re.compile(r"(^|\n)>$")


def is_ready(screen: str) -> bool:
    return READY.search(screen) is not None


class Conversation:
    """A chat in tmux. say() waits for the end of the answer and returns what was written since."""

    def __init__(self, terminal: Tmux, command: list[str | pathlib.Path]) -> None:
        self.terminal = terminal
        terminal.type("clear\n")
        terminal.run(command)
        self.introduction = terminal.wait(is_ready, 120)

    def say(self, text: str, seconds: float = 120.0) -> str:
        self.terminal.type(text)
        return self.send(seconds)

    def send(self, seconds: float = 120.0) -> str:
        before = self.terminal.screen(history=True)
        self.terminal.press("Enter")
        self.terminal.wait(lambda _: len(self.terminal.screen(history=True)) > len(before), seconds)
        self.terminal.wait(is_ready, seconds)
        return self.terminal.screen(history=True)[len(before) :]


def have(specdec: pathlib.Path, folder: pathlib.Path, options: list[str]) -> None:
    """Everything that does not depend on what the models write."""
    with Tmux(folder, columns=90, rows=40) as terminal:
        chat = Conversation(terminal, [specdec, "chat", "-n", "24", *options])
        for part in ("model ", "draft ", "template ", "context ", "/help lists the commands"):
            assert part in chat.introduction
        assert re.search(r"\(cut at -n 24; /more continues\)\n24 tokens, [\d.]+ tokens/s", chat.say("import os"))
        assert "tokens/s" in chat.say("/more") and "drafting " in chat.say("/stats")
        terminal.paste("first line\nsecond line\nthird line")
        assert "tokens/s" in chat.send()
        terminal.type("two")
        terminal.press("M-Enter")
        assert "tokens/s" in chat.say("lines")
        terminal.press("Up")
        terminal.wait(lambda screen: screen.endswith("> two\n  lines"))
        terminal.press("C-u", "BSpace", "C-u")
        assert "unknown command /foo; /help lists the commands" in chat.say("/foo")
        assert "(saved to " in chat.say(f"/save {folder}/saved.json")
        saved = json.loads((folder / "saved.json").read_text())
        questions = [message["content"] for message in saved if message["role"] == "user"]
        assert questions == ["import os", "first line\nsecond line\nthird line", "two\nlines"]
        assert "are forgotten" in chat.say("/undo") and "(loaded " in chat.say(f"/load {folder}/saved.json")
        chat.say("/set max_tokens 2000")
        terminal.type("go on and on")
        terminal.press("Enter")
        terminal.wait(lambda screen: not screen.endswith("go on and on"))
        terminal.resize(60, 40)
        terminal.press("C-c")
        terminal.wait(is_ready)
        chat.say("/set max_tokens 4")
        assert "4 tokens" in chat.say("after Ctrl-C")
        terminal.press("C-d")
        terminal.wait(lambda screen: screen.endswith("\n$"))
        terminal.type("echo typed as before\n")
        terminal.wait(lambda screen: "\ntyped as before\n$" in screen)
        kept = [
            json.loads(line)
            for line in (folder / ".local" / "state" / "specdec" / "chat.jsonl").read_text().splitlines()
        ]
        assert kept[0] == "import os" and "after Ctrl-C" in kept
