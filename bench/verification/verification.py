"""Tokens per target call of every verification and drafting mode.

python -m bench.verification.verification [--prompts 72] [--tokens 64]

The bundled pair (F16), and the same draft for an MXFP6 target. Prompts are cut from the standard-library files that
were held out of the models' training. Every cell is the same prompts, one seed per prompt. The standard error is that
of a ratio of sums, the prompts being the independent draws. Prints markdown tables, then every mode against `token`
with sampled drafts.
"""

from __future__ import annotations

import itertools
import math
import pathlib
from dataclasses import dataclass

import numpy as np
from bench.common.options import parser_of
from bench.common.paths import DRAFT, MADE, TARGET
from bench.common.texts import held_out_files
from bench.common.wide_models import bundled_mxfp6

import specdec_native as sd
from specdec_native._options import Drafting, StreamOptions, Verification

MODES: list[tuple[Verification, Drafting]] = [
    ("token", "sampled"),
    ("block", "sampled"),
    ("invariant", "sampled"),
    ("token", "argmax"),
    ("block", "argmax"),
    ("invariant", "argmax"),
]
TRANSFORMS: dict[str, StreamOptions] = {
    "default": {},  # top-k 40, top-p 0.95, min-p 0.05
    "temperature alone": {"top_k": 0, "top_p": 1.0, "min_p": 0.0},
}


@dataclass(frozen=True)
class Estimate:
    """Tokens per target call. Standard error of a ratio of sums, by linearization over prompts."""

    mean: float
    error: float

    @staticmethod
    def of(counts: list[tuple[int, int]]) -> Estimate:
        tokens, calls = np.array(counts, dtype=float).T
        mean = tokens.sum() / calls.sum()
        deviations = tokens - mean * calls
        return Estimate(mean, math.sqrt(len(counts) * deviations.var(ddof=1)) / calls.sum())

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


def held_out_prompts(count: int) -> list[str]:
    """Pieces of 200 characters at regular intervals."""
    text = "".join(held_out_files())
    starts = np.linspace(0, len(text) - 400, count).astype(int)
    return [text[start : start + 200].rstrip() for start in starts]


def measure(gen: sd.Generator, prompts: list[str], options: StreamOptions) -> Estimate:
    counts = []
    for seed, prompt in enumerate(prompts):
        seeded: StreamOptions = {**options, "seed": seed}
        stats = gen.generate(prompt, **seeded).stats
        counts.append((stats.tokens, stats.target_calls))
    return Estimate.of(counts)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--prompts", type=int, default=72)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 5, 7])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.6, 0.8, 1.0, 1.2])
    parser.add_argument("--targets", nargs="+", choices=["F16", "MXFP6"], default=["F16", "MXFP6"])
    parser.add_argument("--transforms", nargs="+", choices=[*TRANSFORMS], default=[*TRANSFORMS])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    arguments = parser.parse_args()

    prompts = held_out_prompts(arguments.prompts)
    differences: dict[tuple[Verification, Drafting], list[float]] = {}
    for target in arguments.targets:
        path = bundled_mxfp6("target", arguments.models, arguments.build) if target == "MXFP6" else TARGET
        gen = sd.Generator(path, DRAFT, n_threads=arguments.threads)
        for name in arguments.transforms:
            print(f"\n{target} target, transforms: {name}; {len(prompts)} prompts of up to {arguments.tokens} tokens\n")
            print("| K | temperature | " + " | ".join(f"{v}, {d}" for v, d in MODES) + " |")
            print("|---|---|" + "---|" * len(MODES))
            for k, temperature in itertools.product(arguments.k, arguments.temperatures):
                row: dict[tuple[Verification, Drafting], Estimate] = {}
                for verification, drafting in MODES:
                    options: StreamOptions = {
                        **TRANSFORMS[name],
                        "max_tokens": arguments.tokens,
                        "temperature": temperature,
                    }
                    options |= {"num_draft_tokens": k, "verification": verification, "drafting": drafting}
                    row[verification, drafting] = measure(gen, prompts, options)
                best = max(estimate.mean for estimate in row.values())
                cells = [f"**{e}**" if e.mean == best else str(e) for e in row.values()]
                print(f"| {k} | {temperature} | " + " | ".join(cells) + " |", flush=True)
                base = row["token", "sampled"]
                for mode, e in row.items():
                    differences.setdefault(mode, []).append(100 * (e.mean / base.mean - 1))

    print("\n| against token, sampled | mean | worst cell | best cell |\n|---|---|---|---|")
    for (verification, drafting), percents in differences.items():
        cells = [f"{value:+.1f} %" for value in (float(np.mean(percents)), min(percents), max(percents))]
        print(f"| {verification}, {drafting} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
