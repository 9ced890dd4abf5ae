"""Runs a program at a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from types import TracebackType


class Terminal:
    """Runs a command with a pseudo-terminal as its standard input, output and error.

    >>> with Terminal([specdec, "race"], columns=80) as terminal:
    ...     terminal.read_until(lambda text: "wins" in text)
    """

    def __init__(
        self, command: list[str | pathlib.Path], columns: int = 80, rows: int = 24, env: dict[str, str] | None = None
    ) -> None:
        self._primary, secondary = pty.openpty()
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            command,
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            env={"PATH": os.environ["PATH"], "TERM": "xterm", **(env or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(secondary)
        self._bytes = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._primary)

    @property
    def text(self) -> str:
        """All output so far."""
        return self._bytes.decode(errors="replace")

    def resize(self, columns: int, rows: int = 24) -> None:
        fcntl.ioctl(self._primary, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def local_modes(self) -> int:
        """The flags of termios(3) c_lflag: ICANON while the terminal itself edits lines."""
        modes: int = termios.tcgetattr(self._primary)[3]
        return modes

    def type(self, text: str) -> None:
        self._write(text.encode())

    def _write(self, given: bytes, seconds: float = 60.0) -> None:
        """Reads meanwhile, as a terminal does: the program may be waiting for that."""
        end = time.monotonic() + seconds
        os.set_blocking(self._primary, False)
        while given:
            assert time.monotonic() < end, f"the program reads no more in {seconds} s: {self.text[-2000:]!r}"
            readable, writable, _ = select.select([self._primary], [self._primary], [], 1.0)
            if readable:
                self._read(end)
            if writable:
                try:
                    given = given[os.write(self._primary, given) :]
                except BlockingIOError:
                    time.sleep(0.01)
        os.set_blocking(self._primary, True)

    def read_until(self, condition: Callable[[str], bool], seconds: float = 60.0) -> str:
        end = time.monotonic() + seconds
        while not condition(self.text):
            assert time.monotonic() < end, f"not seen in {seconds} s: {self.text[-2000:]!r}"
            assert self._read(end), f"the program ended: {self.text[-2000:]!r}"
        return self.text

    def read_all(self, seconds: float = 60.0) -> tuple[str, int]:
        """Waits for the end of the program; returns its exit status."""
        end = time.monotonic() + seconds
        while self._read(end):
            pass
        return self.text, self.process.wait(timeout=60)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._primary], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"nothing more came: {self.text[-2000:]!r}"
        try:
            chunk = os.read(self._primary, 65536)
        except OSError:  # how Linux reports that the other end is closed
            return False
        self._bytes += chunk
        return bool(chunk)
