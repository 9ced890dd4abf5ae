"""What a drafting head's pass costs where it finds its logits in two passes over its target's output matrix, and
where it multiplies all of it.

python -m bench.heads.head_output [--threads 2] [--rounds 5] [--tokens 64] [--folder FOLDER]

Makes a model with the output matrix and the head of Qwen 3.5 2B once (width 2048, 151,936 tokens; Q8_0, random, 0.8
GB), of few layers. Both ways take turns; medians of the rounds. Random weights say nothing about acceptance.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

from bench.common.random_models import PROMPT, parser
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import Shape, Vocabulary, with_head

import specdec_native as sd

SHAPE = Shape(width=2048, heads=16, kv_heads=4, head=128, ffn=6144, context=2048)
WAYS = {"all rows": "file", "the best rows by their signs": "4-bit"}


def main() -> None:
    options = parser(__doc__).parse_args()
    path = options.folder / "head-output-q8_0.gguf"
    if not path.exists():
        model = with_head("qwen35", shape=SHAPE, vocabulary=Vocabulary(size=151_936))
        model.write(path.with_suffix(".part"), GgmlType.Q8_0).rename(path)
    generators = {
        way: sd.Generator(path, "mtp", draft_weights=weights, suffix=False, n_threads=options.threads, n_ctx=1024)
        for way, weights in WAYS.items()
    }
    times: dict[str, list[float]] = defaultdict(list)
    for seed in range(options.rounds):
        for way, gen in generators.items():
            stats = gen.generate(
                f"{PROMPT} {seed}",
                max_tokens=options.tokens,
                temperature=0,
                num_draft_tokens=3,
                logit_bias={1: -math.inf},
            ).stats
            times[way].append(1e3 * stats.draft_seconds / stats.draft_calls)
    print("| the head multiplies | milliseconds of a pass |\n|---|---|")
    for way in WAYS:
        print(f"| {way} | {statistics.median(times[way]):.1f} |")


if __name__ == "__main__":
    main()
