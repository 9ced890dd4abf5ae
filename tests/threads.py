"""Whether threads are left behind."""

from __future__ import annotations

import contextlib
import pathlib
import threading
import time
from collections.abc import Iterator

TASKS = pathlib.Path("/proc/self/task")  # of Linux: the threads of C++, too


def running() -> set[str]:
    if TASKS.exists():
        return {task.name for task in TASKS.iterdir()}
    return {str(thread.native_id) for thread in threading.enumerate()}


@contextlib.contextmanager
def none_left() -> Iterator[None]:
    """Fails if a thread that began inside does not end.

    Others may end meanwhile: those of earlier tests. A thread that was joined stands in /proc for a moment longer.
    """
    before = running()
    yield
    until = time.monotonic() + 10
    while new := running() - before:
        assert time.monotonic() < until, f"{len(new)} threads are left"
        time.sleep(0.01)
