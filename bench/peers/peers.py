"""Compares with other engines in one run.

python -m bench.peers.peers [--quick] [--pairs bundled 1.1b 7b] [--tokens 128]

All engines get the same prompts (bench/common/prompts), target and draft, threads, context and sampling (greedy;
temperature 0.8 with top-k 40, top-p 0.95, min-p 0.05). The end-of-text token is banned, so that every generation has
the same length. Only decoding is timed, without loading and reading the prompt. Every generation runs in its own
process, one after another, after its files are read into the page cache; rows alternate within a round, or type by
type if memory does not hold all files. First every peer is tuned: it runs TUNING prompts with several numbers of
draft tokens, and all rounds use its best one. Ours chooses the number itself ("auto").

    llama.cpp                      llama-completion, llama-bench and llama-speculative-simple of the pinned source,
                                   built with its own default options: cmake --preset default -DSPECDEC_PEERS=ON
    llama-cpp-python, transformers optional: --install puts them into build/peers-venv

Every generation is a line in the results file (--results); an interrupted run can be resumed. Rows without their
files or enough memory are left out with a message. Writes bench/peers/RESULTS.md; peers_plot.py draws docs/peers.svg
from the same lines. Pairs are named SIZE or SIZE@ACCEPTANCE: "1.1b@0.6" is accepted at 0.6 (models/README.md).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from bench.common.engines import (
    PACKAGES,
    Engine,
    LlamaCpp,
    Ours,
    Text,
    Unavailable,
    install,
    number,
    python_peer,
)
from bench.common.options import parser_of
from bench.common.paths import BUNDLED, MADE, ROOT
from bench.common.texts import PROMPTS
from bench.common.wide_models import Workshop
from bench.peers.peers_report import speed, write_report

TUNING = ["boilerplate", "novel"]  # prompts on which the number of draft tokens is chosen


# ---- Rows and pairs


@dataclass(frozen=True)
class Row:
    name: str
    engine: Engine
    type: str  # of both models' weights
    drafts: bool = False  # with the pair's draft model
    num_draft_tokens: tuple[int | str, ...] = (0,)


def rows(build: pathlib.Path, ks: tuple[int, ...], lookup_ks: tuple[int, ...]) -> list[Row]:
    """Peers are tuned over the given numbers of draft tokens; ours chooses itself."""
    theirs, ours = LlamaCpp(build / "bench" / "peers"), Ours(build / "specdec")
    table = []
    for type in ("f16", "q8_0", "q6_k"):
        label = f"llama.cpp {type.upper()}"
        table += [Row(label, theirs.plain, type), Row(f"{label}, draft", theirs.with_draft, type, True, ks)]
        table.append(Row(f"{label}, lookup", theirs.lookup, type, False, lookup_ks))
        table.append(Row(f"llama-bench {type.upper()}", theirs.benchmark, type))
    table.append(Row("llama-cpp-python Q8_0, lookup", python_peer("llama_cpp_python"), "q8_0", False, lookup_ks))
    table.append(Row("transformers F32, draft", python_peer("transformers"), "f16", True, ks))
    for type in ("f16", "mxfp6"):
        label = f"ours {type.upper()}"
        table += [Row(label, ours.generate, type), Row(f"{label}, draft", ours.with_draft, type, True, ("auto",))]
        table.append(Row(f"{label}, n-gram", ours.ngram, type, False, ("auto",)))
    return table


TARGETS = {"bundled": "stdlib-target", "1.1b": "1.1b-accept{}", "7b": "7b-accept{}"}
DRAFTS = {"bundled": "stdlib-draft", "1.1b": "stdlib-draft", "7b": "115m-draft"}  # a 16th to a 60th of the target


class Models(Workshop):
    """Makes the bundled pair in every type, too."""

    def make(self, name: str, type: str) -> pathlib.Path:
        if name.startswith("stdlib-") and type == "f16":
            return BUNDLED / f"{name}-f16.gguf"
        if name == "stdlib-draft" and type == "q6_k":
            return self.make(name, "q8_0")  # its 128 columns are half a block of Q6_K
        return super().make(name, type)

    def pair(self, name: str, type: str) -> tuple[pathlib.Path, pathlib.Path]:
        size, _, rate = name.partition("@")
        return self.make(TARGETS[size].format(rate or "0.8"), type), self.make(DRAFTS[size], type)


def check_pairs(names: list[str]) -> None:
    for name in names:
        if not re.fullmatch(r"bundled|(1\.1b|7b)(@0\.\d+)?", name):
            sys.exit(f"error: no pair {name}; there are bundled, 1.1b, 7b and, for example, 1.1b@0.6")


def check_space(names: list[str], models: Models) -> None:
    """Disk space for the pairs' files; checked before any is made."""
    gigabytes = {"1.1b": 4.7, "7b": 31.0}  # a target in four types
    missing = 0.0
    for name in names:
        size, _, rate = name.partition("@")
        if size in gigabytes and not (models.folder / f"{TARGETS[size].format(rate or '0.8')}-q6_k.gguf").exists():
            missing += gigabytes[size]
    folder = next(parent for parent in [models.folder, *models.folder.parents] if parent.exists())
    free = shutil.disk_usage(folder).free / 1e9
    if missing + 2 > free:
        sys.exit(
            f"error: the models take {missing:.0f} GB more and {free:.0f} GB are free in {folder}: fewer "
            "--pairs, or --models"
        )


def available_memory() -> float:
    """Bytes; no limit if the operating system does not report them."""
    try:
        return 1024 * number(r"MemAvailable: +(\d+)", pathlib.Path("/proc/meminfo").read_text())
    except (OSError, Unavailable):
        return float("inf")


def check_memory(files: Iterable[pathlib.Path], factor: float) -> None:
    needed = factor * sum(file.stat().st_size for file in files) + 1e9
    if needed > (free := available_memory()):
        raise Unavailable(f"needs {needed / 1e9:.0f} GB of memory, {free / 1e9:.0f} GB are available")


def warm(files: Iterable[pathlib.Path]) -> None:
    """Reads the files, so that they are in the page cache."""
    buffer = bytearray(16 << 20)
    for file in files:
        with open(file, "rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass


# ---- The run


class Results:
    """Lines of JSON; what has been measured is not measured again."""

    KEY = ("pair", "row", "k", "temperature", "prompt", "round", "tokens", "threads")

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self._seen = {self._key(line) for line in self.lines}

    def _key(self, line: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(line[name] for name in self.KEY)

    def has(self, line: dict[str, Any]) -> bool:
        return self._key(line) in self._seen

    def add(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self._seen.add(self._key(line))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")


class Run:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.models = Models(arguments.models, arguments.build)
        self.results = Results(arguments.results)
        self.prompts = sorted(PROMPTS.glob("*.txt"))
        self.rows = rows(arguments.build, tuple(arguments.k), tuple(arguments.lookup_k))
        if arguments.rows:
            self.rows = [row for row in self.rows if any(part in row.name for part in arguments.rows)]
        self.left_out: dict[tuple[str, str], str] = {}

    def measure(self, pair: str, row: Row, k: int | str, temperature: float, prompt: pathlib.Path, round_: int) -> None:
        a = self.arguments
        line: dict[str, Any] = {
            "pair": pair,
            "row": row.name,
            "k": k,
            "temperature": temperature,
            "prompt": prompt.stem,
        }
        line |= {"round": round_, "tokens": a.tokens, "threads": a.threads}
        if self.results.has(line) or (pair, row.name) in self.left_out:
            return
        try:
            target, draft = self.models.pair(pair, row.type)
            files = [target, draft] if row.drafts else [target]
            check_memory(files, 2.5 if row.name.startswith("transformers") else 1.1)
            warm(files)
            text = Text(target, draft if row.drafts else None, k, prompt, a.tokens, temperature, round_, a.threads)
            timing = row.engine(text)
        except Unavailable as error:
            self.left_out[pair, row.name] = str(error)
            print(f"{pair}: {row.name} left out: {error}", file=sys.stderr, flush=True)
            return
        self.results.add(
            {**line, "produced": timing.tokens, **{k: v for k, v in asdict(timing).items() if k != "tokens"}}
        )

    def speed(self, pair: str, row: Row, k: int | str, temperature: float) -> float:
        """Tokens per second in the tuning round."""
        wanted = {"pair": pair, "row": row.name, "k": k, "temperature": temperature, "round": 0}
        wanted |= {"tokens": self.arguments.tokens, "threads": self.arguments.threads}
        lines = [line for line in self.results.lines if wanted.items() <= line.items() and line["prompt"] in TUNING]
        return speed(lines) if lines else 0.0

    def best_k(self, pair: str, row: Row, temperature: float) -> int | str:
        if len(row.num_draft_tokens) > 1:
            for k in row.num_draft_tokens:
                for prompt in self.prompts:
                    if prompt.stem in TUNING:
                        self.measure(pair, row, k, temperature, prompt, 0)
        return max(row.num_draft_tokens, key=lambda k: self.speed(pair, row, k, temperature))

    def groups(self, pair: str) -> list[list[Row]]:
        """All rows, or those of one type at a time where the page cache cannot hold all of the pair's files."""
        by_type: dict[str, list[Row]] = {}
        for row in self.rows:
            by_type.setdefault(row.type, []).append(row)
        size = sum(file.stat().st_size for type in by_type for file in self.models.pair(pair, type))
        return [self.rows] if size < 0.8 * available_memory() else list(by_type.values())

    def run(self) -> None:
        order = random.Random(1)
        for pair in self.arguments.pairs:
            for group in self.groups(pair):
                best = {(row.name, t): self.best_k(pair, row, t) for row in group for t in (0.0, 0.8)}
                print(f"{pair}: numbers of draft tokens chosen", file=sys.stderr, flush=True)
                for round_ in range(1, self.arguments.rounds + 1):
                    for temperature in (0.0, 0.8):
                        for row in order.sample(group, len(group)):
                            for prompt in self.prompts[: self.arguments.prompts]:
                                self.measure(pair, row, best[row.name, temperature], temperature, prompt, round_)
                    print(f"{pair}: round {round_} of {self.arguments.rounds}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the bundled pair, 48 tokens, 3 prompts, 1 round, 2 numbers of draft tokens",
    )
    parser.add_argument("--pairs", nargs="+", metavar="PAIR")
    parser.add_argument("--rows", nargs="+", help="only rows whose name contains one of these")
    parser.add_argument("--tokens", type=int, help="per text (128; prompt and text fit in 512)")
    parser.add_argument("--rounds", type=int, help="(3)")
    parser.add_argument("--prompts", type=int, help="how many of the prompts (all)")
    parser.add_argument("--k", type=int, nargs="+", help="numbers of draft tokens that peers try (3 5 8 12)")
    parser.add_argument("--lookup-k", type=int, nargs="+", default=[4, 10])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "peers.jsonl")
    parser.add_argument(
        "--report", type=pathlib.Path, help="(bench/peers/RESULTS.md; with --quick build/peers-quick.md)"
    )
    parser.add_argument("--install", nargs="+", choices=PACKAGES, help="first put these into build/peers-venv")
    arguments = parser.parse_args()
    full = {"pairs": ["bundled", "1.1b", "7b"], "tokens": 128, "rounds": 3, "prompts": None, "k": [3, 5, 8, 12]}
    quick = {"pairs": ["bundled"], "tokens": 48, "rounds": 1, "prompts": 3, "k": [4, 8]}
    report = {
        "report": ROOT / "build" / "peers-quick.md" if arguments.quick else ROOT / "bench" / "peers" / "RESULTS.md"
    }
    for name, value in ((quick if arguments.quick else full) | report).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    check_pairs(arguments.pairs)
    return arguments


def main() -> None:
    arguments = parse()
    if arguments.install:
        install(arguments.install)
    run = Run(arguments)
    check_space(arguments.pairs, run.models)
    run.run()
    lines = [
        line
        for line in run.results.lines
        if line["tokens"] == arguments.tokens and line["threads"] == arguments.threads
    ]
    write_report(arguments.report, lines, arguments.pairs, run.left_out)
    print(f"{arguments.report} written from {arguments.results}")


if __name__ == "__main__":
    main()
