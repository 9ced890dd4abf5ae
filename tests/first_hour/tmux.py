"""A program in tmux: what a person sees on the screen of a terminal."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import pytest

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")


class Tmux:
    """A shell in a terminal of its own.

    >>> with Tmux(folder) as terminal:
    ...     terminal.type("echo hello\\n")
    ...     terminal.wait(lambda screen: "\\nhello" in screen)
    """

    def __init__(self, folder: pathlib.Path, columns: int = 80, rows: int = 30, **environment: str) -> None:
        self._socket = folder / "tmux"
        variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "PS1": "$ ", "LANG": "C.UTF-8", **environment}
        assignments = [f"{name}={value}" for name, value in variables.items()]
        shell = shlex.join(["env", "-i", "TERM=tmux-256color", *assignments, "sh"])
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), shell)
        self.wait(lambda screen: screen.endswith("$"))

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str, given: str | None = None) -> str:
        command = ["tmux", "-S", str(self._socket), *arguments]
        result = subprocess.run(command, input=given, capture_output=True, text=True, timeout=30, check=False)
        assert result.returncode == 0, (arguments, result.stderr)
        return result.stdout

    def type(self, text: str) -> None:
        for line in text.splitlines(keepends=True):
            if line.rstrip("\n"):
                self._tmux("send-keys", "-l", "--", line.rstrip("\n"))
            if line.endswith("\n"):
                self.press("Enter")

    def press(self, *keys: str) -> None:
        """Names of keys as in tmux: Up, C-c, M-Enter."""
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        self._tmux("load-buffer", "-", given=text)
        self._tmux("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, history: bool = False) -> str:
        """What is on the screen; with history: and what has scrolled out of it."""
        return self._tmux("capture-pane", "-p", "-J", *(["-S", "-"] if history else [])).rstrip()

    def wait(self, condition: Callable[[str], bool], seconds: float = 60.0) -> str:
        end = time.monotonic() + seconds
        while not condition(screen := self.screen()):
            assert time.monotonic() < end, f"not seen in {seconds} s:\n{screen}"
            time.sleep(0.05)
        return screen

    def run(self, command: Sequence[str | pathlib.Path]) -> None:
        self.type(shlex.join(map(str, command)) + "\n")
