"""What a long prompt costs with a draft model: until the first token, and in every cycle after it.

python -m bench.long_text.times [TARGET DRAFT] [--prompts 500 2000 8000] [--rounds 3]

Without files: the real pair (bench/common/real_models.py). One Generator per window: the default, and one as long as
the context. Each prompt is read without and with three drafts per cycle, in turn, and timed to the first token; then
cycles of three drafts and plain tokens are timed in turn, once the draft has caught up. Prints ratios: seconds of a
busy machine say little. Tables are in RESULTS.md.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import statistics
import time

from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import LIBRARY

import specdec_native as sd

TOKENS = 24  # of an output whose cycles are timed
CAUGHT_UP = 12  # tokens after which the draft has read its window


def first_token(gen: sd.Generator, prompt: list[int], k: int) -> float:
    begin = time.perf_counter()
    with gen.stream(prompt, max_tokens=64, temperature=0, num_draft_tokens=k) as stream:
        next(stream)
        return time.perf_counter() - begin


def seconds_per_cycle(gen: sd.Generator, prompt: list[int], k: int) -> float:
    """After those in which the draft reads."""
    handle = gen.submit(prompt, max_tokens=TOKENS + CAUGHT_UP, temperature=0, num_draft_tokens=k)
    list(itertools.islice(handle, CAUGHT_UP))
    before = handle.stats
    handle.result()
    after = handle.stats
    return (after.seconds - before.seconds) / max(1, after.target_calls - before.target_calls)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="TARGET DRAFT")
    parser.add_argument("--prompts", type=int, nargs="+", default=[500, 2000, 8000], help="tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    arguments: argparse.Namespace = parser.parse_args()
    target, draft = arguments.files or [FOLDER / f"{name}.gguf" for name in PAIR]
    context = max(arguments.prompts) + 256
    gens = {
        window: sd.Generator(
            target, draft, suffix=False, n_ctx=context, draft_window=window, n_threads=arguments.threads
        )
        for window in (None, context)
    }
    text = next(iter(gens.values())).tokenize((LIBRARY / "argparse.py").read_text(encoding="utf-8") * 2)
    print("| prompt | window | first token, of plain | cycle of 3 drafts, in plain tokens |\n|---|---|---|---|")
    for length in arguments.prompts:
        firsts: dict[int | None, list[float]] = {window: [] for window in gens}
        cycles: dict[int | None, list[float]] = {window: [] for window in gens}
        for round_ in range(arguments.rounds):
            for window, gen in gens.items():
                # Another first token for every reading: nothing of it is cached.
                prompts = [[1000 + 2 * round_ + i, *text[: length - 1]] for i in range(2)]
                plain, drafted = (first_token(gen, prompt, k) for prompt, k in zip(prompts, (0, 3), strict=True))
                firsts[window].append(drafted / plain)
                times = [seconds_per_cycle(gen, prompts[1], k) for k in (3, 0, 3, 0, 3)]
                cycles[window].append(statistics.median(times[0::2]) / statistics.median(times[1::2]))
        for window, gen in gens.items():
            size = gen.draft_window if window is None else "all"
            print(
                f"| {length} | {size} | {statistics.median(firsts[window]):.2f} | "
                f"{statistics.median(cycles[window]):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
