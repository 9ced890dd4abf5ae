"""What a pass costs with a thread on a slow core: whether efficiency cores should be left out (cpp/platform/cores.h).

sudo python -m bench.machines.uneven_cores MODEL.gguf ... [--specdec build/default/specdec] [--tokens 48] [--rounds 5]

A slow core is a real one of which a program of higher priority takes a share: of every 100 microseconds it computes
for so many, and sleeps for the rest, which is short compared with a matrix product. How slow that makes it is measured,
by how much longer a known piece of work takes there. Prints a markdown table: milliseconds per pass without that core,
with it, and with it slow.
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

from bench.common.paths import BUILD

PERIOD = 100e-6
SHARES = (0.05, 0.25, 0.45)  # of the slow core's time; waking up takes some more of it


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
    other = multiprocessing.Process(
        target=take, args=(core, share, os.sched_get_priority_max(os.SCHED_FIFO) // 2), daemon=True
    )
    other.start()
    try:
        yield
    finally:
        other.terminate()
        other.join()


def seconds_of_work(core: int) -> float:
    """What a fixed piece of arithmetic takes on this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    begin = time.perf_counter()
    for _ in range(3_000_000):
        pass
    seconds = time.perf_counter() - begin
    os.sched_setaffinity(0, before)
    return seconds


def speed(core: int, share: float) -> float:
    """The speed of a core of which this share is taken, as a share of the whole core's."""
    whole = [seconds_of_work(core) for _ in range(3)]
    with slow(core, share):
        time.sleep(0.1)
        return statistics.median(whole) / statistics.median(seconds_of_work(core) for _ in range(3))


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
    parser.add_argument("--specdec", type=pathlib.Path, default=BUILD / "specdec")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    speeds = [speed(cores[-1], share) for share in SHARES]
    print(
        f"| model | {len(cores) - 1} threads | {len(cores)}",
        *(f"the last core at {100 * value:.0f} %" for value in speeds),
        "",
        sep=" | ",
    )
    print("|---" * (3 + len(SHARES)) + "|")
    for model in arguments.models:
        columns: list[list[float]] = [[] for _ in range(2 + len(SHARES))]
        for _ in range(arguments.rounds):
            with slow(cores[-1], 1.0):  # nor does anything else run there
                columns[0].append(pass_ms(arguments.specdec, model, len(cores) - 1, arguments.tokens))
            columns[1].append(pass_ms(arguments.specdec, model, len(cores), arguments.tokens))
            for share, column in zip(SHARES, columns[2:], strict=True):
                with slow(cores[-1], share):
                    column.append(pass_ms(arguments.specdec, model, len(cores), arguments.tokens))
        print(f"| {model.name}", *(f"{statistics.median(column):.2f}" for column in columns), "", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
