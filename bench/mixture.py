"""Whether "auto" keeps up with plain decoding on a mixture of experts, where a pass over several tokens reads more experts.

python bench/mixture.py [--threads 2] [--rounds 5] [--tokens 64] [--folder FOLDER]

Makes a Qwen3 MoE of 1.1B weights once (8 of 64 experts, Q8_0, random, all layers alike; 1.1 GB) and a small draft. Random
weights say nothing about acceptance: the draft is hardly ever accepted; the text soon repeats itself, so copies of it nearly
always are. Prints a markdown table of tokens per second without drafts, with K = 1, 3 and 7 and with "auto": medians of rounds
that take turns.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import statistics
import sys
import tempfile
from dataclasses import replace

import specdec_native as sd

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import Shape, deepened, make

SHAPE = Shape(width=1024, heads=16, kv_heads=4, head=64, ffn=256, layers=20, experts=64, experts_used=8, context=2048)
PROMPT = "def the self return"


def model_file(path: pathlib.Path, name: str, shape: Shape) -> pathlib.Path:
    """Makes the model unless the file is there. Its layers but the first are alike."""
    if not path.exists():
        model = deepened(make(name, shape=replace(shape, layers=2)), shape.layers)
        model.write(path.with_suffix(".part"), GgmlType.Q8_0).rename(path)
    return path


def parser(description: str | None) -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--threads", type=int, default=2)
    result.add_argument("--rounds", type=int, default=5)
    result.add_argument("--tokens", type=int, default=64)
    result.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    return result


def print_speeds(model: pathlib.Path, options: argparse.Namespace) -> None:
    """The table, with the parser's options."""
    shape = Shape(width=256, layers=4, context=2048, ffn=512)
    draft = make("qwen3", 3, shape=shape).write(options.folder / "mixture-draft.gguf")
    drafts: dict[str, pathlib.Path | str] = {"a draft never accepted": draft, "copies of the text": "suffix"}
    generators = {name: sd.Generator(model, source, n_threads=options.threads, suffix=False) for name, source in drafts.items()}
    speeds: dict[tuple[str, int | str], list[float]] = {}
    for index in range(options.rounds + 1):
        for name, generator in generators.items():
            for k in (0, 1, 3, 7, "auto"):
                stats = generator.generate(
                    PROMPT, max_tokens=options.tokens, temperature=0, num_draft_tokens=k, logit_bias={1: -math.inf}
                ).stats
                if index > 0:  # the first round warms up, and "auto" measures
                    speeds.setdefault((name, k), []).append(stats.tokens / stats.seconds)
    print("| draft | plain | K = 1 | K = 3 | K = 7 | auto | auto / plain |\n|---|---|---|---|---|---|---|")
    for name in drafts:
        row = [statistics.median(speeds[name, k]) for k in (0, 1, 3, 7, "auto")]
        print(f"| {name} | " + " | ".join(f"{speed:.1f}" for speed in row) + f" | {row[-1] / row[0]:.3f} |")


def main() -> None:
    options = parser(__doc__).parse_args()
    print_speeds(model_file(options.folder / "mixture-q8_0.gguf", "qwen3moe", SHAPE), options)


if __name__ == "__main__":
    main()
