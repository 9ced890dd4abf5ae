"""The training loop: trains on samples, averages the weights, and measures acceptance on held-out text."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from .head import Head
from .loss import agreement, divergence
from .rows import Sample
from .speed import DRAFTS
from .target_weights import F32Array
from .text import Tokens

BATCH = 4  #: sequences per step
CHAINS = 1  #: of these, trained on drafts after the first, too
WARM_UP = 30  #: steps
DECAY = 0.4  #: share of the time at the end, in which the rate falls to 0
PATIENCE = 6  #: evaluations without progress that end training
PROGRESS = 0.002  #: least relative decrease of the held-out loss
EVALUATIONS = 30  #: at most
EVALUATION_SHARE = 0.05  #: of the time, at most


def rate_of(width: int) -> float:
    """Three times this rate destroys the initial weights faster than it improves them."""
    return 0.01 / math.sqrt(width)


def device_of() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def has_fast_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return any(getattr(torch.cpu, name, bool)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance of the first to fourth draft of a chain, given that all before were accepted."""

    greedy: list[float]
    sampled: list[float]  #: at temperature 1
    loss: float


@dataclass(slots=True)
class State:
    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    held_out: dict[str, Acceptance] = field(default_factory=dict)

    @property
    def held_out_loss(self) -> float:
        return float(np.mean([kind.loss for kind in self.held_out.values()]))

    @property
    def greedy(self) -> list[float]:
        """The mean over the kinds of text."""
        return [
            float(np.mean(shares)) for shares in zip(*(kind.greedy for kind in self.held_out.values()), strict=True)
        ]


class Trainer:
    def __init__(self, head: Head, output: F32Array, held_out: dict[str, list[Sample]]) -> None:
        """output [vocabulary, width]: the rows of the target's output matrix for the head's vocabulary."""
        self.device = device_of()
        self.head = head.to(self.device)
        self.averaged = Head(head.shape).to(self.device)
        self.averaged.load_state_dict(head.state_dict())
        self._output = torch.from_numpy(output).to(self.device)
        self._held_out = held_out
        self._bf16 = has_fast_bf16(self.device)
        self._optimiser = torch.optim.AdamW(
            head.parameters(), lr=rate_of(head.shape.width), betas=(0.9, 0.95), weight_decay=0.0, fused=True
        )
        self.state = State()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16)

    def _train_on(self, sample: Sample, drafts: int) -> float:
        """Adds the gradients for a sequence. Returns the loss of the first draft."""
        rows, embeddings, tokens, probs = sample.tensors(self.device)
        losses = []
        with self._autocast():
            for step, state in enumerate(self.head.steps(rows, embeddings, 1, drafts)):
                logits = self.head.logits(state[0, step:], self._output).float()
                losses.append(divergence(logits, tokens[step:], probs[step:]))
        torch.stack(losses).sum().div(BATCH).backward()
        return float(losses[0].detach())

    def train_step(self, samples: Sequence[Sample], rate: float) -> None:
        losses = [self._train_on(sample, DRAFTS if i < CHAINS else 1) for i, sample in enumerate(samples)]
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self.state.step += 1
        self.state.loss += 0.05 * (float(np.mean(losses)) - self.state.loss) if self.state.step > 1 else losses[0]
        kept = min(0.98, 1 - 4 / (self.state.step + 4))
        with torch.no_grad():
            for average, parameter in zip(self.averaged.parameters(), self.head.parameters(), strict=True):
                average.lerp_(parameter, 1 - kept)

    def evaluate(self) -> None:
        with torch.no_grad():
            self.state.held_out = {kind: self._acceptance(samples) for kind, samples in self._held_out.items()}

    def _acceptance(self, samples: Sequence[Sample]) -> Acceptance:
        """A later draft counts only if all before it would have been accepted: each was the target's choice and is the
        text's next token."""
        greedy, sampled, counts = np.zeros(DRAFTS), np.zeros(DRAFTS), np.zeros(DRAFTS)
        loss = 0.0
        for sample in samples:
            rows, embeddings, tokens, probs = sample.tensors(self.device)
            accepted = same = np.ones(len(sample.agrees), bool)
            for step, state in enumerate(self.averaged.steps(rows, embeddings, 1, DRAFTS)):
                logits = self.averaged.logits(state[0, step:], self._output).float()
                if step == 0:
                    loss += float(divergence(logits, tokens, probs)) / len(samples)
                else:
                    accepted = accepted[:-1] & same[:-1] & sample.agrees[step:]
                same, kept = (x.cpu().numpy() for x in agreement(logits, tokens[step:], probs[step:]))
                greedy[step] += same[accepted].sum()
                sampled[step] += kept[accepted].sum()
                counts[step] += accepted.sum()
        counts = np.maximum(counts, 1)
        return Acceptance((greedy / counts).tolist(), (sampled / counts).tolist(), loss)

    def run(
        self, samples: Callable[[], Sample], seconds: float, done: Callable[[], float], report: Callable[[State], None]
    ) -> str:
        """Trains until the time is over, done() returns 1 or there is no more progress; returns the reason. Calls
        report after each evaluation."""
        begin = last = time.monotonic()
        pause = seconds / EVALUATIONS
        best, since_best = self.state.held_out_loss, 0
        while True:
            now = time.monotonic() - begin
            left = max(0.0, 1 - max(now / seconds, done()))
            rate = rate_of(self.head.shape.width) * min(1.0, (self.state.step + 1) / WARM_UP) * min(1.0, left / DECAY)
            is_over = left == 0.0
            if is_over or time.monotonic() - last > pause:
                start = time.monotonic()
                self.evaluate()
                self.state.seconds = time.monotonic() - begin
                report(self.state)
                last = time.monotonic()
                pause = max(seconds / EVALUATIONS, (last - start) / EVALUATION_SHARE)
                since_best = 0 if self.state.held_out_loss < best * (1 - PROGRESS) else since_best + 1
                best = min(best, self.state.held_out_loss)
                if is_over:
                    return "the time is over" if now >= seconds else "all tokens are read"
                if since_best == PATIENCE:
                    return "no more progress"
            self.train_step([samples() for _ in range(BATCH)], rate)


def endless(sequences: Sequence[Tokens], seed: int) -> Iterator[Tokens]:
    """Yields the sequences in order, then repeatedly in random order."""
    random = np.random.default_rng(seed)
    order = list(range(len(sequences)))
    while True:
        yield from (sequences[i] for i in order)
        random.shuffle(order)
