"""500 mixed requests in 8 slots with random cancellations: every output is that of the request alone, and nothing
leaks."""

from __future__ import annotations

import ctypes
import pathlib
import random

import pytest
from tests import threads

import specdec_native as sd

NUM_REQUESTS = 500


class Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def allocated_bytes() -> int | None:
    """What malloc has given out, in all threads; None where the C library does not say (it is not glibc 2.33 or newer).

    Resident memory would depend on which pages the allocator returns when.
    """
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def make_requests(prompts: list[str], rng: random.Random) -> list[sd.Request]:
    """Greedy, invariant with the adaptive length, and seeded sampling with fixed lengths; prompts that share
    beginnings."""
    requests: list[sd.Request] = []
    for seed in range(NUM_REQUESTS):
        prompt = rng.choice(prompts)
        if rng.random() < 0.3:
            prompt = prompts[0] + "\n" + prompt[:20]
        modes: list[sd.StreamOptions] = [
            {"temperature": 0},
            {"temperature": 0.9, "verification": "invariant"},
            {"temperature": 0.9, "num_draft_tokens": rng.choice([0, 1, 3, 8])},
            {"temperature": 0.7, "num_draft_tokens": 4, "verification": "token", "repeat_penalty": 1.2, "stop": "\n\n"},
        ]
        requests.append({"prompt": prompt, "seed": seed, "max_tokens": rng.randint(1, 20), **rng.choice(modes)})
    return requests


@pytest.mark.parametrize("suffix", [False, True])
@threads.none_left()
def test_soak(target_path: pathlib.Path, draft_path: pathlib.Path, library_prompts: list[str], suffix: bool) -> None:
    rng = random.Random(1)
    requests = make_requests(library_prompts, rng)
    cancelled_after = {index: rng.randint(1, 10) for index in rng.sample(range(NUM_REQUESTS), 100)}
    n_threads = 2 if suffix else 1  # with two, its three rounds would take minutes where another test runs
    gen = sd.Generator(target_path, draft_path, suffix=suffix, n_threads=n_threads, n_ctx=256, max_sequences=8)

    memory: list[int] = []  # allocated after each round; malloc's caches fill during the first
    for _ in range(3):
        texts: dict[int, list[int]] = {index: [] for index in range(NUM_REQUESTS)}
        finished: set[int] = set()
        with gen.stream_many(requests) as events:
            for event in events:
                assert event.error is None and event.piece is not None
                text = texts[event.index]
                text.append(event.piece.token)
                if event.stats is not None:
                    finished.add(event.index)
                elif len(text) == cancelled_after.get(event.index):
                    events.cancel(event.index)
        cut = set(cancelled_after) - finished
        assert len(cut) > 40 and len(finished) == NUM_REQUESTS - len(cut)
        if (allocated := allocated_bytes()) is not None:
            memory.append(allocated)
        if suffix:  # it remembers outputs, 330 bytes for each token
            break
    else:
        assert not memory or memory[2] - memory[1] < 1 << 20, memory  # 3 KB lost per text would be seen

    one = sd.Generator(target_path, draft_path, suffix=suffix, n_threads=1, n_ctx=256)
    for index, request in enumerate(requests):
        alone = one.generate(**request).tokens
        assert texts[index] == (alone[: cancelled_after[index]] if index in cut else alone), request
