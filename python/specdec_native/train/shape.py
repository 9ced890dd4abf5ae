"""The dimensions of a head: as wide as its target; the rest follows from what a pass may cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .target_weights import TargetWeights

COVERAGE = 0.995  #: share of the text's tokens that the head can draft
FEWEST_TOKENS, MOST_TOKENS, STEP = 8192, 32768, 1024  #: tokens in the head's own vocabulary
COST = 0.04  #: bytes that a pass of the head's layer reads, as a share of the target's; at most
BYTES_PER_WEIGHT = 17 / 16  #: Q8_0, to which the engine rounds a head's weights


@dataclass(frozen=True, slots=True)
class Shape:
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    layers: tuple[int, ...]  #: the target's layers whose inputs the head reads
    tokens: npt.NDArray[np.int64] | None  #: the target's ids of the head's vocabulary, ascending; None: all of them
    vocabulary: int  #: of the target
    context_length: int
    epsilon: float
    rope_base: float = 10000.0

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def output_size(self) -> int:
        return self.vocabulary if self.tokens is None else len(self.tokens)

    @property
    def layer_weights(self) -> int:
        """Weights that one draft reads, without the output matrix."""
        attention = 2 * self.width * (self.heads + 2 * self.kv_heads) * self.head_width + self.width**2
        return attention + 3 * self.width * self.feed_forward

    @property
    def num_weights(self) -> int:
        own_output = 0 if self.tokens is None else self.width * self.output_size
        return self.layer_weights + len(self.layers) * self.width**2 + own_output

    def pass_bytes(self) -> float:
        """Bytes that one draft reads. Of the output matrix it reads the signs, and few rows."""
        return self.layer_weights * BYTES_PER_WEIGHT + self.width * self.output_size / 8


def head_width_of(width: int) -> int:
    return next(
        size for size in (128, 64, 32, 16, width) if (width % size == 0 and (width // size) % 2 == 0) or size == width
    )


def vocabulary_of(counts: npt.NDArray[np.integer], needed: list[int]) -> npt.NDArray[np.int64] | None:
    """The most frequent tokens that cover the text, then the lowest ids, because byte-level BPE numbers tokens by
    frequency. None, which means all tokens, if that would be more than half of them."""
    order = np.argsort(-counts, kind="stable")
    covered = np.cumsum(counts[order]) / max(1, counts.sum())
    wanted = int(np.searchsorted(covered, COVERAGE)) + 1
    size = int(np.clip(-(-wanted // STEP) * STEP, FEWEST_TOKENS, MOST_TOKENS))
    if 2 * size > len(counts):
        return None
    frequent = order[: min(wanted, size - len(needed))]
    kept = dict.fromkeys([*needed, *frequent.tolist()])
    for token in range(len(counts)):
        if len(kept) >= size:
            break
        kept.setdefault(token)
    return np.sort(np.array(list(kept), np.int64))


def shape_for(
    target: TargetWeights,
    layers: tuple[int, ...],
    tokens: npt.NDArray[np.int64] | None,
    feed_forward: int | None = None,
) -> Shape:
    """Without a width of its own, the feed-forward is as wide as COST allows, between one and two times the target's
    width."""
    width = target.width
    heads = width // head_width_of(width)
    kv_heads = heads // 2 if heads % 2 == 0 else heads

    def made(feed_forward: int) -> Shape:
        return Shape(
            width,
            heads,
            kv_heads,
            feed_forward,
            layers,
            tokens,
            target.vocabulary,
            target.context_length,
            target.epsilon,
        )

    if feed_forward is not None:
        return made(feed_forward)
    step = 64 if width < 1024 else 256
    widths = [w for w in range(2 * width // step * step, width, -step) if w > 0]
    fits = [w for w in widths if made(w).layer_weights * BYTES_PER_WEIGHT <= COST * target.num_bytes]
    return made(fits[0] if fits else -(-width // 32) * 32)
