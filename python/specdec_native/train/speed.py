"""The speed that a head gives on this machine, predicted from pass times and acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from .._generator import Generator

DRAFTS = 4
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Costs:
    target: list[float]  #: seconds of a pass over 1, 2, ... tokens
    draft: float  #: seconds of one draft

    @property
    def plain(self) -> float:
        """Tokens per second without drafts."""
        return 1 / self.target[0]

    def tokens_per_second(self, accepted: Sequence[float]) -> float:
        """With the best number of drafts. accepted[i]: acceptance of draft i, if all before it were accepted."""
        best, expected, chance = self.plain, 1.0, 1.0
        for drafts, share in enumerate(accepted, 1):
            chance *= share
            expected += chance
            best = max(best, expected / (self.target[drafts] + drafts * self.draft))
        return best


def without_disturbance(seconds: Sequence[float]) -> list[float]:
    """A pass that took longer than one over more tokens was disturbed by other programs; takes the shorter time."""
    return list(accumulate(reversed(seconds), min))[::-1]


def measure(gen: Generator, prompt: list[int], target_bytes: int, draft_bytes: float) -> Costs:
    """Assumes that a head's pass reads its bytes as fast as a target's pass."""
    request = gen.submit_native(prompt, {"max_tokens": 1, "temperature": 0})
    request.wait_for_end()
    seconds = without_disturbance(gen._core.time_passes(request, DRAFTS + 1, REPEATS))
    return Costs(seconds, seconds[0] * draft_bytes / target_bytes)
