"""Chains and trees of drafts side by side: tokens a pass and tokens per second, by prompt and temperature.

python -m bench.trees.trees [--megabytes 1050] [--sizes 0 auto 16] [--prompts NAME ...] [--rounds 1] [--tokens 96]

The real pair as downloaded (bench/common/real_models.py), or --target and --draft. With --megabytes the target is read
from the disk beyond that much memory (--memory; no control group), without it all is in memory. Sizes alternate within
a round; 0 is chains; only decoding is timed.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile

from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS
from bench.memory.memory import Rows, cases

Results = dict[tuple[str, float, str], list[tuple[float, float]]]  # by prompt, temperature and size


def measure(arguments: argparse.Namespace, folder: pathlib.Path) -> Results:
    rows = Rows(arguments, folder / "tiles")
    results: Results = {}
    limit = (arguments.megabytes or 10**6) * 10**6
    for name, prompt, temperature in cases(arguments, folder):
        for size in arguments.sizes:
            run = rows.ours("-md", arguments.draft, "--draft-tree", size)
            results.setdefault((name, temperature, size), []).append(run(limit, prompt, temperature))
    return results


def report(arguments: argparse.Namespace, results: Results) -> None:
    words = ["chains" if size == "0" else f"trees of {size}" for size in arguments.sizes]
    print(f"| prompt, temperature | {' | '.join(words)} |\n|---|{'---|' * len(words)}")
    for name in arguments.prompts:
        for temperature in arguments.temperatures:
            cells = []
            for size in arguments.sizes:
                rate, per_pass = (
                    statistics.median(values) for values in zip(*results[name, temperature, size], strict=True)
                )
                cells.append(f"{rate:.1f} ({per_pass:.1f})")
            print(f"| {name}, {temperature:g} | {' | '.join(cells)} |")
    print("\nTokens per second (tokens a pass).")
    first = arguments.sizes[0]
    for size in arguments.sizes[1:]:
        gains = [
            statistics.median(rate for rate, _ in results[name, temperature, size])
            / statistics.median(rate for rate, _ in results[name, temperature, first])
            for name in arguments.prompts
            for temperature in arguments.temperatures
        ]
        median = statistics.median(gains)
        print(f"{size} beside {first}: median {median:.2f}, {min(gains):.2f} to {max(gains):.2f}")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path, default=FOLDER / f"{PAIR[0]}.gguf")
    parser.add_argument("--draft", type=pathlib.Path, default=FOLDER / f"{PAIR[1]}.gguf")
    parser.add_argument("--megabytes", type=int)
    parser.add_argument("--sizes", nargs="+", default=["0", "auto", "16"])
    parser.add_argument("--prompts", nargs="+", default=list(CHAT_PROMPTS), choices=sorted(CHAT_PROMPTS))
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0, 0.8])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.no_limit = True
    with tempfile.TemporaryDirectory() as folder:
        report(arguments, measure(arguments, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
