"""What reading a long prompt costs in smaller parts, of which a cancelled request loses at most one.

python -m bench.serve.prompt_parts [--target FILE] [--tokens 3000] [--parts 64 128 256 512] [--rounds 5]

Reads the same prompt with n_batch set to each size, one after another in each round, with one thread, and counts the
processor time of the process, which other programs disturb less than the clock. Without --target it is the bundled
target widened to the shape of a 115M model, made in the folder --models and left there.
"""

from __future__ import annotations

import pathlib
import statistics
import time

from bench.common.options import parser_of
from bench.common.paths import MADE
from bench.common.texts import LIBRARY
from bench.common.wide_models import Workshop

import specdec_native as sd


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    parser.add_argument("--tokens", type=int, default=3000)
    parser.add_argument("--parts", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    target = arguments.target or Workshop(arguments.models, arguments.build).make("115m-target", "f16")
    text = (LIBRARY / "argparse.py").read_text()
    seconds: dict[int, list[float]] = {size: [] for size in arguments.parts}
    for _ in range(arguments.rounds):
        for size, times in seconds.items():
            with sd.Generator(str(target), n_ctx=arguments.tokens + 64, n_batch=size, n_threads=1) as gen:
                tokens = gen.tokenize(text)[: arguments.tokens]
                gen.prefill(tokens[:64])
                begin = time.process_time()
                gen.prefill([*tokens[64:], *tokens[:64]][: arguments.tokens])
                times.append(time.process_time() - begin)
    print("| tokens in a part | processor time, s: median (range) | of the largest part |")
    print("|---|---|---|")
    largest = statistics.median(seconds[max(seconds)])
    for size, times in seconds.items():
        median = statistics.median(times)
        print(f"| {size} | {median:.2f} ({min(times):.2f} to {max(times):.2f}) | {median / largest:.3f} |")


if __name__ == "__main__":
    main()
