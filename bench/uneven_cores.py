"""What a pass costs with a thread on a slow core: whether efficiency cores should be left out (cpp/platform/cores.h).

sudo python bench/uneven_cores.py MODEL.gguf ... [--specdec build/default/specdec] [--tokens 48] [--rounds 5]

A slow core is a real one of which a program of higher priority takes a share: of every 50 microseconds it computes for so
many, and sleeps for the rest, which is short beside a matrix product. How slow that makes it is measured, by how much longer a
known piece of work takes there. Prints a markdown table: milliseconds per pass without that core, with it, and with it slow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
PERIOD = 50e-6
SHARES = (0.2, 0.4, 0.6)  # of the slow core's time


def take(core: int, share: float, priority: int) -> None:
    """Computes for this share of every period, on this core."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    while True:
        begin = time.perf_counter()
        while time.perf_counter() < begin + share * PERIOD:
            pass
        time.sleep(max(0.0, begin + PERIOD - time.perf_counter()))


@contextlib.contextmanager
def slow(core: int, share: float) -> Iterator[None]:
    other = multiprocessing.Process(target=take, args=(core, share, os.sched_get_priority_max(os.SCHED_FIFO) // 2), daemon=True)
    other.start()
    try:
        yield
    finally:
        other.terminate()
        other.join()


def work(core: int, seconds: list[float]) -> None:
    """Appends the time that a fixed piece of arithmetic takes on this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    begin = time.perf_counter()
    for _ in range(5_000_000):
        pass
    seconds.append(time.perf_counter() - begin)
    os.sched_setaffinity(0, before)


def pass_ms(specdec: pathlib.Path, model: pathlib.Path, threads: int, tokens: int) -> float:
    options = [
        "-m",
        str(model),
        "-p",
        "def f(",
        "-n",
        str(tokens),
        "-k",
        "0",
        "--temp",
        "0",
        "-t",
        str(threads),
        "--json",
        "-c",
        "256",
    ]
    output = subprocess.run([str(specdec), "generate", *options], check=True, capture_output=True, text=True).stdout
    stats = json.loads(output.splitlines()[-1])["stats"]
    return 1e3 * float(stats["target_seconds"]) / int(stats["target_calls"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Times passes with a thread on a slow core.")
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--specdec", type=pathlib.Path, default=ROOT / "build" / "default" / "specdec")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    speeds = []
    for share in SHARES:
        seconds: list[float] = []
        work(cores[-1], seconds)
        with slow(cores[-1], share):
            time.sleep(0.1)
            work(cores[-1], seconds)
        speeds.append(seconds[0] / seconds[1])
    print(
        f"| model | {len(cores) - 1} threads | {len(cores)}",
        *(f"the last core at {100 * speed:.0f} %" for speed in speeds),
        "",
        sep=" | ",
    )
    print("|---" * (3 + len(SHARES)) + "|")
    for model in arguments.models:
        columns: list[list[float]] = [[] for _ in range(2 + len(SHARES))]
        for _ in range(arguments.rounds):
            columns[0].append(pass_ms(arguments.specdec, model, len(cores) - 1, arguments.tokens))
            columns[1].append(pass_ms(arguments.specdec, model, len(cores), arguments.tokens))
            for share, column in zip(SHARES, columns[2:], strict=True):
                with slow(cores[-1], share):
                    column.append(pass_ms(arguments.specdec, model, len(cores), arguments.tokens))
        print(f"| {model.name}", *(f"{statistics.median(column):.2f}" for column in columns), "", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
