"""Hours of mixed requests on Generators that come and go: every text must be the one of its run alone, and memory stay
flat.

    PYTHONPATH=python:. python tests/soak/soak.py --seconds 21600 [--record]     (make soak)

Ctrl-C or SIGTERM ends it early. With --record, a run without failures is added to tests/figures.jsonl, for
docs/security.md: the hours may be run in parts.

Threads submit requests to the current Generator, read them, cancel some, drop others half-read, and give bad ones.
Meanwhile Generators are replaced by others with other drafts and numbers of sequences: the old one is closed while
requests run on it. What a request gives alone is found out once, on a Generator of its own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import gc
import os
import pathlib
import random
import signal
import statistics
import sys
import threading
import time
from typing import Any

from tests import figures

import specdec_native as sd

MODELS = pathlib.Path(__file__).parents[2] / "models"
DRAFTS: list[Any] = [None, MODELS / "stdlib-draft-f16.gguf", "suffix", "ngram"]
NUM_CLIENTS = 4
NUM_WISHES = 60
REPLACED = "generators closed while in use"
LONGEST_GAP = 2.0  # seconds between two looks at the clock that count: more means that the process was stopped
PROMPTS = [
    "def f(x):\n",
    "import os\n",
    "class Stack:\n",
    "for i in range(",
    "# a comment",
    "x = {",
    "try:\n    pass\nexcept",
    "é",
]


class Failure(Exception):
    """A text that is not the one of its run alone, or a call that ended as it must not."""


def wish(number: int) -> tuple[str, dict[str, Any]]:
    """A prompt and its options. Their text is the same with any draft: it is greedy, or verification is invariant."""
    chance = random.Random(number)
    options: dict[str, Any] = {"max_tokens": chance.choice([1, 4, 12, 40]), "seed": number}
    options["temperature"] = chance.choice([0.0, 0.7, 1.0])
    options["num_draft_tokens"] = chance.choice([0, 2, 5, "auto"])
    if options["temperature"] > 0:
        options["verification"] = "invariant"
    if chance.random() < 0.3:
        options["top_k"] = chance.choice([1, 5, 40])
    if chance.random() < 0.2:
        options["stop"] = [chance.choice(["\n", "self", " "])]
    if chance.random() < 0.2:
        options["logit_bias"] = {chance.randrange(300): -2.5}
    return chance.choice(PROMPTS) * chance.choice([1, 1, 3, 20]), options


def held() -> int:
    """Resident bytes, without those that malloc keeps for later: how many these are depends on which threads met."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Soak:
    def __init__(self, seed: int) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.memory: list[int] = []  # bytes held after each replacement
        self._chance = random.Random(seed)
        with sd.Generator(MODELS / "stdlib-target-f16.gguf", n_ctx=512, n_threads=1) as alone:
            self.expected = [alone.generate(prompt, **options).text for prompt, options in map(wish, range(NUM_WISHES))]
        self._generator = self._new_generator()
        self._ends = threading.Event()
        self._stops = threading.Event()
        self.seconds = 0.0  # that it ran, without those in which it was stopped
        self._looked = 0.0

    def stop(self) -> None:
        """run() returns soon; from any thread or signal handler."""
        self._stops.set()

    def run(self, seconds: float, between: float) -> None:
        """A Generator is replaced every `between` seconds on average."""
        clients = [threading.Thread(target=self._client, args=(self._chance.random(),)) for _ in range(NUM_CLIENTS)]
        for client in clients:
            client.start()
        self._looked = time.monotonic()
        while self.seconds < seconds and not self.failures and self._wait(between * self._chance.uniform(0.5, 1.5)):
            before, self._generator = self._generator, self._new_generator()
            before.close()
            self.counts[REPLACED] += 1
            gc.collect()
            self.memory.append(held())
        self._ends.set()
        for client in clients:
            client.join(120)
            if client.is_alive():
                self.failures.append("a thread hangs")
        self._generator.close()

    def growth(self) -> float:
        """Memory held in the last third over that in the second; 1 for too few values."""
        third = len(self.memory) // 3
        return (
            statistics.median(self.memory[-third:]) / statistics.median(self.memory[third : 2 * third])
            if third >= 2
            else 1.0
        )

    def resident(self, begin: float, end: float) -> int:
        """Bytes, the median of a part of the run: 0 to 1."""
        first = int(begin * len(self.memory))
        return int(statistics.median(self.memory[first : max(first + 1, int(end * len(self.memory)))]))

    def requests(self) -> int:
        return sum(count for what, count in self.counts.items() if what != REPLACED)

    def _wait(self, seconds: float) -> bool:
        """False: told to stop."""
        end = self.seconds + seconds
        while self.seconds < end and not self._stops.wait(min(end - self.seconds, LONGEST_GAP / 2)):
            self._look()
        return not self._stops.is_set()

    def _look(self) -> None:
        now = time.monotonic()
        self.seconds += min(now - self._looked, LONGEST_GAP)
        self._looked = now

    def _new_generator(self) -> sd.Generator:
        return sd.Generator(
            MODELS / "stdlib-target-f16.gguf",
            draft=self._chance.choice(DRAFTS),
            n_ctx=512,
            n_threads=self._chance.choice([1, 2]),
            max_sequences=self._chance.choice([1, 3]),
        )

    def _client(self, seed: float) -> None:
        chance = random.Random(seed)
        while not self._ends.is_set() and not self.failures:
            number, generator = chance.randrange(NUM_WISHES), self._generator
            try:
                self._use(generator, number, chance)
            except Failure as failure:
                self.failures.append(f"request {number}: {failure}")
            except Exception as error:
                if not isinstance(error, sd.Error) or generator is self._generator:  # it was not closed
                    self.failures.append(f"request {number}: {error!r}")
                self.counts["ended by close()"] += 1

    def _use(self, generator: sd.Generator, number: int, chance: random.Random) -> None:
        prompt, options = wish(number)
        kind = chance.choice(["read"] * 6 + ["cancel", "cancel", "drop", "bad"])
        if kind == "bad":
            with contextlib.suppress(ValueError, sd.ContextFull):
                generator.submit("x " * 2000 if chance.random() < 0.5 else prompt, **{**options, "top_k": -7}).text()
                raise Failure("a bad request was run")
        elif kind == "read":
            text = generator.submit(prompt, **options).text()
            if text != self.expected[number]:
                raise Failure(f"{text!r}, alone {self.expected[number]!r}")
        else:
            handle = generator.submit(prompt, **options)
            text = ""
            for count, piece in enumerate(handle):
                text += piece.text
                if count >= number % 5:
                    break
            if kind == "cancel":
                handle.cancel()
                if chance.random() < 0.5:
                    handle.cancel()
            del handle
            if not self.expected[number].startswith(text):
                raise Failure(f"begins with {text!r}, alone {self.expected[number]!r}")
        self.counts[{"read": "whole texts", "cancel": "cancelled", "drop": "dropped", "bad": "rejected"}[kind]] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6 * 3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    soak = Soak(options.seed)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: soak.stop())
    soak.run(options.seconds, between=max(0.5, min(20.0, options.seconds / 30)))
    if soak.growth() > 1.05:
        soak.failures.append(f"memory grew to {soak.growth():.2f} times")
    print("\n".join(soak.failures))
    print(", ".join(f"{count} {what}" for what, count in sorted(soak.counts.items())))
    print(f"{len(soak.failures)} failures; resident memory at the end: {soak.growth():.3f} times that of the middle")
    if options.record and not soak.failures and soak.memory:
        figures.record(
            "soak",
            seconds=round(soak.seconds),
            requests=soak.requests(),
            generators=soak.counts[REPLACED],
            memory_beginning=soak.resident(0, 0.1),
            memory_end=soak.resident(0.9, 1),
        )
    sys.exit(1 if soak.failures else 0)


if __name__ == "__main__":
    main()
