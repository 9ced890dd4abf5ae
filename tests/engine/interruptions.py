"""What drafts of every kind must survive: texts that are stopped or cancelled anywhere."""

from __future__ import annotations

import itertools
import random
import time

import specdec_native as sd


def check_stops(gen: sd.Generator, prompt: str, expected: list[int], most: int, options: sd.StreamOptions) -> None:
    """Stops the greedy text of a prompt after 1 to `most` tokens; the next prompt shares what was cached."""
    tokens = gen.tokenize(prompt)
    for count in range(1, most + 1):
        with gen.stream(prompt, temperature=0, **options) as stream:
            assert [piece.token for piece in itertools.islice(stream, count)] == expected[:count]
        rest = gen.generate(tokens + expected[: count + 3], temperature=0, **{**options, "max_tokens": 20})
        assert rest.tokens == expected[count + 3 : count + 23]


def check_cancelled_passes(
    gen: sd.Generator, prompt: list[int], expected: list[int], options: sd.StreamOptions
) -> None:
    wait = random.Random(3)
    for _ in range(12):
        handle = gen.submit(prompt, temperature=0, **options)
        time.sleep(wait.uniform(0, 0.03))
        handle.cancel()
    assert gen.submit(prompt, temperature=0, **options).result().tokens == expected
