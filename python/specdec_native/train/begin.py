"""What a head begins with: a linear prediction of the target's next row, in closed form.

The last of the rows of token n is fitted as a linear function of all rows of token n - 1 and of token n's embedding, by
ridge regression: minutes instead of hours of training, and the target's own output reads the result. The first part is
the head's `fc`. The second goes through its attention: queries and keys are the same random projection of the
embedding, so that a cell attends to itself (and to others of its token), and values and output are the best factors of
the matrix that the heads have room for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .head import Head
from .rows import Sample
from .shape import Shape
from .target_weights import F32Array

FIRST = 4  #: tokens of a text that are left out: some models give them rows of another order of magnitude
FOCUS = 1.5  #: of queries and keys: the larger, the more a cell attends to itself
RIDGE = 3e-3  #: of the number of tokens; columns have about the size 1
NOISE = 0.1  #: of the random weights that training begins with

TOKENS_PER_FEATURE = 8  #: that the regression reads, if there is time

F64Array = npt.NDArray[np.float64]


@dataclass(slots=True)
class Fit:
    """The sums of the regression, in bounded memory whatever the number of tokens."""

    row_scale: F32Array  #: [layers * width] makes the columns of rows about 1
    inner: F64Array  #: [features, features]
    outer: F64Array  #: [features, width]
    num_tokens: int = 0

    @classmethod
    def of(cls, row_scale: F32Array, width: int) -> Fit:
        size = len(row_scale) + width
        return cls(row_scale, np.zeros((size, size)), np.zeros((size, width)))

    @property
    def unit(self) -> float:
        """The usual size of a column of the last row."""
        return float(np.median(1 / self.row_scale[-self.outer.shape[1] :]))

    def add(self, sample: Sample) -> None:
        width = self.outer.shape[1]
        rows = sample.rows.astype(np.float32) * self.row_scale
        embeddings = sample.embeddings.astype(np.float32)
        embeddings /= np.sqrt((embeddings * embeddings).mean(1, keepdims=True) + 1e-12)
        features = np.hstack([rows, embeddings])[FIRST:-1]
        self.inner += features.T @ features
        self.outer += features.T @ (sample.rows[FIRST + 1 :, -width:].astype(np.float32) / self.unit)
        self.num_tokens += len(features)

    def solve(self) -> tuple[F64Array, F64Array]:
        """[width, layers * width] of the rows, [width, width] of the embedding."""
        ridge = RIDGE * max(1, self.num_tokens) * np.eye(len(self.inner))
        weights = np.linalg.solve(self.inner + ridge, self.outer).T
        return weights[:, : len(self.row_scale)], weights[:, len(self.row_scale) :]


def fit_tokens(shape: Shape) -> int:
    return TOKENS_PER_FEATURE * shape.width * (len(shape.layers) + 1)


def _tensor(array: F64Array) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32))


def begin(head: Head, samples: Iterable[Sample], row_scale: F32Array, output_norm: F32Array) -> None:
    s, width = head.shape, head.shape.width
    fit = Fit.of(row_scale, width)
    for sample in samples:
        fit.add(sample)
    of_rows, of_embedding = fit.solve()
    group, d = s.heads // s.kv_heads, s.head_width
    size = s.kv_heads * d
    left, strengths, right = np.linalg.svd(of_embedding)
    roots = np.sqrt(strengths[:size])
    values = roots[:, None] * right[:size]
    # Each query head of a group brings an equal share of what its values hold.
    shares = (left[:, :size] * roots / group).reshape(width, s.kv_heads, d)
    outputs = np.repeat(shares, group, axis=1).reshape(width, s.heads * d)
    keys = FOCUS * np.random.default_rng(0).normal(size=(size, width)) / np.sqrt(width)
    queries = np.repeat(keys.reshape(s.kv_heads, d, width), group, axis=0).reshape(s.heads * d, width)
    with torch.no_grad():
        head.row_scale.copy_(torch.from_numpy(row_scale))
        head.output_norm.copy_(torch.from_numpy(output_norm))
        head.fc.copy_(_tensor(of_rows))
        for weight, start in ((head.attn_q, queries), (head.attn_k, keys)):
            weight.mul_(NOISE)
            weight[:, :width] += _tensor(start)
        head.attn_v.zero_()
        head.attn_v[:, :width] = _tensor(values)
        head.attn_output.copy_(_tensor(outputs))
        head.ffn_down.mul_(NOISE)
