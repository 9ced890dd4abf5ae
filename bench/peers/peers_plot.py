"""Speed over acceptance rate.

python -m bench.peers.peers_plot [--size 1.1b] -> docs/peers.svg (needs matplotlib)

Uses the lines of bench/peers/peers.py in build/peers.jsonl. A point is the best row with a draft, of ours or of the
peers, for a pair SIZE@RATE at temperature 0.8, relative to the best peer's plain speed. The curve is predicted from
the pass times of one pair: a cycle makes 1 + rate * K tokens in the time that it took there. Make the points with

    python -m bench.peers.peers --pairs 1.1b@0.5 1.1b@0.6 1.1b@0.7 1.1b@0.8 1.1b@0.9 1.1b@0.95 --rows Q8_0 MXFP6
"""

from __future__ import annotations

import argparse
import json
import pathlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from bench.common.paths import ROOT
from bench.peers.peers_report import Line, best, measured, median

FloatArray = npt.NDArray[np.float64]
TEMPERATURE = 0.8
DEFAULT_RATE = 0.8  # of a pair without one in its name


@dataclass(frozen=True)
class Point:
    rate: float  # the acceptance rate that the pair was made for (K = 5, temperature 0.8), for both engines
    speedup: float
    base: float  # tokens per second of the best peer without a draft
    lines: list[Line]


def nominal_rate(pair: str) -> float:
    return float(pair.partition("@")[2] or DEFAULT_RATE)


def points(lines: list[Line], size: str, ours: bool) -> list[Point]:
    """The best row with a draft for every pair of the size."""
    found = []
    for pair in sorted({line["pair"] for line in lines if line["pair"].split("@")[0] == size}):
        rows = measured(lines, pair, TEMPERATURE)
        base = best({row: members for row, members in rows.items() if "," not in row}, ours=False)
        row = best({row: members for row, members in rows.items() if row.endswith(", draft")}, ours)
        if base is not None and row is not None:
            plain = median(rows[base])
            found.append(Point(nominal_rate(pair), median(rows[row]) / plain, plain, rows[row]))
    return sorted(found, key=lambda point: point.rate)


def predicted(point: Point, rates: FloatArray) -> FloatArray:
    """Predicted speedup at other rates with the same K; needs target calls, which only our engine reports."""
    calls = sum(line["target_calls"] for line in point.lines)
    k = sum(line["drafted"] for line in point.lines) / calls
    cycle = sum(line["seconds"] for line in point.lines) / calls  # K draft passes, one of the target, the rest
    speedup: FloatArray = (1 + rates * k) / cycle / point.base
    return speedup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1.1b")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "peers.jsonl")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "peers.svg")
    arguments = parser.parse_args()
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise SystemExit("error: needs matplotlib: pip install matplotlib") from None
    lines = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    rows = {
        "best peer, draft": points(lines, arguments.size, ours=False),
        "ours, draft": points(lines, arguments.size, ours=True),
    }
    if not all(rows.values()):
        raise SystemExit(
            f"error: {arguments.results} lacks rows of both for {arguments.size}: the head of this file says how"
        )
    figure, axes = plt.subplots(figsize=(7, 4.2))
    for name, found in rows.items():
        axes.plot([point.rate for point in found], [point.speedup for point in found], "o", label=name)
    middle = rows["ours, draft"][len(rows["ours, draft"]) // 2]
    rates = np.linspace(0.3, 1.0, 50)
    label = f"predicted from {middle.lines[0]['pair']}, {middle.lines[0]['k']} draft tokens"
    axes.plot(rates, predicted(middle, rates), linewidth=1, label=label)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_xlabel("acceptance rate of the pair")
    axes.set_ylabel("tokens per second over the best peer without a draft")
    axes.set_title(f"{arguments.size} llama shape, temperature {TEMPERATURE}")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(arguments.out)
    print(arguments.out)


if __name__ == "__main__":
    main()
