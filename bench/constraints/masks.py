"""What constraints cost.

python -m bench.constraints.masks --pair TARGET DRAFT [--tokens 64] [--rounds 5]

First the time of single masks over the target's vocabulary, by llama.cpp's grammar and by xgrammar
(bench/constraints/masks.cpp). Then whole generations of the pair without a constraint and with one that any text
obeys, so that both write the same tokens and what differs is the masks, of the target's rows and the draft's, and
their use; greedy, in turns, medians of tokens per second. The end-of-text tokens are banned. Prints markdown tables.
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess

from bench.common.options import parser_of

import specdec_native as sd

PROMPT = "def merge_sorted(a, b):\n"
ANY_TEXT = "root ::= [^\\x00]*"


def times_of_pair(target: pathlib.Path, draft: pathlib.Path, num_tokens: int, rounds: int) -> None:
    with sd.Generator(target, draft, n_ctx=1024, suffix=False) as gen:  # no copies of the last round
        ends = {int(gen.metadata["tokenizer.ggml.eos_token_id"]): float("-inf")}
        print(
            "| drafts | target pass, ms | no constraint, tokens/s | any text, tokens/s | more time "
            "|\n|---|---|---|---|---|"
        )
        for k in (0, 3, 7):
            speeds: dict[str | None, list[float]] = {None: [], ANY_TEXT: []}
            passes: list[float] = []
            texts = set()
            for _ in range(rounds):
                for grammar, found in speeds.items():
                    completion = gen.generate(
                        PROMPT,
                        max_tokens=num_tokens,
                        temperature=0,
                        num_draft_tokens=k,
                        grammar=grammar,
                        logit_bias=ends,
                    )
                    stats = completion.stats
                    texts.add(tuple(completion.tokens))
                    found.append(stats.tokens_per_second)
                    passes.append(1e3 * stats.target_seconds / stats.target_calls)
            assert len(texts) == 1, "the constraint changed the text"
            free, masked = (statistics.median(found) for found in speeds.values())
            print(
                f"| {k} | {statistics.median(passes):.1f} | {free:.1f} | {masked:.1f} | "
                f"{100 * (free / masked - 1):+.1f} % |"
            )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--pair", type=pathlib.Path, nargs=2, metavar=("TARGET", "DRAFT"), required=True)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    target, draft = arguments.pair
    print("Milliseconds per mask:\n", flush=True)
    subprocess.run([arguments.build / "bench" / "bench_masks", target], check=True)
    print(flush=True)
    times_of_pair(target, draft, arguments.tokens, arguments.rounds)


if __name__ == "__main__":
    main()
