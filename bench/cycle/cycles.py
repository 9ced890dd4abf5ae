"""Parts of a cycle's time, and the draft's acceptance.

python -m bench.cycle.cycles [--tokens 200] [--k 7]

The bundled pair, as F16 and with MXFP6 weights, on ten prompts; greedy and at temperature 0.8. Files alternate.
Prints a markdown table: "rest" is the loop's bookkeeping and KV truncation, "Python" is the time per cycle that
iterating over the pieces adds.
"""

from __future__ import annotations

import pathlib
import time
from collections import defaultdict

from bench.common.options import parser_of
from bench.common.paths import MADE
from bench.common.texts import CODE_PROMPTS
from bench.common.wide_models import bundled_mxfp6

import specdec_native as sd

COUNTED = [
    "tokens",
    "drafted",
    "accepted",
    "target_calls",
    "draft_seconds",
    "target_seconds",
    "sampling_seconds",
    "seconds",
]


def measure(gen: sd.Generator, prompt: str, tokens: int, temperature: float, k: int, sums: dict[str, float]) -> None:
    with gen.stream(prompt, max_tokens=tokens, temperature=temperature, seed=1, num_draft_tokens=k) as stream:
        start = time.perf_counter()
        for _ in stream:
            pass
        sums["wall"] += time.perf_counter() - start
    stats = gen.stats
    for name in COUNTED:
        sums[name] += getattr(stats, name)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--k", type=int, nargs="+", default=[0, 3, 7])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    arguments = parser.parse_args()

    pairs = {
        "F16": sd.Generator(),
        "MXFP6": sd.Generator(
            *(bundled_mxfp6(name, arguments.models, arguments.build) for name in ("target", "draft"))
        ),
    }
    sums: dict[tuple[str, float, int], dict[str, float]] = {}
    for _ in range(arguments.rounds):
        for prompt in CODE_PROMPTS:
            for temperature in (0.0, 0.8):
                for k in arguments.k:
                    for name, gen in pairs.items():
                        row = sums.setdefault((name, temperature, k), defaultdict(float))
                        measure(gen, prompt, arguments.tokens, temperature, k, row)

    print(f"bundled pair, {len(CODE_PROMPTS)} prompts of {arguments.tokens} tokens, ", end="")
    print(f"{pairs['F16'].n_threads} threads; ms per cycle\n")
    print(
        "| weights | temperature | K | accepted | tokens per call | draft | target | sampling | rest | Python | "
        "tokens/s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for (name, temperature, k), s in sorted(sums.items(), key=lambda item: (item[0][1], item[0][2])):
        parts = [s["draft_seconds"], s["target_seconds"], s["sampling_seconds"]]
        parts += [s["seconds"] - sum(parts), s["wall"] - s["seconds"]]
        cells = [f"{1e3 * part / s['target_calls']:.3f}" for part in parts]
        accepted = f"{s['accepted'] / s['drafted']:.3f}" if s["drafted"] else "-"
        cells = [name, str(temperature), str(k), accepted, f"{s['tokens'] / s['target_calls']:.2f}", *cells]
        print("| " + " | ".join([*cells, f"{s['tokens'] / s['wall']:.0f}"]) + " |")


if __name__ == "__main__":
    main()
