"""Divergence of a head's distribution from the target's, of which only the likeliest tokens are known."""

from __future__ import annotations

import torch
from torch import Tensor

ABSENT = -1  #: stands for a token that is not in the head's vocabulary


def divergence(logits: Tensor, tokens: Tensor, probs: Tensor) -> Tensor:
    """logits [N, vocabulary] of the head, tokens and probs [N, k] of the target -> mean cross-entropy in nats.

    All tokens other than the k likeliest are one event. Tokens that are not in the head's vocabulary are excluded: the
    target's probabilities are conditioned on the head's vocabulary.
    """
    known = tokens != ABSENT
    log_q = logits.gather(1, tokens.clamp(min=0)) - logits.logsumexp(1, keepdim=True)
    p = probs * known
    rest = (1 - probs.sum(1)).clamp(min=0)
    q_rest = (1 - (log_q.exp() * known).sum(1)).clamp(min=1e-6)
    entropy = -(p * log_q).sum(1) - rest * q_rest.log()
    return (entropy / (p.sum(1) + rest).clamp(min=1e-3)).mean()


def agreement(logits: Tensor, tokens: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """For each row: whether the head's likeliest token is the target's, and the probability that a draft sampled at
    temperature 1 is accepted, the sum of min(head, target) over the known tokens."""
    known = tokens != ABSENT
    q = logits.softmax(1).gather(1, tokens.clamp(min=0)) * known
    return logits.argmax(1) == tokens[:, 0], torch.minimum(q, probs).sum(1)
