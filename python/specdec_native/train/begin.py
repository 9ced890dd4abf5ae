"""The initial head: a linear prediction of the target's next row in closed form, and the target's own feed-forward.

Ridge regression predicts the last row that the head reads of token n from all of these rows of token n - 1 and the
embedding of token n. It needs minutes where training needs hours. The part for the rows is the head's `fc`. The part
for the embedding goes through its attention: queries and keys are the same random projection of the embedding, so each
cell attends to itself (and to other cells of its token), and values and output are the best low-rank factors of the
part. The predicted row is the input of one of the target's layers, so the head's feed-forward starts as that layer's:
its neurons with the largest contributions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .head import Head
from .loss import divergence
from .rows import FIRST, Sample
from .shape import Shape
from .target_weights import F32Array, FeedForward, TargetWeights

FOCUS = 1.5  #: scale of queries and keys: the larger, the more a cell attends to itself
RIDGE = 0.03  #: times the number of tokens; columns have a size of about 1
NOISE = 0.1  #: scale of the random weights that training begins with
WEIGHED = 12  #: samples that choose the neurons

TOKENS_PER_FEATURE = 16  #: that the regression reads if there is time


def unit_of(row_scale: F32Array, width: int) -> float:
    """The median size of a column of the last row."""
    return float(np.median(1 / row_scale[-width:]))


@dataclass(slots=True)
class Regression:
    """Sums over the tokens read so far, so memory does not grow with them."""

    row_scale: F32Array  #: [layers * width] brings the columns of rows to a size of about 1
    width: int
    num_tokens: int = 0
    inner: Tensor = field(init=False)  #: float64 [features, features]
    outer: Tensor = field(init=False)  #: float64 [features, width]

    def __post_init__(self) -> None:
        size = len(self.row_scale) + self.width
        self.inner = torch.zeros(size, size, dtype=torch.float64)
        self.outer = torch.zeros(size, self.width, dtype=torch.float64)

    def add(self, sample: Sample) -> None:
        rows = sample.rows.astype(np.float32) * self.row_scale
        embeddings = sample.embeddings.astype(np.float32)
        embeddings /= np.sqrt((embeddings * embeddings).mean(1, keepdims=True) + 1e-12)
        features = torch.from_numpy(np.hstack([rows, embeddings])[FIRST:-1])
        wanted = torch.from_numpy(
            sample.rows[FIRST + 1 :, -self.width :].astype(np.float32) / unit_of(self.row_scale, self.width)
        )
        self.inner += features.T @ features
        self.outer += features.T @ wanted
        self.num_tokens += len(features)

    def solve(self) -> Tensor:
        """float64 [width, features]. Call it once: it overwrites the sums, which are the largest part of the memory."""
        self.inner.diagonal().add_(RIDGE * max(1, self.num_tokens))
        factor = torch.linalg.cholesky(self.inner)
        self.inner = torch.empty(0)
        return torch.cholesky_solve(self.outer, factor).T


def num_features(shape: Shape) -> int:
    return shape.width * (len(shape.layers) + 1)


def fit_tokens(shape: Shape) -> int:
    return TOKENS_PER_FEATURE * num_features(shape)


def fit_bytes(shape: Shape) -> int:
    """Memory of a regression: the sums and their factor."""
    return 2 * 8 * num_features(shape) ** 2


def begin_linear(head: Head, samples: Iterable[Sample], row_scale: F32Array, output_norm: F32Array) -> None:
    """Sets all weights of the head except its feed-forward, which adds little noise."""
    s, width = head.shape, head.shape.width
    regression = Regression(row_scale, width)
    for sample in samples:
        regression.add(sample)
    solution = regression.solve()
    of_rows, of_embedding = solution[:, : len(row_scale)], solution[:, len(row_scale) :]
    group, d = s.heads // s.kv_heads, s.head_width
    size = s.kv_heads * d
    left, strengths, right = torch.linalg.svd(of_embedding)
    roots = strengths[:size].sqrt()
    values = roots[:, None] * right[:size]
    # Each query head of a group contributes an equal share of its values.
    shares = (left[:, :size] * roots / group).reshape(width, s.kv_heads, d)
    outputs = shares.repeat_interleave(group, 1).reshape(width, s.heads * d)
    random = torch.Generator().manual_seed(0)
    keys = FOCUS * torch.randn(size, width, generator=random) / width**0.5
    queries = keys.reshape(s.kv_heads, d, width).repeat_interleave(group, 0).reshape(s.heads * d, width)
    with torch.no_grad():
        head.row_scale.copy_(torch.from_numpy(row_scale))
        head.output_norm.copy_(torch.from_numpy(output_norm))
        head.fc.copy_(of_rows)
        for weight, start in ((head.attn_q, queries), (head.attn_k, keys)):
            weight.mul_(NOISE)
            weight[:, :width] += start
        head.attn_v.zero_()
        head.attn_v[:, :width] = values
        head.attn_output.copy_(outputs)
        head.ffn_down.mul_(NOISE)


def start_loss(head: Head, output: Tensor, held_out: Sequence[Sample]) -> float:
    """Mean divergence of first drafts. output: [head's vocabulary, width]"""
    losses = []
    with torch.no_grad():
        for sample in held_out:
            rows, embeddings, tokens, probs = sample.tensors()
            (state,) = head.steps(rows, embeddings, 1, 1)
            losses.append(float(divergence(head.logits(state[0], output), tokens, probs)))
    return float(np.mean(losses))


def take_feed_forward(head: Head, source: FeedForward, held_out: Sequence[Sample], output: Tensor) -> bool:
    """Copies the neurons of the source that contribute most, and keeps them if the head then predicts the held-out text
    better: the source may have another activation function or norm."""
    s = head.shape
    unit = unit_of(head.row_scale.numpy(), s.width)
    gate, up, down, norm = (torch.from_numpy(a) for a in (source.gate, source.up, source.down, source.norm))
    energy = torch.zeros(len(gate))
    for sample in held_out[:WEIGHED]:
        rows = torch.from_numpy(sample.rows[FIRST:, -s.width :].astype(np.float32))
        normal = F.rms_norm(rows, (s.width,), norm, s.epsilon)
        energy += (F.silu(normal @ gate.T) * (normal @ up.T)).square().mean(0)
    largest = (energy.sqrt() * down.norm(dim=0)).argsort(descending=True)[: s.feed_forward].sort().values
    count = len(largest)
    before = start_loss(head, output, held_out)
    replaced = [head.ffn_norm, head.ffn_gate, head.ffn_up, head.ffn_down]
    kept = [parameter.detach().clone() for parameter in replaced]
    with torch.no_grad():
        head.ffn_norm.copy_(norm)
        head.ffn_gate[:count] = gate[largest]
        head.ffn_up[:count] = up[largest]
        head.ffn_down[:, :count] = down[:, largest] / unit
        is_better = start_loss(head, output, held_out) < before
        if not is_better:
            for parameter, old in zip(replaced, kept, strict=True):
                parameter.copy_(old)
    return is_better


def begin(
    head: Head,
    target: TargetWeights,
    samples: Iterable[Sample],
    held_out: Sequence[Sample],
    row_scale: F32Array,
    output: F32Array,
) -> None:
    """Sets all weights. output: [head's vocabulary, width]"""
    begin_linear(head, samples, row_scale, target.output_norm())
    feed_forward = target.feed_forward(head.shape.layers[-1])
    if feed_forward is not None:
        take_feed_forward(head, feed_forward, held_out, torch.from_numpy(output))
