"""Calls of the C library that fail in a process, one at a time: tests/cli/failing_calls.cpp, preloaded into it."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass


@dataclass
class FailingCalls:
    """The `at`-th call of one function fails with an error; 0: none."""

    library: pathlib.Path
    folder: pathlib.Path

    def environment(self, call: str, error: int, at: int) -> dict[str, str]:
        faults = {"FAULT_CALL": call, "FAULT_ERRNO": str(error), "FAULT_AT": str(at), "FAULT_COUNT": str(self._counted)}
        return {**self.loading(), **faults}

    def loading(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library)}

    def count(self) -> int:
        """Calls of the function in the last process that has ended."""
        return int(self._counted.read_text())

    @property
    def _counted(self) -> pathlib.Path:
        return self.folder / "count"


def chosen(total: int, ends: int = 5) -> list[int]:
    """The first and the last of calls 1 to total, and ever fewer in between."""
    places = {*range(1, ends), *range(total - ends, total + 1), *(2**i for i in range(30))}
    return sorted(place for place in places if 1 <= place <= total)
