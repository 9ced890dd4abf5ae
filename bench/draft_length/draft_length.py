"""num_draft_tokens="auto" compared with every fixed K.

python -m bench.draft_length.draft_length --pairs 1.1b --drafts model

A cell is a pair of models, a draft (the model, or n-gram lookup), a kind of text (bench/common/prompts) and a
temperature. In a round, every length generates the same tokens: verification="invariant" makes them depend on the
seed only. The lengths take turns, each round starting with another one. The result is the time of a length relative
to that of K = 0 in the same round, as median over the rounds. Every length has its own Generator, so that "auto"
knows only its own measurements, and caches are equally cold for all. Within one run, "auto" keeps what it learnt from
cell to cell, as in normal use.

Every generation is a line in --results. Cells whose rounds are all in the file are not measured again, so an
interrupted run can be resumed or extended. Prints a markdown table of the selected cells in the file; with --table,
measures nothing.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from bench.common.options import parser_of
from bench.common.paths import MADE, ROOT
from bench.common.texts import PROMPTS
from bench.common.wide_models import Workshop

import specdec_native as sd

TEXTS = ["boilerplate:0.8", "novel:0.8", "novel:0.0", "novel:1.2", "docstring:0.8", "random:0.8", "repeated:0.8"]
PAIRS = ["bundled-f16", "bundled", "1.1b", "7b"]
DRAFTS = ["model", "n-gram"]
END_OF_TEXT = 0  # of the bundled models
Verification = Literal["token", "block", "invariant"]
Length = int | Literal["auto"]


@dataclass(frozen=True)
class Cell:
    pair: str
    draft: str
    text: str  # KIND:TEMPERATURE
    tokens: int


@dataclass(frozen=True)
class Row:
    """Time and counts of one generation."""

    cell: Cell
    turn: int
    k: Length
    tokens: int
    seconds: float
    drafted: int
    target_calls: int


class Results:
    """The rows of a file, one JSON object a line."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.rows: dict[Cell, list[Row]] = defaultdict(list)
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            fields = json.loads(line)
            self._add(Row(**{**fields, "cell": Cell(**fields["cell"])}))

    def _add(self, row: Row) -> None:
        self.rows[row.cell].append(row)

    def append(self, row: Row) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        self._add(row)

    def turns(self, cell: Cell, lengths: list[Length]) -> list[dict[Length, Row]]:
        """The rounds in which every length was measured."""
        rounds: dict[int, dict[Length, Row]] = defaultdict(dict)
        for row in self.rows[cell]:
            rounds[row.turn][row.k] = row
        return [rounds[turn] for turn in sorted(rounds) if set(lengths) <= set(rounds[turn])]

    def table_row(self, cell: Cell, lengths: list[Length]) -> str | None:
        turns = self.turns(cell, lengths)
        if not turns:
            return None

        def speed(k: Length) -> float:
            return statistics.median(
                rows[0].seconds / rows[0].tokens / (rows[k].seconds / rows[k].tokens) for rows in turns
            )

        best = max((k for k in lengths if k != "auto"), key=speed)
        plain = max(rows[0].tokens / rows[0].seconds for rows in turns)
        drafts = sum(rows["auto"].drafted for rows in turns) / sum(rows["auto"].target_calls for rows in turns)
        everything = " ".join(f"{k}:{speed(k):.2f}" for k in lengths if k not in (0, "auto"))
        return (
            f"| {cell.pair} | {cell.draft} | {cell.text} | {len(turns)} x {cell.tokens} | {plain:.0f} | {everything} | "
            f"{best} | {drafts:.1f} | {speed('auto') / speed(best):.2f} | {speed('auto'):.2f} |"
        )


HEADER = """| pair | draft | text:temperature | texts | plain tok/s | K: of plain | best K | auto: drafts | of best | of
plain |
|---|---|---|---|---|---|---|---|---|---|"""


def models_of(pair: str, workshop: Workshop, targets: str) -> tuple[pathlib.Path, pathlib.Path]:
    models = ROOT / "models"
    if pair == "bundled-f16":
        return models / "stdlib-target-f16.gguf", models / "stdlib-draft-f16.gguf"
    if pair == "bundled":
        return workshop.make("same-target", "mxfp6"), models / "stdlib-draft-f16.gguf"
    return workshop.make(f"{pair}-{targets}", "mxfp6"), workshop.make("115m-draft", "mxfp6")


def measure(
    cell: Cell, generators: dict[Length, sd.Generator], turns: range, verification: Verification
) -> Iterator[Row]:
    kind, temperature = cell.text.split(":")
    prompt = (PROMPTS / f"{kind}.txt").read_text(encoding="utf-8")
    lengths = list(generators)
    for turn in turns:
        first = turn % len(lengths)
        for k in [*lengths[first:], *lengths[:first]]:
            gen = generators[k]
            gen.generate(
                prompt,
                max_tokens=cell.tokens,
                temperature=float(temperature),
                seed=turn,
                num_draft_tokens=k,
                verification=verification,
                logit_bias={END_OF_TEXT: -float("inf")},
            )
            stats = gen.stats
            yield Row(cell, turn, k, stats.tokens, stats.seconds, stats.drafted, stats.target_calls)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=PAIRS)
    parser.add_argument("--drafts", nargs="+", choices=DRAFTS, default=DRAFTS)
    parser.add_argument("--texts", nargs="+", default=TEXTS, metavar="KIND:TEMPERATURE")
    parser.add_argument(
        "--k", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5, 7, 8, 11, 15], help="0 must be among them"
    )
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--targets", default="accept0.8", help="of wide pairs: target, or acceptRATE")
    parser.add_argument("--verification", choices=["token", "block", "invariant"], default="invariant")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "draft-length.jsonl")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    arguments = parser.parse_args()
    if 0 not in arguments.k:
        parser.error("--k needs 0, which all others are compared with")
    workshop = Workshop(arguments.models, arguments.build)
    lengths: list[Length] = [*arguments.k, "auto"]
    results = Results(arguments.results)

    print(HEADER)
    for pair in arguments.pairs:
        for draft in arguments.drafts:
            generators: dict[Length, sd.Generator] = {}
            for text in arguments.texts:
                cell = Cell(pair, draft, text, arguments.tokens)
                done = len(results.turns(cell, lengths))
                if not arguments.table and done < arguments.rounds:
                    if not generators:
                        target, model = models_of(pair, workshop, arguments.targets)
                        proposer = model if draft == "model" else "ngram"
                        generators = {k: sd.Generator(target, proposer, n_ctx=1024) for k in lengths}
                    turns = range(done, arguments.rounds)
                    for row in measure(cell, generators, turns, arguments.verification):
                        results.append(row)
                line = results.table_row(cell, lengths)
                if line is not None:
                    print(line, flush=True)
                elif arguments.table:
                    print(f"{cell}: not measured", file=sys.stderr)


if __name__ == "__main__":
    main()
