"""How far a head's distribution is from the target's, of which the most likely tokens are known."""

from __future__ import annotations

import torch
from torch import Tensor

ABSENT = -1  #: in place of a token that the head's vocabulary lacks


def divergence(logits: Tensor, tokens: Tensor, probs: Tensor) -> Tensor:
    """logits [N, vocabulary] of the head, tokens and probs [N, k] of the target -> the mean cross-entropy.

    The target's other tokens count as one event, the rest. What the head's vocabulary lacks is left out of both: the
    target's probabilities are those given that the token is one of the head's.
    """
    known = tokens != ABSENT
    log_q = logits.gather(1, tokens.clamp(min=0)) - logits.logsumexp(1, keepdim=True)
    p = probs * known
    rest = (1 - probs.sum(1)).clamp(min=0)
    q_rest = (1 - (log_q.exp() * known).sum(1)).clamp(min=1e-6)
    entropy = -(p * log_q).sum(1) - rest * q_rest.log()
    return (entropy / (p.sum(1) + rest).clamp(min=1e-3)).mean()


def agreement(logits: Tensor, tokens: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """For each row: whether the head's most likely token is the target's, and the probability that a sampled draft is
    accepted, at temperature 1: the sum of min(head, target) over the known tokens."""
    known = tokens != ABSENT
    q = logits.softmax(1).gather(1, tokens.clamp(min=0)) * known
    return logits.argmax(1) == tokens[:, 0], torch.minimum(q, probs).sum(1)
