"""How often one of a node's first children is accepted, by how they are chosen and what the draft's row keeps.

python -m bench.trees.children [--tokens 144] [--seeds 2] [--most 4] [--weights 0 0.01 0.1 1]

The target of the real pair as downloaded (bench/common/real_models.py), or --target and --draft, writes texts at
temperature 0.8; for each of their places, rows of both models tell how likely one of k children is the next token:
drawn without replacement (block and token verification), or those that the noise prefers ("invariant"). A weight is
that of what top-p and min-p leave out of the draft's row; the transforms are otherwise the defaults. Only the draws are
random: eight for each place. About seven minutes on two cores, nearly all of it for the rows.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator

import numpy as np
from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS, chat
from numpy.typing import NDArray

import specdec_native as sd
from specdec_native import _core

PROSE = ["photosynthesis", "letter", "story", "compare"]
TEMPERATURE, TOP_K, TOP_P, MIN_P = 0.8, 40, 0.95, 0.05
DRAWS = 8
Floats = NDArray[np.float64]


def places(arguments: argparse.Namespace) -> Iterator[tuple[str, Floats, Floats]]:
    """The prompt's name and both models' rows, for each token of the texts."""
    with sd.Generator(arguments.target, arguments.draft, n_ctx=1024, auto_cache=False) as gen:
        texts = []
        for name in arguments.prompts:
            prompt = list(gen.tokenize(chat(CHAT_PROMPTS[name])))
            for seed in range(arguments.seeds):
                done = gen.generate(prompt, max_tokens=arguments.tokens, temperature=TEMPERATURE, seed=seed)
                texts.append((name, prompt, list(done.tokens)))
    for name, prompt, text in texts:
        begin, end = len(prompt) - 1, len(prompt) - 1 + len(text)
        tokens = prompt + text
        rows = [
            _core.evaluate(str(path), tokens, [len(tokens)], n_threads=arguments.threads)[begin:end]
            for path in (arguments.target, arguments.draft)
        ]
        for target, draft in zip(*rows, strict=True):
            yield name, target.astype(np.float64), draft.astype(np.float64)


def transformed(logits: Floats, tail: float) -> tuple[NDArray[np.intp], Floats]:
    """Tokens and probabilities; what top-p and min-p leave out has `tail` times its probability."""
    order = np.argsort(-logits, kind="stable")[:TOP_K]
    weights = np.exp(logits[order] - logits[order[0]])
    kept = weights >= MIN_P
    kept[np.searchsorted(np.cumsum(weights) / weights.sum(), TOP_P) + 1 :] = False
    probs = weights ** (1 / TEMPERATURE) * np.where(kept, 1.0, tail)
    return order[probs > 0], probs[probs > 0] / probs.sum()


def on_all_tokens(row: tuple[NDArray[np.intp], Floats], tokens: NDArray[np.intp]) -> Floats:
    probs = np.zeros(len(tokens))
    probs[np.searchsorted(tokens, row[0])] = row[1]
    return probs


def drawn(target: Floats, draft: Floats, most: int, random: np.random.Generator) -> Floats:
    """Probability that one of the first 1, 2 .. children is accepted; they are drawn as if those before were not."""
    accepted, rejected, rest, q = np.ones(most), 1.0, target, draft
    for child in range(most):
        if q.sum() <= 0.0:
            accepted[child:] = 1.0 - rejected
            break
        q = q / q.sum()
        rejected *= 1.0 - np.minimum(rest, q).sum()
        accepted[child] = 1.0 - rejected
        owed, refused = np.maximum(rest - q, 0.0), np.maximum(q - rest, 0.0)
        if refused.sum() < 1e-12:
            accepted[child:] = accepted[child]
            break
        rest = owed / owed.sum()
        q[random.choice(len(q), p=refused / refused.sum())] = 0.0
    return accepted


def preferred(target: Floats, draft: Floats, most: int, random: np.random.Generator) -> Floats:
    """1 from the child on that is the target's choice with the same noise."""
    noise = random.exponential(size=len(target))
    with np.errstate(divide="ignore"):
        choice = np.argmin(np.where(target > 0.0, noise / target, np.inf))
        order = np.argsort(np.where(draft > 0.0, noise / draft, np.inf))[:most]
    found = np.zeros(most)
    at = np.flatnonzero(order == choice)
    if len(at) and draft[choice] > 0.0:
        found[at[0] :] = 1.0
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path, default=FOLDER / f"{PAIR[0]}.gguf")
    parser.add_argument("--draft", type=pathlib.Path, default=FOLDER / f"{PAIR[1]}.gguf")
    parser.add_argument("--prompts", nargs="+", default=list(CHAT_PROMPTS), choices=sorted(CHAT_PROMPTS))
    parser.add_argument("--tokens", type=int, default=144)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--most", type=int, default=4)
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.01, 0.1, 1.0])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    sums: dict[tuple[str, float], list[Floats]] = {}
    for name, of_target, of_draft in places(arguments):
        target = transformed(of_target, 0.0)
        for weight in arguments.weights:
            draft = transformed(of_draft, weight)
            tokens = np.union1d(target[0], draft[0])
            rows = on_all_tokens(target, tokens), on_all_tokens(draft, tokens)
            runs = [[way(*rows, arguments.most, random) for _ in range(DRAWS)] for way in (drawn, preferred)]
            group = "prose" if name in PROSE else "code and data"
            sums.setdefault((group, weight), []).append(np.mean(runs, axis=1))
    columns = [f"{way} {k}" for way in ("drawn", "preferred") for k in range(1, arguments.most + 1)]
    print(f"| text, weight | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for (group, weight), found in sorted(sums.items()):
        cells = [f"{x:.3f}" for x in np.mean(found, axis=0).ravel()]
        print(f"| {group} ({len(found)} places), {weight:g} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
