"""Whether "auto" keeps up with plain decoding on a mixture of experts, where a pass over several tokens reads more
experts.

python -m bench.mixture.mixture [--threads 2] [--rounds 5] [--tokens 64] [--folder FOLDER]

Makes a Qwen3 MoE of 1.1B weights once (8 of 64 experts, Q8_0, random, all layers alike; 1.1 GB) and a small draft.
Prints a markdown table of tokens per second without drafts, with K = 1, 3 and 7 and with "auto": medians of rounds
that take turns (bench/common/random_models.py says what the two drafts are).
"""

from __future__ import annotations

from bench.common.random_models import model_file, parser, print_speeds
from tests.models.tiny_models import Shape

SHAPE = Shape(width=1024, heads=16, kv_heads=4, head=64, ffn=256, layers=20, experts=64, experts_used=8, context=2048)


def main() -> None:
    options = parser(__doc__).parse_args()
    print_speeds(model_file(options.folder / "mixture-q8_0.gguf", "qwen3moe", SHAPE), options)


if __name__ == "__main__":
    main()
