"""The target's hidden rows and distributions for sequences: computed when needed, kept in bounded memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._generator import Generator
from .loss import ABSENT
from .shape import Shape
from .target_weights import TargetWeights
from .text import LENGTH, Tokens

TOP = 24  #: likeliest tokens at each place; training treats all others as one
USES = 2  #: how often a sequence is trained on before it is dropped; reading it takes longer than training
LARGEST = 60000.0  #: below the largest float16
FIRST = (
    4  #: tokens at the start of a sequence whose rows are not fitted: in some models, attention sinks have larger ones
)

Halves = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Sample:
    """A sequence of T tokens in the form in which the head reads it."""

    rows: Halves  #: [T - 1, layers * width] of tokens 0 to T - 2
    embeddings: Halves  #: [T - 1, width] of tokens 1 to T - 1
    tokens: npt.NDArray[np.int32]  #: [T - 1, TOP] likeliest after tokens 1 to T - 1, indices of the head's vocabulary
    probs: npt.NDArray[np.float32]  #: [T - 1, TOP]
    agrees: npt.NDArray[np.bool_]  #: [T - 1] whether tokens 1 to T - 1 are the target's likeliest

    def tensors(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """rows and embeddings as float32 [1, T - 1, ...], tokens as int64, probs."""
        rows, embeddings = (torch.from_numpy(a).to(device).float()[None] for a in (self.rows, self.embeddings))
        return (
            rows,
            embeddings,
            torch.from_numpy(self.tokens).long().to(device),
            torch.from_numpy(self.probs).to(device),
        )


def bytes_per_token(shape: Shape) -> int:
    return 2 * shape.width * (len(shape.layers) + 1) + 8 * TOP + 1


class RowReader:
    """Makes samples of sequences, one at a time."""

    def __init__(self, gen: Generator, target: TargetWeights, shape: Shape) -> None:
        self._gen, self._target, self._shape = gen, target, shape
        self.num_read = 0  #: tokens
        self._places = np.arange(shape.vocabulary, dtype=np.int32)
        if shape.tokens is not None:
            self._places[:] = ABSENT
            self._places[shape.tokens] = np.arange(len(shape.tokens), dtype=np.int32)

    def read(self, tokens: Tokens) -> Sample:
        found = self._gen.hidden_rows(tokens.tolist(), layers=self._shape.layers, top_logprobs=TOP)
        self.num_read += len(tokens)
        unique, inverse = np.unique(tokens[1:], return_inverse=True)
        rows = np.clip(found.rows[:-1].reshape(len(tokens) - 1, -1), -LARGEST, LARGEST)
        return Sample(
            rows.astype(np.float16),
            self._target.embeddings(unique).astype(np.float16)[inverse],
            self._places[found.top_tokens[1:]],
            np.exp(found.top_logprobs[1:]),
            found.top_tokens[:-1, 0] == tokens[1:],
        )


def scale_of(samples: list[Sample]) -> npt.NDArray[np.float32]:
    """1 / root mean square of each column, without the FIRST tokens."""
    rows = np.concatenate([sample.rows[FIRST:] for sample in samples]).astype(np.float32)
    scale: npt.NDArray[np.float32] = 1 / np.maximum(np.sqrt((rows * rows).mean(0)), 1e-4)
    return scale


class Buffer:
    """Samples in random order, each returned USES times."""

    def __init__(self, reader: RowReader, sequences: Iterator[Tokens], capacity: int, seed: int) -> None:
        self._reader, self._sequences = reader, sequences
        self._capacity = max(1, capacity)
        self._random = random.Random(seed)
        self._held: list[tuple[Sample, int]] = []

    def first(self, num_tokens: int) -> Iterator[Sample]:
        """Reads num_tokens; keeps the samples that fit for next()."""
        while num_tokens > 0:
            sample = self._reader.read(next(self._sequences))
            num_tokens -= len(sample.tokens)
            if len(self._held) < self._capacity:
                self._held.append((sample, 0))
            yield sample

    def next(self) -> Sample:
        """Reads a new sequence in one of USES calls on average."""
        is_due = self._random.random() * USES < 1
        if not self._held or (is_due and len(self._held) < self._capacity):
            self._held.append((self._reader.read(next(self._sequences)), 0))
        place = self._random.randrange(len(self._held))
        sample, uses = self._held[place]
        if uses + 1 == USES:
            self._held[place] = self._held[-1]
            self._held.pop()
        else:
            self._held[place] = sample, uses + 1
        return sample


def buffer_size(shape: Shape, num_bytes: int) -> int:
    """How many sequences fit into num_bytes."""
    return max(4, num_bytes // (bytes_per_token(shape) * LENGTH))
