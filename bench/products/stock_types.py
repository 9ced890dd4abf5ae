"""What 1 to 16 tokens cost in the products of every stock weight type, of MXFP6 and of F16.

python -m bench.products.stock_types [--rounds 9] [--threads 2] [--k 1536] [--isa NAME] [--build build/default]

Runs bench_matmul (cmake --preset default -DSPECDEC_BENCH=ON) for every type, ours and llama.cpp's dot products, with
weights that do not fit into caches, and prints a markdown table. Products are more than nine tenths of a pass of a
model of some size, so the columns t(n) / t(1) are about what a pass over n tokens costs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass

from bench.common.options import parser_of

TYPES = [
    "Q8_0",
    "Q6_K",
    "Q5_K",
    "Q5_1",
    "Q5_0",
    "Q4_K",
    "Q4_1",
    "Q4_0",
    "IQ4_NL",
    "IQ4_XS",
    "Q3_K",
    "Q2_K",
    "Q2_0",
    "Q1_0",
    "IQ3_S",
    "IQ3_XXS",
    "IQ2_S",
    "IQ2_XS",
    "IQ2_XXS",
    "IQ1_M",
    "IQ1_S",
    "TQ2_0",
    "TQ1_0",
    "MXFP4",
    "NVFP4",
    "e2m3",
    "f16",
]
NAMES = {"e2m3": "MXFP6 E2M3", "f16": "F16"}
COLUMNS = [1, 2, 4, 8, 16]


@dataclass(frozen=True)
class Rates:
    """By number of columns."""

    bandwidth: float  # of reading, GB/s
    operations: dict[int, float]  # multiply-adds, counted twice, per second
    of_read: dict[int, float]  # share of the read bandwidth
    of_peak: dict[int, float]  # share of the peak of multiply-adds; empty if unknown

    def seconds(self, n: int) -> float:
        """Relative to other numbers of columns."""
        return n / self.operations[n]


def measure(arguments: argparse.Namespace, type: str, isa: str) -> Rates:
    command = [
        arguments.build / "bench" / "bench_matmul",
        "--type",
        type,
        "--rounds",
        arguments.rounds,
        "--threads",
        arguments.threads,
    ]
    command += ["--k", arguments.k, "--n", ",".join(map(str, COLUMNS)), "--mib", 96]
    command += ["--isa", isa] if isa else []
    out = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
    print(out, file=sys.stderr, flush=True)
    rows = re.findall(r"^ *(\d+) +[\d.]+ +([\d.]+)% +(\d+) +(?:([\d.]+)%|-)$", out, re.MULTILINE)
    assert [int(row[0]) for row in rows] == COLUMNS, out
    peak = {int(n): float(of_peak) / 100 for n, _, _, of_peak in rows if of_peak}
    bandwidth = re.search(r"read ([\d.]+) GB/s", out)
    assert bandwidth, out
    return Rates(
        float(bandwidth[1]),
        {int(n): float(ops) for n, _, ops, _ in rows},
        {int(n): float(read) / 100 for n, read, _, _ in rows},
        peak,
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--k", type=int, default=1536)
    parser.add_argument("--isa", default="", help="of our kernels; default: the best")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=TYPES)
    arguments = parser.parse_args()
    print(
        "| weights | read, GB/s | one column, of it | t(2) / t(1) | t(4) / t(1) | t(8) / t(1) | t(16) / t(1) ",
        end="",
    )
    print("| 8 columns, of the int8 (F16: F32) peak | times llama.cpp's dot products: 1, 2, 4, 8, 16 columns |")
    print("|---|---|---|---|---|---|---|---|---|")
    for type in arguments.types:
        ours = measure(arguments, type, arguments.isa)
        ratios = ""
        if not type.startswith("e"):
            ggml = measure(arguments, type, "ggml")
            ratios = ", ".join(f"{ours.operations[n] / ggml.operations[n]:.2f}" for n in COLUMNS)
        costs = " | ".join(f"{ours.seconds(n) / ours.seconds(1):.2f}" for n in COLUMNS[1:])
        peak = f"{ours.of_peak[8]:.0%}" if 8 in ours.of_peak else ""
        print(
            f"| {NAMES.get(type, type)} | {ours.bandwidth:.0f} | {ours.of_read[1]:.0%} | {costs} | {peak} | {ratios} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
