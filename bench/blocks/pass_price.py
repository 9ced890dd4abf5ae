"""What a block drafter's passes cost, by the number of places.

python -m bench.blocks.pass_price [--threads 2] [--rounds 5] [--tokens 64] [--folder FOLDER]

Makes a target of two layers and a drafter of two with the width and the vocabulary of Qwen 3.5 2B once (2048, 151,936
tokens; Q8_0, random, 0.8 GB). A cycle has a pass over the rows of accepted tokens and a pass over the block; both are
counted. Numbers of places take turns; medians of the rounds. Random weights say nothing about acceptance.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

from bench.common.random_models import PROMPT, parser
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import Block, Shape, Vocabulary, block_drafter, make, with_mask

import specdec_native as sd

SHAPE = Shape(layers=2, width=2048, heads=16, kv_heads=4, head=128, ffn=6144, context=2048)
PLACES = [1, 2, 4, 8, 16]


def main() -> None:
    options = parser(__doc__).parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    paths = options.folder / "block-target-q8_0.gguf", options.folder / "block-drafter-q8_0.gguf"
    if not all(path.exists() for path in paths):
        target = with_mask(make("llama", shape=SHAPE, vocabulary=Vocabulary(size=151_936)))
        drafter = block_drafter(target, Block(size=17))
        for model, path in zip((target, drafter), paths, strict=True):
            model.write(path.with_suffix(".part"), GgmlType.Q8_0).rename(path)
    gen = sd.Generator(*paths, suffix=False, n_threads=options.threads, n_ctx=1024)
    times: dict[int, list[float]] = defaultdict(list)
    for seed in range(options.rounds):
        for k in PLACES:
            stats = gen.generate(
                f"{PROMPT} {seed}",
                max_tokens=options.tokens,
                temperature=0,
                num_draft_tokens=k,
                logit_bias={1: -math.inf},
            ).stats
            times[k].append(1e3 * stats.draft_seconds / stats.draft_calls)
    one = statistics.median(times[1])
    print("| places | milliseconds of a cycle's drafts | of one place |\n|---|---|---|")
    for k in PLACES:
        print(f"| {k} | {statistics.median(times[k]):.1f} | {statistics.median(times[k]) / one:.2f} |")


if __name__ == "__main__":
    main()
