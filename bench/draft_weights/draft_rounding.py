"""What rounding a draft's weights at load costs of its acceptance.

python -m bench.draft_weights.draft_rounding [TARGET DRAFT] [--tokens 120]

Without files: the real pair (bench/common/real_models.py). The target answers the twelve prompts of real_pair.py at
temperature 0.7. At every place of the answers both models' distributions p and q are known, and a draft is accepted
with probability sum(min(p, q)) (Leviathan et al. 2023, section 3). No draft is sampled, so differences of 0.001 mean
something. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
import numpy.typing as npt
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS, chat

import specdec_native as sd
from specdec_native import _core

F32Array = npt.NDArray[np.float32]
TEMPERATURES = [0.0, 0.7, 1.0]


def answers(target: pathlib.Path, tokens: int) -> list[tuple[list[int], int]]:
    """Tokens of each prompt with its answer, and where the answer begins."""
    gen = sd.Generator(target, suffix=False, n_ctx=1024)
    result = []
    for seed, question in enumerate(CHAT_PROMPTS.values()):
        prompt = chat(question)
        completion = gen.generate(prompt, max_tokens=tokens, temperature=0.7, seed=seed, num_draft_tokens=0)
        begin = list(gen.tokenize(prompt))
        result.append((begin + list(completion.tokens), len(begin)))
    return result


def logits_of(path: pathlib.Path, text: tuple[list[int], int], weights: str, threads: int) -> F32Array:
    """The logits before each token of the answer, [answer, vocabulary]."""
    tokens, begin = text
    return _core.evaluate(str(path), tokens, [len(tokens)], threads, repack=weights)[begin - 1 : -1]


def distribution(logits: F32Array, temperature: float) -> F32Array:
    weights: F32Array = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def acceptance(p: F32Array, q: F32Array, temperature: float) -> list[float]:
    """The probability that a draft is accepted, at each place, from the logits of target and draft."""
    if temperature == 0.0:
        return [float(same) for same in p.argmax(axis=1) == q.argmax(axis=1)]
    both = np.minimum(distribution(p, temperature), distribution(q, temperature))
    return [float(value) for value in both.sum(axis=1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="TARGET DRAFT")
    parser.add_argument("--tokens", type=int, default=120, help="of an answer, at most")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weights", nargs="+", choices=["file", "auto", "4-bit"], default=["file", "auto", "4-bit"])
    options = parser.parse_args()
    target, draft = options.files or [FOLDER / f"{name}.gguf" for name in PAIR]
    texts = answers(target, options.tokens)
    accepted: dict[tuple[str, float], list[float]] = {}
    for text in texts:
        p = logits_of(target, text, "", options.threads)
        for weights in options.weights:
            q = logits_of(draft, text, weights, options.threads)
            for temperature in TEMPERATURES:
                accepted.setdefault((weights, temperature), []).extend(acceptance(p, q, temperature))
    places = sum(len(tokens) - begin for tokens, begin in texts)
    print(f"{draft.name} for {target.name}, {places} places\n")
    print("| draft_weights | " + " | ".join(f"temperature {t:g}" for t in TEMPERATURES) + " |")
    print("|---" * (1 + len(TEMPERATURES)) + "|")
    for weights in options.weights:
        print(f"| {weights} | " + " | ".join(f"{np.mean(accepted[weights, t]):.4f}" for t in TEMPERATURES) + " |")


if __name__ == "__main__":
    main()
