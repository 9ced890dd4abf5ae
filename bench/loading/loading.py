"""Seconds from start to the first token: python -m bench.loading.loading TARGET [DRAFT] [--specdec PROGRAM ...]
[--llama PROGRAM] [--rounds N].

Runs `specdec generate -p hi -n 1` with the files in the page cache: the target alone and with the draft, each with and
without repacking; and llama.cpp's llama-completion, which repacks, too. Prints the median and the least of the rounds,
whose runs are interleaved.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import time


def warm(path: pathlib.Path) -> None:
    """Reads the file into the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("draft", type=pathlib.Path, nargs="?")
    parser.add_argument("--specdec", type=pathlib.Path, nargs="+", default=[pathlib.Path("build/default/specdec")])
    parser.add_argument("--llama", type=pathlib.Path, help="llama-completion, built with SPECDEC_PEERS")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    models = [path for path in (arguments.target, arguments.draft) if path]
    for path in models:
        warm(path)
    cases = {"target": ["-k", "0"], "target, not repacked": ["-k", "0", "--no-repack"]}
    if arguments.draft:
        pair = ["-md", str(arguments.draft)]
        cases |= {"target and draft": pair, "target and draft, not repacked": [*pair, "--no-repack"]}
    prompt = ["-m", arguments.target, "-p", "hi", "-n", "1"]
    commands = {
        (str(program), name): [program, "generate", *prompt, *options]
        for program in arguments.specdec
        for name, options in cases.items()
    }
    if arguments.llama:
        commands["llama.cpp", "target"] = [arguments.llama, *prompt, "-no-cnv"]
        commands["llama.cpp", "target, no warm-up pass"] = [arguments.llama, *prompt, "-no-cnv", "--no-warmup"]
        commands["llama.cpp", "target, not repacked"] = [arguments.llama, *prompt, "-no-cnv", "--no-repack"]
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for case, command in commands.items():
            begin = time.perf_counter()
            subprocess.run([str(part) for part in command], check=True, capture_output=True, stdin=subprocess.DEVNULL)
            seconds.setdefault(case, []).append(time.perf_counter() - begin)
    print("| program | start of | seconds, median | least |\n|---|---|---|---|")
    for (program, name), times in seconds.items():
        print(f"| {program} | {name} | {statistics.median(times):.2f} | {min(times):.2f} |")


if __name__ == "__main__":
    main()
