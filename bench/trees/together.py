"""Chains and trees of drafts of several requests at once: tokens per second of all together, and tokens a pass of each.

python -m bench.trees.together [--prompts story photosynthesis compare] [--memory 1200M] [--rounds 3] [--tokens 100]

The prompts run together on the real pair as downloaded (bench/common/real_models.py), or on --target and --draft: a
Generator for each run, which knows nothing of earlier ones. Sizes of trees alternate within a round; 0 is chains. With
--memory the target is read from the disk beyond that much. SPECDEC_ISA=avx2 in the environment: with those kernels.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time

from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS, chat

import specdec_native as sd


def run(arguments: argparse.Namespace, size: str, temperature: float, seed: int) -> tuple[float, float]:
    """Tokens per second of all, from the first token of the last request on, and tokens a pass."""
    count = len(arguments.prompts)
    with sd.Generator(
        arguments.target,
        arguments.draft,
        n_ctx=1024,
        n_threads=arguments.threads,
        max_sequences=count,
        draft_tree="auto" if size == "auto" else int(size),
        memory=arguments.memory,
        auto_cache=False,
    ) as gen:
        for handle in [gen.submit(chat(CHAT_PROMPTS[name]), max_tokens=1) for name in arguments.prompts]:
            handle.result()  # the prompts are read
        begin = time.perf_counter()
        handles = [
            gen.submit(
                chat(CHAT_PROMPTS[name]),
                max_tokens=arguments.tokens,
                temperature=temperature,
                seed=seed,
            )
            for name in arguments.prompts
        ]
        done = [handle.result() for handle in handles]
        seconds = time.perf_counter() - begin
    tokens = sum(completion.stats.tokens for completion in done)
    return tokens / seconds, tokens / sum(completion.stats.target_calls for completion in done)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path, default=FOLDER / f"{PAIR[0]}.gguf")
    parser.add_argument("--draft", type=pathlib.Path, default=FOLDER / f"{PAIR[1]}.gguf")
    parser.add_argument("--memory")
    parser.add_argument("--sizes", nargs="+", default=["0", "auto"])
    parser.add_argument("--prompts", nargs="+", default=["story", "photosynthesis", "compare"])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0, 0.8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    words = ["chains" if size == "0" else f"trees of {size}" for size in arguments.sizes]
    print(f"| temperature | {' | '.join(words)} |\n|---|{'---|' * len(words)}")
    for temperature in arguments.temperatures:
        found: dict[str, list[tuple[float, float]]] = {size: [] for size in arguments.sizes}
        for number in range(arguments.rounds):
            for size in arguments.sizes:
                found[size].append(run(arguments, size, temperature, 1 + number))
        cells = []
        for runs in found.values():
            rates, per_pass = zip(*runs, strict=True)
            cells.append(f"{', '.join(f'{rate:.1f}' for rate in rates)} ({statistics.median(per_pass):.1f})")
        print(f"| {temperature:g} | {' | '.join(cells)} |", flush=True)
    print("\nTokens per second of all requests together in each round (tokens a pass of each, median).")


if __name__ == "__main__":
    main()
