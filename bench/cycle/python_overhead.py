"""Overhead of Python.

python -m bench.cycle.python_overhead [--pair TARGET DRAFT] [--tokens 200] [--rounds 20] [--real-time]

Generates the same tokens (greedy; seeded at temperature 0.8, K = 3) with `specdec generate --json` and with
`Generator.stream`, alternating, each in its own process. Tokens per second of the CLI are those of its cycles
(`stats`), without printing; those of Python are of the whole loop over the pieces. The overhead is the loop's time
minus that of its cycles; medians. Without --pair: the bundled pair. The end-of-text token is banned.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
from collections import defaultdict
from typing import Any

from bench.common.options import parser_of

PROMPT = "def bfs(graph, start):"

STREAM = """
import json, sys, time
import specdec_native as sd
pair, prompt, options = json.loads(sys.argv[1])
gen = sd.Generator(*pair)
with gen.stream(prompt, logit_bias={0: float("-inf")}, **options) as stream:
    start = time.perf_counter()
    for piece in stream:
        pass
    wall = time.perf_counter() - start
print(json.dumps({"wall": wall, "seconds": gen.stats.seconds, "tokens": gen.stats.tokens, "accepted":
gen.stats.accepted}))
"""


def result(output: bytes, *path: str) -> dict[str, float]:
    values: Any = json.loads(output.splitlines()[-1])
    for name in path:
        values = values[name]
    return {name: float(value) for name, value in values.items() if isinstance(value, (int, float))}


def python(pair: list[str], options: dict[str, float], prefix: list[str]) -> dict[str, float]:
    out = subprocess.run(
        [*prefix, sys.executable, "-c", STREAM, json.dumps([pair, PROMPT, options])], capture_output=True, check=True
    )
    return result(out.stdout)


def command_line(
    binary: pathlib.Path, pair: list[str], options: dict[str, float], prefix: list[str]
) -> dict[str, float]:
    command = [
        *prefix,
        str(binary),
        "generate",
        "--json",
        "-p",
        PROMPT,
        "-l",
        "0-inf",
        "-n",
        str(options["max_tokens"]),
    ]
    command += [
        "-k",
        str(options["num_draft_tokens"]),
        "--temp",
        str(options["temperature"]),
        "-s",
        str(options["seed"]),
    ]
    if pair:
        command += ["-m", pair[0], "-md", pair[1]]
    out = subprocess.run(command, capture_output=True, check=True)
    return result(out.stdout, "stats")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--pair", nargs=2, default=[], metavar="GGUF", help="target and draft")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument(
        "--real-time", action="store_true", help="at real-time priority (chrt -f 10): other programs wait"
    )
    arguments = parser.parse_args()
    prefix = ["chrt", "-f", "10"] if arguments.real_time else []

    print(
        "| temperature | tokens/s, CLI | tokens/s, Python | microseconds per piece: in cycles | Python around "
        "them | share |"
    )
    print("|---|---|---|---|---|---|")
    for temperature in (0.0, 0.8):
        options = {
            "max_tokens": arguments.tokens,
            "temperature": temperature,
            "seed": 1,
            "num_draft_tokens": arguments.k,
        }
        values: dict[str, list[float]] = defaultdict(list)
        accepted = set()
        for _ in range(arguments.rounds):
            native = command_line(arguments.build / "specdec", arguments.pair, options, prefix)
            streamed = python(arguments.pair, options, prefix)
            accepted |= {native["accepted"], streamed["accepted"]}
            values["native"].append(native["tokens"] / native["seconds"])
            values["streamed"].append(streamed["tokens"] / streamed["wall"])
            values["cycles"].append(1e6 * streamed["seconds"] / streamed["tokens"])
            values["around"].append(1e6 * (streamed["wall"] - streamed["seconds"]) / streamed["tokens"])
        if len(accepted) > 1:
            sys.exit(f"error: the texts differ: {accepted} drafts accepted")
        median = {name: statistics.median(series) for name, series in values.items()}
        cells = [
            f"{median['native']:.0f}",
            f"{median['streamed']:.0f}",
            f"{median['cycles']:.0f}",
            f"{median['around']:.1f}",
        ]
        print(
            f"| {temperature} | " + " | ".join(cells) + f" | {100 * median['around'] / median['cycles']:.2f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
