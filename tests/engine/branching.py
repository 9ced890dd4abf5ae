"""That trees of drafts change no text, in one request and in several that share passes."""

from __future__ import annotations

import math
from collections.abc import Callable

import specdec_native as sd

PROMPTS = ["def the self return", "def the self", "return x"]


def check_trees(plain: sd.Generator, branching: Callable[[int], sd.Generator], least_drafted: int | None) -> None:
    """branching: a generator for so many requests at once. least_drafted: drafts in a pass, on average;
    None: they may be chains, or none."""
    for temperature in (0.0, 0.9):
        options: sd.StreamOptions = {
            "max_tokens": 48,
            "logit_bias": {1: -math.inf},
            "temperature": temperature,
            "seed": 3,
        }
        expected = [plain.generate(prompt, **options).tokens for prompt in PROMPTS]
        for count in (1, 3):
            with branching(count) as gen:
                found = [handle.result() for handle in [gen.submit(prompt, **options) for prompt in PROMPTS]]
            assert [completion.tokens for completion in found] == expected
            if least_drafted is not None:
                drafted = sum(completion.stats.drafted for completion in found)
                assert drafted > least_drafted * sum(completion.stats.target_calls for completion in found)
