"""Drafting heads and block drafters of the bundled target compared with the bundled draft.

python -m bench.heads.heads DRAFTER.gguf... [--speed | --wide FOLDER]

What the drafts are worth: accepted drafts and tokens per pass for each K, on the prompts of bench/cycle/cycles.py at
temperatures 0 and 0.8; no times, so any machine will do. Or, with --speed, tokens per second for each K (0 and "auto",
too), sources of drafts and lengths taking turns, medians over the rounds; and the milliseconds of a pass. --wide
measures this with everything widened to the 1.1B class (the draft to 115M); F16 files are made in the folder once (2.4
GB). Prints a table.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import sys
from collections import defaultdict
from typing import Literal

from bench.common.texts import CODE_PROMPTS

import specdec_native as sd

MODELS = pathlib.Path(__file__).parents[2] / "models"
TARGET, DRAFT = MODELS / "stdlib-target-f16.gguf", MODELS / "stdlib-draft-f16.gguf"
Length = int | Literal["auto"]


def generator(target: pathlib.Path, draft: pathlib.Path, threads: int) -> sd.Generator:
    return sd.Generator(target, draft, suffix=False, n_ctx=512, n_threads=threads)


def print_worth(drafts: dict[str, pathlib.Path], lengths: list[int], tokens: int, seeds: int) -> None:
    print("| draft | temperature | K | accepted | tokens per pass |\n|---|---|---|---|---|")
    for name, path in drafts.items():
        gen = generator(TARGET, path, 1)
        for temperature in (0.0, 0.8):
            for k in lengths:
                made = drafted = accepted = passes = 0
                for prompt in CODE_PROMPTS:
                    for seed in range(seeds if temperature > 0 else 1):
                        gen.generate(prompt, max_tokens=tokens, temperature=temperature, seed=seed, num_draft_tokens=k)
                        stats = gen.stats
                        made, passes = made + stats.tokens, passes + stats.target_calls
                        drafted, accepted = drafted + stats.drafted, accepted + stats.accepted
                print(f"| {name} | {temperature} | {k} | {accepted / drafted:.3f} | {made / passes:.2f} |", flush=True)


def widened(model: pathlib.Path, shape: str, folder: pathlib.Path | None) -> pathlib.Path:
    if folder is None:
        return model
    out = folder / f"{shape}-{model.name}"
    if not out.exists():
        subprocess.run(
            [sys.executable, MODELS / "widen.py", shape, out, "--model", model], check=True, stdout=subprocess.DEVNULL
        )
    return out


def print_speed(drafts: dict[str, pathlib.Path], lengths: list[Length], options: argparse.Namespace) -> None:
    target = options.target or widened(TARGET, "1.1b", options.wide)
    generators = {
        name: generator(target, widened(path, "115m" if path == DRAFT else "1.1b", options.wide), options.threads)
        for name, path in drafts.items()
    }
    speeds: dict[tuple[str, Length], list[float]] = defaultdict(list)
    passes: dict[str, list[float]] = defaultdict(list)
    for turn in range(options.rounds):
        for k in lengths:
            for name, gen in generators.items():
                prompt = CODE_PROMPTS[turn % len(CODE_PROMPTS)]
                gen.generate(prompt, max_tokens=options.tokens, temperature=0.8, seed=turn, num_draft_tokens=k)
                stats = gen.stats
                speeds[name, k].append(stats.tokens / stats.seconds)
                if stats.draft_calls > 0:
                    passes[name].append(1e3 * stats.draft_seconds / stats.draft_calls)
    header = " | ".join(f"K = {k}" if k != "auto" else "auto" for k in lengths)
    print(f"| draft | a pass of it | {header} |\n|---|---|{'---|' * len(lengths)}")
    for name in drafts:
        milliseconds = f"{statistics.median(passes[name]):.1f} ms" if passes[name] else ""
        cells = [milliseconds, *(f"{statistics.median(speeds[name, k]):.1f}" for k in lengths)]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drafters", type=pathlib.Path, nargs="+", metavar="DRAFTER.gguf")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--wide", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--target", type=pathlib.Path, help="the widened target in other weights")
    parser.add_argument("--k", type=lambda k: k if k == "auto" else int(k), nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    drafts = {path.stem.removeprefix("stdlib-").removesuffix("-f16"): path for path in (DRAFT, *options.drafters)}
    if options.wide is None and not options.speed:
        print_worth(drafts, options.k, options.tokens, options.seeds)
    else:
        print_speed(drafts, options.k, options)


if __name__ == "__main__":
    main()
