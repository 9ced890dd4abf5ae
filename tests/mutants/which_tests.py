"""Which tests run a line: trace.c records the blocks of code that ran during each test."""

from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

Place = tuple[str, int]  # a path from the root, a line from 1


@dataclass
class OneTest:
    name: str  # "engine/slot_ledger" of ctest, or a file for pytest
    command: list[str] = field(default_factory=list)  # of a program
    seconds: float = 0.0
    lines: dict[str, list[int]] = field(default_factory=dict)  # by path: where the blocks begin that it ran

    @property
    def is_python(self) -> bool:
        return self.name.endswith(".py")


class Places:
    """Of the addresses in programs."""

    def __init__(self) -> None:
        self.known: dict[tuple[pathlib.Path, int], Place | None] = {}

    def of_traces(self, folder: pathlib.Path, programs: Iterable[pathlib.Path]) -> dict[str, list[int]]:
        named = {path.name: path for path in programs}
        found: dict[str, set[int]] = {}
        for trace in folder.iterdir():
            if trace.name in named:
                for path, line in self.of(named[trace.name], addresses(trace.read_bytes())):
                    found.setdefault(path, set()).add(line)
            trace.unlink()
        return {path: sorted(lines) for path, lines in sorted(found.items())}

    def of(self, program: pathlib.Path, ran: list[int]) -> list[Place]:
        new = [address for address in ran if (program, address) not in self.known]
        if new:
            asked = "".join(f"{address - 1:#x}\n" for address in new)  # inside the call
            command = ["addr2line", "-a", "-i", "-e", str(program)]
            out = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
            frames = ("\n" + out).split("\n0x")[1:]  # the address, then the functions inlined there, innermost first
            for address, frame in zip(new, frames, strict=True):
                places = [place for line in frame.splitlines()[1:] if (place := self.place(line))]
                self.known[program, address] = places[0] if places else None
        return [place for address in ran if (place := self.known[program, address])]

    @staticmethod
    def place(line: str) -> Place | None:
        path, _, number = line.split(" ")[0].rpartition(":")
        _, cpp, inside = path.rpartition("/cpp/")  # a compiler's cache makes paths relative
        return (f"cpp/{inside}", int(number)) if cpp and number.isdigit() else None


def addresses(trace: bytes) -> list[int]:
    found = []
    at = trace.find(1)
    while at >= 0:
        found.append(at)
        at = trace.find(1, at + 1)
    return found


class Recording:
    """Of the tests so far, and the texts of the files that they ran."""

    def __init__(self, path: pathlib.Path, root: pathlib.Path) -> None:
        self.path, self.root = path, root
        self.tests: dict[str, OneTest] = {}
        self.texts: dict[str, str] = {}
        if path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            self.tests = {one["name"]: OneTest(**one) for one in stored["tests"]}
            self.texts = stored["texts"]

    def add(self, test: OneTest) -> None:
        self.tests[test.name] = test
        for path in test.lines:
            self.texts.setdefault(path, self.text_now(path))
        stored = {"tests": [asdict(one) for one in self.tests.values()], "texts": self.texts}
        self.path.write_text(json.dumps(stored), encoding="utf-8")

    def text_now(self, path: str) -> str:
        file = self.root / path
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""

    def tests_of(self, path: str, line: int, among: Iterable[str]) -> list[OneTest]:
        """The tests that may run this line, those named like the file first, then the quickest. All that run any line
        of the file if the line belongs to no function, and all tests if none is known to run the file."""
        tests = [self.tests[name] for name in among]
        of_file = [test for test in tests if path in test.lines]
        chosen = of_file
        if self.texts.get(path) == self.text_now(path):
            begins = {begin for test in of_file for begin in test.lines[path]}
            source = (self.root / path).read_text(encoding="utf-8").splitlines()
            if line in begins or is_in_function(source, line):
                block = max((begin for begin in begins if begin < line), default=line)
                chosen = [test for test in of_file if {line, block} & set(test.lines[path])]
        words = words_of(path)
        if path.endswith(".h"):  # the tests' own copies of inline functions record nothing
            chosen = [test for test in tests if test in chosen or words & words_of(test.name)]
        return sorted(chosen or of_file or tests, key=lambda test: (not words & words_of(test.name), test.seconds))


def words_of(name: str) -> set[str]:
    return set(pathlib.PurePath(name).stem.removeprefix("test_").split("_"))


def is_in_function(source: list[str], line: int) -> bool:
    """By the last line before it that is not indented."""
    for text in reversed(source[:line]):
        if text and not text[0].isspace() and text[0] not in "})#/":
            return "(" in text and text.endswith("{")
    return False
