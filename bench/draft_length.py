"""num_draft_tokens="auto" beside every fixed K: python bench/draft_length.py [--sizes bundled 1.1b 7b] [--tokens 96].

Every cell is a kind of text (bench/prompts), a temperature, a target and a draft (a model, or n-gram lookup). The fixed K and
"auto" take turns, round by round, on the same prompt; "auto" has a Generator of its own, so that it knows nothing that it has
not measured itself, and keeps it from cell to cell as a user's would. A cell's rates are all its tokens over all its seconds,
for each K, without the slowest quarter of its texts (other processes at work). Target weights are MXFP6, but for F16 rows of
the bundled size. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from wide_models import ROOT, Workshop

import specdec_native as sd

# Kind of text, temperature.
TEXTS = [
    ("boilerplate", 0.8),
    ("novel", 0.8),
    ("novel", 0.0),
    ("novel", 1.2),
    ("docstring", 0.8),
    ("random", 0.8),
    ("repeated", 0.8),
]
END_OF_TEXT = 0  # of the bundled models
Length = int | Literal["auto"]


@dataclass
class Row:
    """What the texts of one K took."""

    tokens: int
    seconds: float
    drafted: int
    target_calls: int

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class Cell:
    def __init__(self) -> None:
        self.rows: dict[Length, list[Row]] = defaultdict(list)

    def add(self, k: Length, stats: sd.Stats) -> None:
        self.rows[k].append(Row(stats.tokens, stats.seconds, stats.drafted, stats.target_calls))

    def quick_rows(self, k: Length) -> list[Row]:
        rows = sorted(self.rows[k], key=lambda row: row.rate)
        return rows[len(rows) // 4 :]

    def rate(self, k: Length) -> float:
        rows = self.quick_rows(k)
        return sum(row.tokens for row in rows) / sum(row.seconds for row in rows)

    def drafts_per_call(self, k: Length) -> float:
        return sum(row.drafted for row in self.rows[k]) / sum(row.target_calls for row in self.rows[k])


def models_of(size: str, workshop: Workshop, acceptance: str) -> list[tuple[str, pathlib.Path, pathlib.Path]]:
    """Rows of (name, target, draft)."""
    models = ROOT / "models"
    if size == "bundled":
        draft = models / "stdlib-draft-f16.gguf"
        return [
            ("bundled F16", models / "stdlib-target-f16.gguf", draft),
            ("bundled", workshop.make("same-target", "mxfp6"), draft),
        ]
    return [(size, workshop.make(f"{size}-{acceptance}", "mxfp6"), workshop.make("115m-draft", "mxfp6"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["bundled", "1.1b", "7b"])
    parser.add_argument("--k", type=int, nargs="+", default=[0, 1, 2, 3, 5, 7, 11], help="0 must be among them")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--targets", default="target", help="of wide sizes: target, or acceptRATE")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build" / "bench-models")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    arguments = parser.parse_args()
    workshop = Workshop(arguments.models, arguments.build)
    lengths: list[Length] = [*arguments.k, "auto"]

    print(f"{arguments.rounds} rounds of {arguments.tokens} tokens; fixed K: {', '.join(map(str, arguments.k))}\n")
    print("| target | draft | text | temperature | plain | best K | its speed | auto | drafts per call | of best | of plain |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for size in arguments.sizes:
        for name, target, draft in models_of(size, workshop, arguments.targets):
            for kind in ("model", "n-gram"):
                fixed, adaptive = (sd.Generator(target, draft if kind == "model" else "ngram", n_ctx=2048) for _ in range(2))
                for text, temperature in TEXTS:
                    prompt = (ROOT / "bench" / "prompts" / f"{text}.txt").read_text(encoding="utf-8")
                    cell = Cell()
                    for turn in range(arguments.rounds):
                        for k in lengths:
                            gen = adaptive if k == "auto" else fixed
                            gen.generate(
                                prompt,
                                max_tokens=arguments.tokens,
                                temperature=temperature,
                                seed=turn,
                                num_draft_tokens=k,
                                logit_bias={END_OF_TEXT: -float("inf")},
                            )
                            cell.add(k, gen.stats)
                    best = max(arguments.k, key=cell.rate)
                    plain, auto = cell.rate(0), cell.rate("auto")
                    shares = f"{cell.drafts_per_call('auto'):.2f} | {auto / cell.rate(best):.2f} | {auto / plain:.2f}"
                    row = (
                        f"{name} | {kind} | {text} | {temperature} | {plain:.1f} | {best} | {cell.rate(best):.1f} | {auto:.1f}"
                    )
                    print(f"| {row} | {shares} |", flush=True)
                    everything = ", ".join(f"{k}: {cell.rate(k):.1f}" for k in lengths)
                    print(f"{name} {kind} {text} {temperature}  {everything}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
