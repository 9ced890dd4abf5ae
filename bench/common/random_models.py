"""Random models of real sizes, made from the tests' tiny ones, and the table of what drafts gain on one of them.

Random weights say nothing about acceptance. Two drafts stand for the extremes: a random draft model, which is hardly
ever accepted, and copies of the text, which nearly always are, because random greedy text soon repeats itself.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import statistics
import tempfile
from dataclasses import replace

from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import Shape, deepened, make

PROMPT = "def the self return"


def model_file(path: pathlib.Path, name: str, shape: Shape, type: GgmlType = GgmlType.Q8_0) -> pathlib.Path:
    """Makes the model unless the file is there. Its layers but the first are alike."""
    if not path.exists():
        model = deepened(make(name, shape=replace(shape, layers=2)), shape.layers)
        model.write(path.with_suffix(".part"), type).rename(path)
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
    import specdec_native as sd  # models are also made where the extension is not built

    shape = Shape(width=256, layers=4, context=2048, ffn=512)
    draft = make("qwen3", 3, shape=shape).write(options.folder / "mixture-draft.gguf")
    drafts: dict[str, pathlib.Path | str] = {"a draft never accepted": draft, "copies of the text": "suffix"}
    generators = {
        name: sd.Generator(model, source, n_threads=options.threads, suffix=False) for name, source in drafts.items()
    }
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
