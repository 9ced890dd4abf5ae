"""What a portable program costs: a released one (release/wheels.py) and one that was compiled for this machine.

python -m bench.machines.portable PORTABLE [--native build/default/specdec] [--models MODEL.gguf ...] [--tokens 48]
    [--rounds 7]

Both read a prompt and write its greedy continuation without a draft, in turn; medians. Our own kernels are chosen at
run time in both: the rest (norms, rope, softmax, sampling, llama.cpp's own kernels) is compiled for x86-64-v3 or
ARMv8.2 in the portable one. Prints a markdown table; whether the two texts are the same, in the last column.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
from typing import NamedTuple

from bench.common.paths import BUILD, TARGET
from bench.common.texts import PROMPTS

PROMPT = PROMPTS / "novel.txt"
PROMPT_WORDS = 300


class Run(NamedTuple):
    read_ms: float  # per token of the prompt
    pass_ms: float  # one token each
    text: str


def run(program: pathlib.Path, model: pathlib.Path, tokens: int) -> Run:
    prompt = " ".join(PROMPT.read_text(encoding="utf-8").split()[:PROMPT_WORDS])
    options = ["-m", str(model), "-p", prompt, "-n", str(tokens), "-k", "0", "--temp", "0", "--json"]
    output = subprocess.run([str(program), "generate", *options], check=True, capture_output=True, text=True).stdout
    *pieces, last = [json.loads(line) for line in output.splitlines()]
    stats = last["stats"]
    text = "".join(piece["text"] for piece in pieces)
    return Run(
        1e3 * stats["prompt_seconds"] / stats["prompt_tokens"],
        1e3 * stats["target_seconds"] / stats["target_calls"],
        text,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a portable program and one for this machine.")
    parser.add_argument("portable", type=pathlib.Path)
    parser.add_argument("--native", type=pathlib.Path, default=BUILD / "specdec")
    parser.add_argument("--models", type=pathlib.Path, nargs="+", default=[TARGET])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print("| model | ms per pass, native | portable | | ms per prompt token, native | portable | | same text |")
    print("|---|---|---|---|---|---|---|---|")
    for model in arguments.models:
        native, portable = [], []
        for _ in range(arguments.rounds):
            native.append(run(arguments.native, model, arguments.tokens))
            portable.append(run(arguments.portable, model, arguments.tokens))
        cells = [model.name]
        for part in ("pass_ms", "read_ms"):
            ours, theirs = (statistics.median(getattr(each, part) for each in runs) for runs in (native, portable))
            cells += [f"{ours:.3f}", f"{theirs:.3f}", f"{100 * (theirs / ours - 1):+.1f} %"]
        cells.append("yes" if len({each.text for each in native + portable}) == 1 else "no")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
