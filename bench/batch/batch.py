"""Several sequences at once, plain and speculative.

python -m bench.batch.batch [--sequences 1 2 4 8 16 32] [--lengths 1 2 3 5 7]

Generates continuations of source code in all sequences at once, at temperature 0.8: with the target alone (K = 0),
with every fixed K, and with "auto"; the output is the same in all of them (verification="invariant"). Rounds of these
alternate. Only the time in which all sequences run is counted: from the first token of the last one to the last token
of the one that ends first. Prints a markdown table: tokens per second over all sequences, milliseconds per token of
one sequence, and for the best K the measured speedup and the predicted one, tokens per cycle of one sequence alone /
(K t_draft + t_target(K + 1)) * t_target(1), with the pass times measured in the runs with that many sequences.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from dataclasses import dataclass
from typing import Literal

from bench.common.paths import BUILD, MADE
from bench.common.texts import PROMPTS
from bench.common.wide_models import Workshop

import specdec_native as sd

Length = int | Literal["auto"]


@dataclass
class Run:
    tokens: int  # of all sequences, while all were running
    seconds: float
    stats: list[sd.Stats]

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds

    @property
    def drafts_per_cycle(self) -> float:
        return sum(s.drafted for s in self.stats) / sum(s.target_calls for s in self.stats)

    @property
    def tokens_per_cycle(self) -> float:
        return sum(s.tokens for s in self.stats) / sum(s.target_calls for s in self.stats)

    @property
    def target_pass(self) -> float:
        return self.stats[0].target_seconds / self.stats[0].target_calls

    @property
    def draft_pass(self) -> float:
        return self.stats[0].draft_seconds / max(1, self.stats[0].draft_calls)


def prompts(count: int) -> list[str]:
    text = "".join((PROMPTS / f"{kind}.txt").read_text() for kind in ("boilerplate", "novel", "docstring"))
    lines = [line for line in text.splitlines() if len(line) > 30]
    return [lines[i * 7 % len(lines)] + "\n" for i in range(count)]


def run(gen: sd.Generator, count: int, length: Length, tokens: int, seed: int) -> Run:
    produced = [0] * count
    at_begin = at_end = 0
    begin = end = 0.0
    stats: list[sd.Stats | None] = [None] * count
    options: sd.StreamOptions = {"num_draft_tokens": length, "max_tokens": tokens, "seed": seed}
    options["logit_bias"] = {0: -1e9}  # bans the end-of-text token, so that all have max_tokens
    options["verification"] = "invariant"  # the same output for every K
    with gen.stream_many(prompts(count), **options) as events:
        for event in events:
            produced[event.index] += 1
            if begin == 0.0 and all(produced):
                begin, at_begin = time.perf_counter(), sum(produced)
            if event.stats is not None:
                stats[event.index] = event.stats
                if end == 0.0:
                    end, at_end = time.perf_counter(), sum(produced)
    return Run(at_end - at_begin, end - begin, [s for s in stats if s is not None])


def median_run(runs: list[Run]) -> Run:
    return sorted(runs, key=lambda one: one.rate)[len(runs) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="1.1b-accept0.8", help="a name that bench/common/wide_models.py knows")
    parser.add_argument("--draft", default="115m-draft")
    parser.add_argument("--sequences", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 2, 3, 5, 7], help="the fixed K")
    parser.add_argument("--tokens", type=int, default=64, help="tokens per sequence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    options = parser.parse_args()

    workshop = Workshop(options.models, BUILD)
    target, draft = workshop.make(options.target, "mxfp6"), workshop.make(options.draft, "mxfp6")
    gen = sd.Generator(target, draft, n_ctx=512, max_sequences=max(options.sequences))
    print(
        f"Target {options.target}, draft {options.draft}, MXFP6; {gen.n_threads} threads, {options.tokens} "
        "tokens a text.\n"
    )
    heads = ["sequences", "plain tok/s", "ms per token", "best K", "tok/s", "ms per token", "speedup", "predicted"]
    heads += ["auto tok/s", "ms per token", "drafts", "of plain", "of best"]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    alone: dict[Length, Run] = {}  # of one sequence
    lengths: list[Length] = [0, *options.lengths, "auto"]
    for count in options.sequences:
        runs: dict[Length, list[Run]] = {length: [] for length in lengths}
        for seed in range(options.rounds):
            for length in lengths:
                runs[length].append(run(gen, count, length, options.tokens, 1000 * seed))
                print(f"{count} sequences, K = {length}: {runs[length][-1].rate:.1f} tok/s", file=sys.stderr)
        median = {length: median_run(some) for length, some in runs.items()}
        if not alone:
            alone = median
        plain, auto = median[0], median["auto"]
        best: int = max(options.lengths, key=lambda k: median[k].rate)
        cycle = best * median[best].draft_pass + median[best].target_pass
        predicted = alone[best].tokens_per_cycle * plain.target_pass / cycle

        def latency(one: Run, count: int = count) -> str:
            return f"{1000 * count / one.rate:.0f}"

        print(
            f"| {count} | {plain.rate:.1f} | {latency(plain)} | {best} | {median[best].rate:.1f} | "
            f"{latency(median[best])} "
            f"| {median[best].rate / plain.rate:.2f} | {predicted:.2f} | {auto.rate:.1f} | {latency(auto)} "
            f"| {auto.drafts_per_cycle:.2f} | {auto.rate / plain.rate:.2f} | {auto.rate / median[best].rate:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
