"""Lossless speculative decoding, whole and in plain numpy: what the engine does, without what makes it fast.

Two models are callables from tokens to the logits of the next token. The draft proposes K tokens one by one; the target
reads all of them in one pass and keeps some; one more token follows. The output is distributed exactly as if it were
sampled from the target token by token, whatever the draft is.

    python docs/reference_decode.py

In the engine: `Decoder::cycle` (cpp/speculative/decoder.cpp), verify_token.h and transforms.h (cpp/sampling).
tests/sampling/test_reference_decode.py computes the exact law of this file's output and compares the engine with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from specdec_native.sampling import residual, transform

Row = npt.NDArray[np.float64]  # [vocabulary]: logits, or probabilities that sum to 1
Model = Callable[[Sequence[int]], Row]  # tokens -> logits of the next token


class Chance:
    """All randomness. The test replaces it by one that takes every possible course, with its probability."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def token(self, probs: Row) -> int:
        """A token drawn from a distribution."""
        return int(self._random.choice(len(probs), p=probs / probs.sum()))

    def happens(self, probability: float) -> bool:
        return bool(self._random.random() < probability)


class CachedModel:
    """A model and its cache: rows[i] has the logits after the first i + 1 tokens of the text.

    A real cache holds keys and values, and a row is available only in the pass that computes it. In both, what is
    cached is not computed again, so it must belong to the text as it is now.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.rows: list[Row] = []

    def read(self, tokens: Sequence[int]) -> None:
        """One pass over the tokens that are not cached yet."""
        for end in range(len(self.rows), len(tokens)):
            self.rows.append(self._model(tokens[: end + 1]))

    def purge(self, length: int) -> None:
        """Drop everything after the first `length` tokens."""
        del self.rows[length:]


def propose(
    draft: CachedModel, tokens: list[int], count: int, chance: Chance, options: dict[str, Any]
) -> tuple[list[int], list[Row]]:
    """Draft tokens, and for each the distribution that it was really sampled from: after all transforms."""
    drafted: list[int] = []
    proposals: list[Row] = []
    for _ in range(count):
        text = [*tokens, *drafted]
        draft.read(text)
        proposals.append(transform(draft.rows[len(text) - 1], history=text, **options))
        drafted.append(chance.token(proposals[-1]))
    return drafted, proposals


def verify(drafted: list[int], proposals: list[Row], targets: list[Row], chance: Chance) -> tuple[int, int]:
    """Modified rejection sampling (Chen et al. 2302.01318, algorithm 2): how many drafts are kept, and the next token.

    A draft x is kept with probability min(1, target(x) / draft(x)). At the first rejection the correction token comes
    from the residual, max(0, target - draft) normalised. For one place, the probability of x is then

        draft(x) min(1, target(x) / draft(x))  +  P(rejected) residual(x)
        =  min(draft(x), target(x))  +  max(0, target(x) - draft(x))  =  target(x),

    because P(rejected) = 1 - sum min(draft, target) = sum max(0, target - draft), by which the residual is normalised.
    """
    for place, token in enumerate(drafted):
        ratio = targets[place][token] / proposals[place][token]
        if not chance.happens(min(1.0, ratio)):
            return place, chance.token(residual(targets[place], proposals[place]))
    return len(drafted), chance.token(targets[len(drafted)])  # the bonus token: this row is there anyway


def decode(
    target: Model,
    draft: Model,
    prompt: Sequence[int],
    *,
    max_tokens: int,
    num_draft_tokens: int,
    chance: Chance,
    ends: Sequence[int] = (),
    **options: Any,
) -> list[int]:
    """The output after a prompt of at least one token. ends: tokens that end it. options: of sampling.transform."""
    tokens, limit = list(prompt), len(prompt) + max_tokens
    large, small = CachedModel(target), CachedModel(draft)
    while len(tokens) < limit:
        count = min(num_draft_tokens, limit - len(tokens) - 1)  # the last token needs no draft
        drafted, proposals = propose(small, tokens, count, chance, options)

        text = [*tokens, *drafted]
        large.read(text)  # one pass of the target, for K + 1 rows
        targets = [
            transform(large.rows[end - 1], history=text[:end], **options) for end in range(len(tokens), len(text) + 1)
        ]
        num_accepted, next_token = verify(drafted, proposals, targets, chance)

        for token in [*drafted[:num_accepted], next_token]:
            tokens.append(token)
            if token in ends:
                return tokens[len(prompt) :]
        # Rejected drafts leave both caches. The next token is in neither: the next pass reads it with the next drafts.
        large.purge(len(tokens) - 1)
        small.purge(len(tokens) - 1)
    return tokens[len(prompt) :]


def _toy(seed: int) -> Model:
    """Logits over four tokens that depend on the last two."""
    table = np.random.default_rng(seed).normal(size=(5, 4, 4))
    return lambda tokens: np.array(table[tokens[-2] if len(tokens) > 1 else 4, tokens[-1]])


if __name__ == "__main__":
    for seed in range(5):
        print(decode(_toy(1), _toy(2), [0], max_tokens=12, num_draft_tokens=3, chance=Chance(seed), temperature=0.8))
