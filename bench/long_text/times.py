"""What a long prompt costs: until the first token, for each token after it, and for each cycle with a draft model.

python -m bench.long_text.times [TARGET DRAFT] [--prompts 500 2000 8000] [--rounds 3] [--windows 1024 0]
  [--kv-type f16] [--temperatures 0] [--once] [--plain] [--llama build/default/bench/peers/llama-completion]

Without files: the real pair (bench/common/real_models.py). One Generator per window of the draft (0: as long as the
context). Each prompt is read without and with three drafts per cycle, in turn, and timed to the first token; then
cycles of three drafts, plain tokens and tokens at the defaults ("auto") are timed in turn at each temperature, once the
draft has caught up. With --llama the same tokens are read and 24 more are decoded by llama.cpp without a draft, which
is its fastest way here (bench/real_pair). With --plain there is no draft model, only seconds. Prints ratios: seconds of
a busy machine say little. Tables are in RESULTS.md.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import statistics
import tempfile
import time

from bench.common.engines import number, output_of
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


def seconds_per_cycle(gen: sd.Generator, prompt: list[int], k: int, temperature: float) -> float:
    """After those in which the draft reads."""
    handle = gen.submit(prompt, max_tokens=TOKENS + CAUGHT_UP, temperature=temperature, num_draft_tokens=k)
    list(itertools.islice(handle, CAUGHT_UP))
    before = handle.stats
    handle.result()
    after = handle.stats
    return (after.seconds - before.seconds) / max(1, after.target_calls - before.target_calls)


def decoding_rate(gen: sd.Generator, prompt: list[int], temperature: float) -> float:
    """Tokens per second at the defaults, after those in which the draft reads."""
    size = 3 * TOKENS + CAUGHT_UP
    handle = gen.submit(prompt, max_tokens=size, temperature=temperature, num_draft_tokens="auto")
    list(itertools.islice(handle, CAUGHT_UP))
    before = handle.stats
    handle.result()
    after = handle.stats
    return (after.tokens - before.tokens) / (after.seconds - before.seconds)


def llama_times(program: pathlib.Path, target: pathlib.Path, prompt: str, context: int, threads: int) -> list[float]:
    """llama.cpp's seconds to the first token, and for each token after it."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(prompt)
        file.flush()
        size: list[object] = ["-n", TOKENS, "-c", context, "-t", threads, "--temp", 0]
        out = output_of(
            program, "-m", target, "-f", file.name, *size, "-no-cnv", "--no-display-prompt", "--no-warmup", "--perf"
        )
    token = number(r"(?<!prompt )eval time = +([\d.]+) ms", out) / number(r"\beval time = .*?/ +(\d+) runs", out)
    return [number(r"prompt eval time = +([\d.]+) ms", out) / 1e3, token / 1e3]


class Row:
    """The ratios of one length and temperature, by round."""

    def __init__(self) -> None:
        self.ratios: dict[str, list[float]] = {}

    def add(self, name: str, ratio: float) -> None:
        self.ratios.setdefault(name, []).append(ratio)

    def cell(self, name: str) -> str:
        return f"{statistics.median(self.ratios[name]):.2f}" if name in self.ratios else ""


SECONDS = ["first token with a draft, s", "plain token, ms", "tokens/s at the defaults"]
COLUMNS = [
    "first token with a draft, of plain",
    "cycle of 3 drafts, in plain tokens",
    "plain token, of the first row's",
    "first token, of llama.cpp's",
    "tokens/s at the defaults, of llama.cpp's",
]


def measure(
    arguments: argparse.Namespace, gen: sd.Generator, target: pathlib.Path, tokens: list[int]
) -> dict[float, Row]:
    """The rows of one length by temperature."""
    rows = {temperature: Row() for temperature in arguments.temperatures}
    for round_ in range(arguments.rounds):
        # Another first token for every reading: nothing of it is cached.
        prompts = [[1000 + 2 * round_ + i, *tokens[:-1]] for i in range(2)]
        plain = None if arguments.once else first_token(gen, prompts[0], 0)
        drafted = first_token(gen, prompts[1], 3)
        llama = None
        if arguments.llama:
            text = gen.detokenize(tokens)
            llama = llama_times(arguments.llama, target, text, len(tokens) + 256, arguments.threads or 2)
        for temperature, row in rows.items():
            row.add(SECONDS[0], drafted)
            if plain:
                row.add(COLUMNS[0], drafted / plain)
            times = [seconds_per_cycle(gen, prompts[1], k, temperature) for k in (3, 0, 3, 0, 3)]
            token = statistics.median(times[1::2])
            row.add(COLUMNS[1], statistics.median(times[0::2]) / token)
            row.add(COLUMNS[2], token)
            row.add(SECONDS[1], 1e3 * token)
            rate = decoding_rate(gen, prompts[1], temperature)
            row.add(SECONDS[2], rate)
            if llama:
                row.add(COLUMNS[3], (plain or drafted) / llama[0])
                row.add(COLUMNS[4], rate * llama[1])
    return rows


def measure_plain(arguments: argparse.Namespace, target: pathlib.Path, context: int, text: str) -> None:
    print("| prompt | cache | first token, s | plain token, ms | of the first row's |\n|---|---|---|---|---|")
    with sd.Generator(
        target, suffix=False, n_ctx=context, kv_type=arguments.kv_type, n_threads=arguments.threads
    ) as gen:
        tokens, first_row = gen.tokenize(text), 0.0
        for length in arguments.prompts:
            prompt = [1000, *tokens[: length - 1]]
            first = first_token(gen, prompt, 0)
            token = statistics.median(seconds_per_cycle(gen, prompt, 0, 0) for _ in range(arguments.rounds))
            first_row = first_row or token
            cells = f"{first:.1f} | {1e3 * token:.1f} | {token / first_row:.2f}"
            print(f"| {length} | {arguments.kv_type} | {cells} |", flush=True)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="TARGET DRAFT")
    parser.add_argument("--prompts", type=int, nargs="+", default=[500, 2000, 8000], help="tokens")
    parser.add_argument("--windows", type=int, nargs="+", default=[1024, 0], help="of the draft")
    parser.add_argument("--kv-type", default="f16", help="of the caches")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0])
    parser.add_argument("--once", action="store_true", help="read each prompt once, with a draft model")
    parser.add_argument("--plain", action="store_true", help="without a draft model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--text", type=pathlib.Path, default=LIBRARY / "argparse.py", help="repeated as needed")
    parser.add_argument("--llama", type=pathlib.Path, help="llama-completion, built with SPECDEC_PEERS")
    arguments = parser.parse_args()
    target, draft = arguments.files or [FOLDER / f"{name}.gguf" for name in PAIR]
    context = max(arguments.prompts) + 256
    text = arguments.text.read_text(encoding="utf-8")
    text *= 1 + 8 * context // len(text)
    if arguments.plain:
        measure_plain(arguments, target, context, text)
        return
    columns = SECONDS + COLUMNS
    print("| prompt | window | temperature | " + " | ".join(columns) + " |\n" + "|---" * (3 + len(columns)) + "|")
    for window in arguments.windows:
        first_row: dict[float, float] = {}
        with sd.Generator(
            target,
            draft,
            suffix=False,
            n_ctx=context,
            draft_window=window or context,
            kv_type=arguments.kv_type,
            n_threads=arguments.threads,
        ) as gen:
            tokens = gen.tokenize(text)
            for length in arguments.prompts:
                for temperature, row in measure(arguments, gen, target, tokens[:length]).items():
                    token = statistics.median(row.ratios[COLUMNS[2]])
                    row.ratios[COLUMNS[2]] = [token / first_row.setdefault(temperature, token)]
                    cells = " | ".join(row.cell(column) for column in columns)
                    print(f"| {length} | {window or 'all'} | {temperature} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
