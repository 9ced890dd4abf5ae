"""Seconds from start to the first token: python -m bench.loading.loading TARGET DRAFT [--specdec PROGRAM ...] [--rounds
N].

Runs `specdec generate -p hi -n 1` with the files in the page cache: the target alone and with the draft, each with and
without repacking. Prints the median and the least of the rounds, whose runs are interleaved.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("draft", type=pathlib.Path)
    parser.add_argument("--specdec", type=pathlib.Path, nargs="+", default=[pathlib.Path("build/default/specdec")])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    for path in (arguments.target, arguments.draft):
        path.read_bytes()  # into the page cache
    alone, pair = ["-k", "0"], ["-md", str(arguments.draft)]
    cases = {
        "target": alone,
        "target, not repacked": [*alone, "--no-repack"],
        "target and draft": pair,
        "target and draft, not repacked": [*pair, "--no-repack"],
    }
    seconds: dict[tuple[pathlib.Path, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for name, options in cases.items():
            for program in arguments.specdec:
                command = [program, "generate", "-m", arguments.target, *options, "-p", "hi", "-n", "1"]
                begin = time.perf_counter()
                subprocess.run([str(part) for part in command], check=True, capture_output=True)
                seconds.setdefault((program, name), []).append(time.perf_counter() - begin)
    print("| program | start of | seconds, median | least |\n|---|---|---|---|")
    for (program, name), times in seconds.items():
        print(f"| {program} | {name} | {statistics.median(times):.2f} | {min(times):.2f} |")


if __name__ == "__main__":
    main()
