"""Several requests at once: each has the same output as alone, bit for bit; failures and cancellations affect no
other."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests import threads
from tests.models.mxfp6_files import quantize
from tests.models.tiny_models import TRANSFORMERS, Shape, make, random_tokens

import specdec_native as sd

PROMPTS = [
    "def bfs(graph, start):",
    "class Stack:\n",
    "import os\n",
    "def main():\n    parser =",
    "for i in range(",
    "# a comment about",
    "def __init__(self",
    "x =",
    "try:\n    import",
    "    def test_",
]


@pytest.fixture(scope="module")
def mxfp6_target(
    specdec: pathlib.Path, target_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    copy = tmp_path_factory.mktemp("many") / "target.gguf"
    copy.symlink_to(target_path)
    return quantize(specdec, copy)


@pytest.fixture(scope="module")
def alone(mxfp6_target: pathlib.Path, draft_path: pathlib.Path) -> sd.Generator:
    return sd.Generator(mxfp6_target, draft_path, n_threads=1)


@pytest.fixture(scope="module")
def many(mxfp6_target: pathlib.Path, draft_path: pathlib.Path) -> sd.Generator:
    return sd.Generator(mxfp6_target, draft_path, n_threads=1, max_sequences=4)


def requests(options: sd.StreamOptions, prompts: list[str] = PROMPTS) -> list[sd.Request]:
    """Prompts of different lengths, so that requests join while others run."""
    return [
        {"prompt": prompt, **options, "max_tokens": 8 + 9 * i % 40, "seed": 100 + i} for i, prompt in enumerate(prompts)
    ]


def is_same(one: sd.Completion, other: sd.Completion) -> bool:
    logprobs = [[piece.logprob for piece in completion.pieces] for completion in (one, other)]
    return one.tokens == other.tokens and one.text == other.text and logprobs[0] == logprobs[1]


MODES: list[sd.StreamOptions] = [
    {"temperature": 0},
    {"temperature": 0, "num_draft_tokens": 0},
    {"temperature": 0, "num_draft_tokens": 5},
    {"temperature": 0.9, "num_draft_tokens": 0},
    {"temperature": 0.9, "num_draft_tokens": 3},
    {"temperature": 0.9, "num_draft_tokens": 4, "verification": "token", "drafting": "argmax"},
    {"temperature": 0.9, "num_draft_tokens": "auto", "verification": "invariant"},
    {"temperature": 1.2, "num_draft_tokens": 6, "verification": "invariant", "repeat_penalty": 1.3},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_texts_are_as_if_alone(alone: sd.Generator, many: sd.Generator, mode: sd.StreamOptions) -> None:
    expected = [alone.generate(**request) for request in requests(mode)]
    together = many.generate_many(requests(mode))
    assert all(map(is_same, expected, together))
    assert [c.finish_reason for c in together] == [c.finish_reason for c in expected]
    # Where drafts cannot change the text, earlier outputs are copied, and there are more of them here.
    is_free = (
        mode.get("num_draft_tokens", "auto") == "auto"
        or not mode["temperature"]
        or mode.get("verification") == "invariant"
    )
    for one, other in zip(expected, together, strict=True):
        assert is_free or (other.stats.drafted, other.stats.accepted) == (one.stats.drafted, one.stats.accepted)
    # Negative control: the same requests with other seeds.
    if mode["temperature"]:
        others = many.generate_many([{**request, "seed": 7} for request in requests(mode)])
        assert sum(map(is_same, expected, others)) <= 2


def test_different_modes_share_their_passes(alone: sd.Generator, many: sd.Generator) -> None:
    """Ragged: K differs between requests, and some have no draft."""
    mixed = [{**request, **mode} for request, mode in zip(requests({}), itertools.cycle(MODES))]
    expected = [alone.generate(**request) for request in mixed]
    assert all(map(is_same, expected, many.generate_many(mixed)))


def test_texts_really_share_passes(many: sd.Generator) -> None:
    """Four plain generations of 40 tokens take 40 passes of the target, not 160."""
    completions = many.generate_many(PROMPTS[:4], max_tokens=40, num_draft_tokens=0, temperature=0)
    for completion in completions:
        assert completion.stats.target_calls == 40
        # All of them ran for nearly the whole time.
        assert completion.stats.seconds > 0.5 * sum(c.stats.seconds for c in completions) / 4


def test_more_drafts_than_a_pass_has_room_for(mxfp6_target: pathlib.Path, draft_path: pathlib.Path) -> None:
    """8 requests of 20 drafts each do not fit into 64 rows: they take turns, and K is not shortened."""
    options: sd.StreamOptions = {"temperature": 0.9, "num_draft_tokens": 20}
    small = sd.Generator(mxfp6_target, draft_path, n_threads=1, n_batch=64, max_sequences=8)
    one = sd.Generator(mxfp6_target, draft_path, n_threads=1)
    expected = [one.generate(**request) for request in requests(options, PROMPTS[:8])]
    assert all(map(is_same, expected, small.generate_many(requests(options, PROMPTS[:8]))))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_architectures(name: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    f16 = make(name).write(tmp_path / "m.gguf", GgmlType.F16)
    draft = make(name, seed=1).write(tmp_path / "d.gguf", GgmlType.F16)
    for target in (f16, quantize(specdec, f16)):
        options: sd.StreamOptions = {"temperature": 0.8, "num_draft_tokens": 3, "logit_bias": {1: -math.inf}}
        prompts = ["def the", "self return x", "def", "the the the self"]
        one = sd.Generator(target, draft, n_threads=1)
        expected = [one.generate(**request) for request in requests(options, prompts)]
        together = sd.Generator(target, draft, n_threads=1, max_sequences=3).generate_many(requests(options, prompts))
        assert all(map(is_same, expected, together))


def test_recurrent_models_run_together_without_a_draft(tmp_path: pathlib.Path) -> None:
    target = make("mamba").write(tmp_path / "m.gguf")
    options: sd.StreamOptions = {"temperature": 0.8, "logit_bias": {1: -math.inf}}
    prompts = ["def the", "self return x", "def", "the the the self"]
    one = sd.Generator(target, n_threads=1)
    expected = [one.generate(**request) for request in requests(options, prompts)]
    together = sd.Generator(target, n_threads=1, max_sequences=3).generate_many(requests(options, prompts))
    assert [c.tokens for c in together] == [c.tokens for c in expected]


@pytest.mark.parametrize("type", ["Q4_K", "Q6_K"])
def test_k_quants_neither_know_the_cache_nor_the_company(type: str, tmp_path: pathlib.Path) -> None:
    """llama.cpp would compute long passes by another algorithm: of prompts, and of scoring many texts."""
    shape = dataclasses.replace(Shape(), width=256, ffn=256, head=64)
    model = make("llama", shape=shape)
    target = model.write(tmp_path / "m.gguf", GgmlType[type])
    whole = random_tokens(model, 500)
    options: sd.StreamOptions = {
        "temperature": 1.0,
        "num_draft_tokens": 20,
        "logit_bias": {1: -math.inf},
        "max_tokens": 40,
        "seed": 1,
    }

    def fresh(sequences: int = 1) -> sd.Generator:
        return sd.Generator(target, "ngram", n_threads=1, max_sequences=sequences)

    expected = {length: fresh().generate(whole[:length], **options) for length in (100, 333, 500)}
    gen = fresh()
    for length in (333, 100, 500):  # a beginning of what is cached, and a continuation of it
        completion = gen.generate(whole[:length], **options)
        assert is_same(completion, expected[length])
    assert completion.stats.prompt_cached_tokens >= 99
    # Cached by passes that scored drafts, and by those that read the prompt.
    answer = expected[100].tokens
    longer = [*whole[:100], *answer, *whole[100:300]]
    gen.generate(whole[:100], **options)
    completion = gen.generate(longer, **options)
    assert completion.stats.prompt_cached_tokens >= 130
    assert is_same(completion, fresh().generate(longer, **options))
    # Eight texts score up to 168 tokens in a pass.
    requests: list[sd.Request] = [{"prompt": whole[: 100 + i], **options} for i in range(8)]
    together = fresh(8).generate_many(requests)
    assert all(
        is_same(completion, fresh().generate(**request)) for completion, request in zip(together, requests, strict=True)
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on memory is Linux's")
def test_lack_of_memory_reaches_the_user_of_the_text(tmp_path: pathlib.Path) -> None:
    """The first text reserves room for a million tokens, 4 MiB, which there is not; the other two go on."""
    shape = Shape(width=32, heads=1, kv_heads=1, head=16, ffn=32, layers=1, context=1 << 20)
    target = make("llama", shape=shape).write(tmp_path / "m.gguf")
    program = f"""
        import resource
        import specdec_native as sd
        gen = sd.Generator({str(target)!r}, n_ctx=1 << 20, n_threads=1, max_sequences=2)
        options = {{"temperature": 0, "logit_bias": {{1: -float("inf")}}}}
        expected = gen.generate_many(["def", "the"], max_tokens=5, **options)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 20), resource.RLIM_INFINITY))
        short = [{{"prompt": prompt, "max_tokens": 5}} for prompt in ("def", "the")]
        requests = [{{"prompt": "x", "max_tokens": 1 << 20}}, *short]
        failed, *others = gen.generate_many(requests, **options)
        try:
            gen.generate("x", max_tokens=1 << 20, **options)
        except MemoryError as error:
            print(repr(error))
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(repr(failed.error), [other.tokens for other in others] == [text.tokens for text in expected])
    """
    # glibc reserves address space for each thread's own heap, beyond the limit's reach.
    command, environment = [sys.executable, "-c", textwrap.dedent(program)], os.environ | {"MALLOC_ARENA_MAX": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert ended.returncode == 0, ended.stderr
    alone, many = ended.stdout.splitlines()
    assert alone == "MemoryError('std::bad_alloc')" and many == f"{alone} True", ended.stderr


def test_a_shared_prefix_is_read_once(
    mxfp6_target: pathlib.Path, draft_path: pathlib.Path, library_prompts: list[str]
) -> None:
    prefix = "\n".join(library_prompts[:3])
    prompts = [prefix + ending for ending in ("\ndef a(", "\nclass B", "\nimport c", "\nfor d in", "\nwhile e:")]
    many = sd.Generator(mxfp6_target, draft_path, n_threads=1, max_sequences=4)
    completions = many.generate_many(prompts, max_tokens=30, seed=1, num_draft_tokens=3)
    length = len(many.tokenize(prefix))
    assert length > 100
    assert completions[0].stats.prompt_cached_tokens < 5
    assert all(c.stats.prompt_cached_tokens >= length - 3 for c in completions[1:])
    for prompt, completion in zip(prompts, completions, strict=True):
        fresh = sd.Generator(mxfp6_target, draft_path, n_threads=1)
        assert is_same(fresh.generate(prompt, max_tokens=30, seed=completion.seed, num_draft_tokens=3), completion)


def test_one_seed_gives_every_text_its_own(alone: sd.Generator, many: sd.Generator) -> None:
    """Batches with seeds that follow one another share none, and a text's own seed repeats it alone."""
    options: sd.StreamOptions = {"temperature": 1.0, "top_k": 0, "num_draft_tokens": 3, "max_tokens": 20}
    batches = [many.generate_many(["def f("] * 6, seed=seed, **options) for seed in (20, 21)]
    assert [batch[0].seed for batch in batches] == [20, 21]
    completions = [*batches[0], *batches[1]]
    assert len({c.seed for c in completions}) == len({c.text for c in completions}) == 12
    for completion in batches[0]:
        assert is_same(completion, alone.generate("def f(", seed=completion.seed, **options))
    again = many.generate_many(["def f("] * 6, seed=20, **options)
    assert all(map(is_same, again, batches[0]))
    with pytest.raises(ValueError, match="seed is 18446744073709551616"):
        many.generate_many(["def f("], seed=2**64)


def test_one_bad_request_fails_alone(alone: sd.Generator, many: sd.Generator) -> None:
    good: sd.Request = {"prompt": "import os\n", "max_tokens": 12, "seed": 3, "num_draft_tokens": 2}
    bad: list[sd.Request] = [
        {"prompt": ""},
        {"prompt": "x", "temperature": -1.0},
        {"prompt": "x " * 10000},
        {"prompt": [10**6]},
        {"prompt": "x", "verification": "none"},  # type: ignore[typeddict-item]
        {"prompt": "x", "top_q": 1},  # type: ignore[typeddict-unknown-key]
        {"prompt": "x", "stop": [""]},
        {"prompt": "x", "seed": -1},
        {"prompt": "x", "max_tokens": "many"},  # type: ignore[typeddict-item]
        {"promt": "x"},  # type: ignore[typeddict-item, typeddict-unknown-key]
        {"prompt": "x", "logit_bias": [1]},  # type: ignore[typeddict-item]
        None,  # type: ignore[list-item]
    ]
    mixed = [request for one in bad for request in (one, good)]
    completions = many.generate_many(mixed)
    expected = alone.generate(**good)
    assert all(is_same(completion, expected) and completion.error is None for completion in completions[1::2])
    for request, completion in zip(bad, completions[::2], strict=True):
        assert completion.error is not None and str(completion.error), request
        assert completion.tokens == [] and completion.finish_reason is None
    assert isinstance(completions[4].error, sd.ContextFull) and "context" in str(completions[4].error)


def test_a_bad_common_option_is_an_error_at_once(many: sd.Generator) -> None:
    with pytest.raises(TypeError, match="unknown option 'top_q'"):
        many.generate_many(["x"], top_q=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="seed is -1"):
        many.generate_many(["x"], seed=-1)


def test_nothing_asked_for(many: sd.Generator) -> None:
    assert many.generate_many([]) == []
    nothing, something = many.generate_many([{"prompt": "x", "max_tokens": 0}, {"prompt": "x", "max_tokens": 2}])
    assert nothing.tokens == [] and nothing.finish_reason is None and nothing.error is None
    assert len(something.tokens) == 2


def test_a_cancelled_text_leaves_the_others_alone(alone: sd.Generator, many: sd.Generator) -> None:
    mode: sd.StreamOptions = {"temperature": 0.9, "num_draft_tokens": 3}
    expected = [alone.generate(**request) for request in requests(mode)]
    tokens: dict[int, list[int]] = {}
    with many.stream_many(requests(mode)) as events:
        events.cancel(9)  # not begun yet
        for event in events:
            assert event.piece is not None
            tokens.setdefault(event.index, []).append(event.piece.token)
            if event.index == 2 and len(tokens[2]) == 5:
                events.cancel(2)
                events.cancel(2)  # harmless
    assert 9 not in tokens
    for index, completion in enumerate(expected[:9]):
        assert tokens[index] == (completion.tokens[:5] if index == 2 else completion.tokens)


def test_requests_are_taken_as_they_are_needed(many: sd.Generator) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        for taken in itertools.count(1):
            yield PROMPTS[taken % len(PROMPTS)]

    done: set[int] = set()
    with many.stream_many(endless(), max_tokens=6, temperature=0) as events:
        for event in events:
            if event.stats is not None:
                done.add(event.index)
            if len(done) == 12:
                break
    assert 12 <= taken <= 12 + 2 * many.max_sequences
    assert many.generate("x", max_tokens=3).tokens


def test_an_exception_in_the_loop_ends_all(alone: sd.Generator, many: sd.Generator) -> None:
    class Stop(Exception):
        pass

    expected = alone.generate(PROMPTS[0], temperature=0, max_tokens=20)
    with pytest.raises(Stop), many.stream_many(PROMPTS, max_tokens=50, temperature=0) as events:
        for number, _ in enumerate(events):
            if number == 30:
                raise Stop
    assert list(events) == []
    assert is_same(many.generate(PROMPTS[0], temperature=0, max_tokens=20), expected)

    def broken() -> Iterator[str]:
        yield "x"
        raise Stop

    with pytest.raises(Stop):
        many.generate_many(broken())
    assert is_same(many.generate(PROMPTS[0], temperature=0, max_tokens=20), expected)


def test_a_newer_text_ends_these(many: sd.Generator) -> None:
    events = many.stream_many(PROMPTS, max_tokens=20)
    next(events)
    many.generate("x", max_tokens=1)
    with pytest.raises(sd.Error, match="newer one"):
        next(events)


def test_memory_is_checked_before_it_is_taken() -> None:
    with pytest.raises(sd.ModelError, match="not enough memory"):
        sd.Generator(n_ctx=1 << 20, max_sequences=128)
    with pytest.raises(sd.ModelError, match=r"256 contexts of 16777216 tokens are more than 2\^31 together"):
        sd.Generator(n_ctx=1 << 24, max_sequences=256)
    with pytest.raises(ValueError, match="max_sequences is 0; it must be a whole number from 1 to 256"):
        sd.Generator(max_sequences=0)


@threads.none_left()
def test_no_thread_is_left_behind() -> None:
    for _ in range(3):
        gen = sd.Generator(max_sequences=2, n_threads=2)
        gen.generate_many(PROMPTS[:3], max_tokens=4)
        del gen


def test_ctrl_c_ends_all_and_the_generator_goes_on(alone: sd.Generator, many: sd.Generator) -> None:
    expected = alone.generate(PROMPTS[0], temperature=0, max_tokens=20)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        many.generate_many(itertools.cycle(PROMPTS), max_tokens=100, temperature=0)
    timer.join()
    assert is_same(many.generate(PROMPTS[0], temperature=0, max_tokens=20), expected)


def test_a_random_seed_is_told(alone: sd.Generator, many: sd.Generator) -> None:
    for prompt, completion in zip(
        PROMPTS[:3], many.generate_many(PROMPTS[:3], max_tokens=12, num_draft_tokens=2), strict=True
    ):
        assert completion.verification == "block"
        repeated = alone.generate(
            prompt, max_tokens=12, num_draft_tokens=2, seed=completion.seed, verification=completion.verification
        )
        assert is_same(repeated, completion)


def test_a_last_piece_that_comes_between_two_looks(many: sd.Generator) -> None:
    """It is the last event all the same, with the statistics."""

    class Late:
        def __init__(self, request: Any) -> None:
            self._request = request
            self._looks = 0

        @property
        def done(self) -> bool:
            self._looks += 1
            return self._looks > 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._request, name)

    events = many.stream_many(PROMPTS[:1], max_tokens=3, temperature=0)
    events._submit(many)
    (running,) = events._running.values()
    while not running.request.done:
        time.sleep(0.01)
    running.request = Late(running.request)  # type: ignore[assignment]
    found = list(events)
    assert len(found) == 3 and all(event.piece is not None for event in found)
    assert [event.stats is not None for event in found] == [False, False, True]
