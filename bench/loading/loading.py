"""Seconds from start to the first token: python -m bench.loading.loading TARGET [DRAFT] [--specdec PROGRAM ...]
[--llama PROGRAM] [--rounds N] [--cold].

Runs `specdec generate -p hi -n 1` with the files in the page cache: the target alone and with the draft, each with and
without repacking, and with the repacked weights of an earlier run (--tile-cache, in a folder next to the target that is
removed in the end); and llama.cpp's llama-completion, which repacks, too. Prints the median and the least of the
rounds, whose runs are interleaved. --cold: drops the files that a run reads from the page cache before it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time


def warm(path: pathlib.Path) -> None:
    """Reads the file into the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def cool(path: pathlib.Path) -> None:
    """Drops the file from the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(command: list[object]) -> float:
    """Seconds that it takes."""
    begin = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("draft", type=pathlib.Path, nargs="?")
    parser.add_argument("--specdec", type=pathlib.Path, nargs="+", default=[pathlib.Path("build/default/specdec")])
    parser.add_argument("--llama", type=pathlib.Path, help="llama-completion, built with SPECDEC_PEERS")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold", action="store_true", help="files are read from the disk")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.target.parent, prefix="tiles-") as folder:
        measure(arguments, pathlib.Path(folder))


def measure(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    models = [path for path in (arguments.target, arguments.draft) if path]
    for path in models:
        warm(path)
    kept = ["--tile-cache", str(folder)]
    cases = {
        "target": ["-k", "0"],
        "target, not repacked": ["-k", "0", "--no-repack"],
        "target, kept": ["-k", "0", *kept],
    }
    if arguments.draft:
        pair = ["-md", str(arguments.draft)]
        cases |= {
            "target and draft": pair,
            "target and draft, not repacked": [*pair, "--no-repack"],
            "target and draft, kept": [*pair, *kept],
        }
    prompt = ["-m", arguments.target, "-p", "hi", "-n", "1"]
    commands: dict[tuple[str, str], list[object]] = {
        (str(program), name): [program, "generate", *prompt, *options]
        for program in arguments.specdec
        for name, options in cases.items()
    }
    if arguments.llama:
        commands["llama.cpp", "target"] = [arguments.llama, *prompt, "-no-cnv"]
        commands["llama.cpp", "target, no warm-up pass"] = [arguments.llama, *prompt, "-no-cnv", "--no-warmup"]
        commands["llama.cpp", "target, not repacked"] = [arguments.llama, *prompt, "-no-cnv", "--no-repack"]
    for (_, name), command in commands.items():
        if name.endswith("kept"):
            run(command)
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for case, command in commands.items():
            for path in [*models, *folder.iterdir()] if arguments.cold else []:
                cool(path)
            seconds.setdefault(case, []).append(run(command))
    print("| program | start of | seconds, median | least |\n|---|---|---|---|")
    for (program, name), times in seconds.items():
        print(f"| {program} | {name} | {statistics.median(times):.2f} | {min(times):.2f} |")


if __name__ == "__main__":
    main()
