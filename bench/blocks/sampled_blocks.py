"""What sampled blocks are worth: accepted drafts of a block drafter whose drafts are sampled, and of one whose drafts
are the likeliest tokens of the same rows.

python -m bench.blocks.sampled_blocks DRAFTER.gguf [--prompts 72] [--tokens 64] [--temperatures 0.8 1.0]

models/train makes a drafter for the bundled target. Prompts are cut from held-out files (bench/verification); each has
a seed, the same for both. Intervals are of the ratio, by resampling prompts. No times, so any machine will do. Prints a
table.
"""

from __future__ import annotations

import pathlib

import numpy as np
from bench.common.options import parser_of
from bench.common.paths import TARGET
from bench.verification.verification import TRANSFORMS, held_out_prompts

import specdec_native as sd
from specdec_native._options import Drafting, StreamOptions, Verification

WAYS: dict[str, tuple[Verification, Drafting]] = {
    "sampled, block": ("block", "sampled"),
    "sampled, token": ("token", "sampled"),
    "likeliest tokens, block": ("block", "argmax"),
}
BASE = "likeliest tokens, block"


def counts(gen: sd.Generator, prompts: list[str], options: StreamOptions) -> np.ndarray:
    """A row per prompt: accepted drafts, cycles."""
    rows = []
    for seed, prompt in enumerate(prompts):
        options["seed"] = seed
        stats = gen.generate(prompt, **options).stats
        rows.append((stats.accepted, stats.target_calls))
    return np.array(rows, dtype=float)


def rate(rows: np.ndarray) -> float:
    accepted, cycles = rows.sum(0)
    return float(accepted / cycles)


def interval(rows: np.ndarray, base: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the ratio of the rates."""
    random = np.random.default_rng(0)
    picks = random.integers(0, len(rows), (4000, len(rows)))
    ratios = [rate(rows[pick]) / rate(base[pick]) for pick in picks]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("drafter", type=pathlib.Path)
    parser.add_argument("--prompts", type=int, default=72)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 5, 8])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.8, 1.0])
    parser.add_argument("--transforms", nargs="+", choices=[*TRANSFORMS], default=[*TRANSFORMS])
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    prompts = held_out_prompts(arguments.prompts)
    gen = sd.Generator(TARGET, arguments.drafter, suffix=False, n_threads=arguments.threads, n_ctx=512)
    print("| transforms | temperature | K | " + " | ".join(WAYS) + " | sampled, block / likeliest |")
    print("|---|---|---|" + "---|" * (len(WAYS) + 1))
    for transforms in arguments.transforms:
        for temperature in arguments.temperatures:
            for k in arguments.k:
                rows = {}
                for way, (verification, drafting) in WAYS.items():
                    options: StreamOptions = {**TRANSFORMS[transforms], "max_tokens": arguments.tokens}
                    options |= {"temperature": temperature, "num_draft_tokens": k}
                    options |= {"verification": verification, "drafting": drafting}
                    rows[way] = counts(gen, prompts, options)
                first, base = rows["sampled, block"], rows[BASE]
                low, high = interval(first, base)
                cells = [f"{rate(rows[way]):.3f}" for way in WAYS]
                cells.append(f"{rate(first) / rate(base):.3f} ({low:.3f} to {high:.3f})")
                print(f"| {transforms} | {temperature} | {k} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
