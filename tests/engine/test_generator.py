"""The generator's public interface, on the bundled pair."""

import math
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import specdec_native as sd

PROMPT = "def bfs(graph, start):"


@pytest.fixture(scope="module")
def gen() -> sd.Generator:
    return sd.Generator(num_draft_tokens=7)  # a number, so that a seed fixes the text


def test_an_idle_generator_takes_no_processor_time() -> None:
    gen = sd.Generator(n_threads=2, num_draft_tokens=3)
    idle = []
    for seed in range(5):
        gen.generate(PROMPT, max_tokens=8, seed=seed)
        before = time.process_time()
        time.sleep(0.3)
        idle.append(time.process_time() - before)
    assert min(idle) < 0.04, idle


def test_a_stream_of_pieces(gen: sd.Generator) -> None:
    pieces = list(gen.stream(PROMPT, max_tokens=40, seed=1))
    assert len(pieces) == 40
    assert [p.finish_reason for p in pieces] == [None] * 39 + ["length"]
    assert any(p.from_draft for p in pieces) and not all(p.from_draft for p in pieces)
    assert all(p.logprob <= 0 for p in pieces)
    assert "".join(p.text for p in pieces) == gen.detokenize([p.token for p in pieces])
    with pytest.raises(AttributeError):
        pieces[0].text = "x"  # type: ignore[misc]


def test_generate_is_the_stream_collected(gen: sd.Generator) -> None:
    completion = gen.generate(PROMPT, max_tokens=40, seed=1)
    pieces = list(gen.stream(PROMPT, max_tokens=40, seed=1))
    assert [p._replace(draft_source=None) for p in completion.pieces] == [p._replace(draft_source=None) for p in pieces]
    assert completion.text == "".join(p.text for p in pieces)
    assert completion.finish_reason == "length"


def test_stats_add_up(gen: sd.Generator) -> None:
    stats = sd.Generator(num_draft_tokens=7).generate(PROMPT, max_tokens=60, seed=2).stats
    assert stats.tokens == 60
    assert stats.tokens == stats.accepted + stats.target_calls
    assert 0 < stats.accepted < stats.drafted
    assert stats.acceptance_rate == stats.accepted / stats.drafted
    assert stats.tokens_per_target_call == 60 / stats.target_calls > 1
    assert stats.prompt_tokens == len(gen.tokenize(PROMPT)) and stats.prompt_cached_tokens == 0
    parts = stats.draft_seconds + stats.target_seconds + stats.sampling_seconds
    assert 0 < parts <= stats.seconds
    assert stats.tokens_per_second == pytest.approx(60 / stats.seconds)


def test_stats_are_of_the_text(gen: sd.Generator, library_prompts: list[str]) -> None:
    """Also where it ends inside a block: what was made after a stop string does not count."""
    inside = 0
    for prompt in library_prompts[:8]:
        stopped = gen.generate(prompt, max_tokens=60, temperature=0, stop=["e", "("])
        assert stopped.stats.tokens == len(stopped.pieces)
        assert stopped.stats.accepted == sum(piece.from_draft for piece in stopped.pieces) <= stopped.stats.drafted
        inside += stopped.pieces[-1].from_draft
    assert inside > 2


def test_a_seed_fixes_the_text_and_no_seed_does_not(gen: sd.Generator) -> None:
    texts = [gen.generate(PROMPT, max_tokens=30, seed=7).text for _ in range(3)]
    assert texts[0] == texts[1] == texts[2]
    assert len({gen.generate(PROMPT, max_tokens=30).text for _ in range(4)}) > 1
    replayed = gen.generate(PROMPT, max_tokens=30, seed=gen.seed).text
    assert replayed == gen.generate(PROMPT, max_tokens=30, seed=gen.seed).text


@pytest.mark.parametrize("consumed", [0, 1, 3, 10, 29])
def test_an_abandoned_stream_leaves_nothing_behind(gen: sd.Generator, consumed: int) -> None:
    expected = gen.generate(PROMPT, max_tokens=30, seed=7).tokens
    stream = gen.stream(PROMPT, max_tokens=30, seed=7)
    taken = [next(stream).token for _ in range(consumed)]
    stream.close()
    stream.close()
    assert taken == expected[:consumed]
    assert list(stream) == []
    assert gen.generate(PROMPT, max_tokens=30, seed=7).tokens == expected


def test_streams_are_context_managers(gen: sd.Generator) -> None:
    with pytest.raises(ZeroDivisionError), gen.stream(PROMPT, seed=7) as stream:
        next(stream)
        raise ZeroDivisionError
    assert list(stream) == []
    assert gen.generate(PROMPT, max_tokens=5, seed=7).tokens


def test_a_newer_stream_ends_the_older(gen: sd.Generator) -> None:
    older = gen.stream(PROMPT, max_tokens=30, seed=1)
    next(older)
    newer = gen.stream(PROMPT, max_tokens=3, seed=1)
    with pytest.raises(sd.Error, match="ended by a newer one"):
        next(older)
    older.close()  # must not end the newer one
    assert len(list(newer)) == 3


def test_a_common_prefix_is_read_once(gen: sd.Generator) -> None:
    text = "import os\nimport sys\n\n\nclass Reader:\n    def __init__(self, path):\n"
    fresh = sd.Generator().generate(text + "        self.path", max_tokens=20, temperature=0)
    gen.generate(text + "        pass", max_tokens=20, seed=1)
    reused = gen.generate(text + "        self.path", max_tokens=20, temperature=0)
    assert reused.tokens == fresh.tokens
    assert fresh.stats.prompt_cached_tokens == 0
    assert reused.stats.prompt_cached_tokens >= len(gen.tokenize(text)) - 2
    again = gen.generate(text + "        self.path", max_tokens=20, temperature=0)
    assert again.stats.prompt_cached_tokens == again.stats.prompt_tokens - 1
    assert again.tokens == fresh.tokens


def test_prompts_may_be_tokens(gen: sd.Generator) -> None:
    tokens = gen.tokenize(PROMPT)
    assert tokens[0] == 0  # BOS
    assert gen.detokenize(tokens) == PROMPT
    by_tokens = gen.generate(tokens, max_tokens=10, seed=1)
    assert by_tokens.tokens == gen.generate(PROMPT, max_tokens=10, seed=1).tokens
    assert gen.generate(np.array(tokens), max_tokens=10, seed=1).tokens == by_tokens.tokens  # type: ignore[arg-type]


def test_stop_strings(gen: sd.Generator) -> None:
    whole = gen.generate(PROMPT, max_tokens=60, temperature=0).text
    stop = whole[25:33]  # spans tokens
    at = whole.index(stop)
    for stops in (stop, [stop], ["never seen", stop]):
        stopped = gen.generate(PROMPT, max_tokens=60, temperature=0, stop=stops)
        assert stopped.text == whole[:at]
        assert stopped.finish_reason == "stop"
        assert stopped.tokens == gen.generate(PROMPT, max_tokens=60, temperature=0).tokens[: len(stopped.tokens)]
    unmatched = gen.generate(PROMPT, max_tokens=60, temperature=0, stop=["never seen"])
    assert unmatched.text == whole and unmatched.finish_reason == "length"


def test_text_is_whole_characters(gen: sd.Generator) -> None:
    tokens = gen.tokenize("# naïve café — 漢字 🙂\n")
    assert gen.detokenize(tokens) == "# naïve café — 漢字 🙂\n"
    # Force the bytes of a character one token at a time.
    euro = gen.tokenize("€")[1:]
    assert len(euro) >= 2
    pieces = []
    tokens = gen.tokenize("x = ")
    for token in euro:
        piece = gen.generate(tokens, max_tokens=1, logit_bias={token: 1e4}, temperature=0).pieces[0]
        assert piece.token == token
        pieces.append(piece)
        tokens.append(token)
    assert gen.detokenize(euro) == "€"


def test_end_of_generation(gen: sd.Generator) -> None:
    completion = gen.generate(PROMPT, max_tokens=50, temperature=0, logit_bias={0: 1e4})
    assert completion.tokens == [0] and completion.text == "" and completion.finish_reason == "stop"
    banned = gen.generate(PROMPT, max_tokens=50, seed=1, logit_bias={0: -math.inf, 14: -math.inf})
    assert 0 not in banned.tokens and 14 not in banned.tokens


def test_repetition_penalty_changes_the_text(gen: sd.Generator) -> None:
    plain = gen.generate(PROMPT, max_tokens=80, temperature=0).tokens
    penalised = gen.generate(PROMPT, max_tokens=80, temperature=0, repeat_penalty=1.5).tokens
    assert len(set(penalised)) > len(set(plain))
    assert (
        penalised == gen.generate(PROMPT, max_tokens=80, temperature=0, repeat_penalty=1.5, num_draft_tokens=0).tokens
    )


def test_exactly_max_tokens(gen: sd.Generator) -> None:
    for max_tokens in (1, 2, 7, 8, 9, 33):
        assert len(gen.generate(PROMPT, max_tokens=max_tokens, seed=3, logit_bias={0: -math.inf}).tokens) == max_tokens
    nothing = gen.generate(PROMPT, max_tokens=0)
    assert nothing.text == "" and nothing.tokens == [] and nothing.finish_reason is None


def test_the_context_fills_up() -> None:
    gen = sd.Generator(n_ctx=64)
    prompt = gen.tokenize(PROMPT)
    completion = gen.generate(PROMPT, max_tokens=1000, seed=1, logit_bias={0: -math.inf})
    assert completion.finish_reason == "context"
    assert len(prompt) + len(completion.tokens) == 64 + 1
    full = gen.generate(list(range(1, 65)), max_tokens=10, seed=1)
    assert len(full.tokens) == 1
    with pytest.raises(
        sd.ContextFull, match=r"65 tokens.*holds 64; shorten the prompt or ask for a longer context \(n_ctx\)$"
    ):
        gen.generate(list(range(1, 66)))


def test_prompts_far_too_long() -> None:
    gen = sd.Generator(n_ctx=64)
    with pytest.raises(
        sd.ContextFull, match=r"the prompt has at least \d{6} tokens, the context holds 64; shorten the prompt"
    ):
        gen.generate("x " * 5_000_000)
    assert gen.generate(PROMPT, max_tokens=2, seed=1).tokens


def test_beyond_the_context_that_the_draft_was_trained_with(
    target_path: os.PathLike[str], draft_path: os.PathLike[str]
) -> None:
    gen = sd.Generator(target_path, draft_path, n_ctx=600)  # the draft was trained on 512
    completion = gen.generate(PROMPT, max_tokens=580, temperature=0, logit_bias={0: -math.inf})
    assert len(completion.tokens) == 580
    alone = sd.Generator(target_path, n_ctx=600).generate(
        PROMPT, max_tokens=580, temperature=0, logit_bias={0: -math.inf}
    )
    assert completion.tokens == alone.tokens


def test_without_a_draft(target_path: os.PathLike[str]) -> None:
    for gen in (sd.Generator(target_path), sd.Generator(num_draft_tokens=0)):
        completion = gen.generate(PROMPT, max_tokens=20, seed=1)
        assert completion.stats.drafted == 0 and completion.stats.target_calls == 20
        assert not any(p.from_draft for p in completion.pieces)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": []}, "prompt is empty"),
        ({"prompt": [4096]}, "prompt token is 4096"),
        ({"prompt": [-1]}, "prompt token is -1"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"top_p": math.nan}, "top_p"),
        ({"min_p": 1.5}, "min_p is 1.5"),
        ({"repeat_penalty": 0.0}, "repeat_penalty is 0"),
        ({"repeat_penalty": 1e-300}, "repeat_penalty is 1e-300"),
        ({"frequency_penalty": -1e308}, r"frequency_penalty is -1e\+308"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
        ({"logit_bias": {4096: 1.0}}, "logit_bias has the token 4096; it must be a whole number from 0 to 4095"),
        ({"logit_bias": dict.fromkeys(range(4096), -math.inf)}, "logit_bias bans every token"),
        ({"top_k": 2**40}, f"top_k is {2**40}"),
        ({"max_tokens": 2**40, "prompt": "SECRET"}, r"^max_tokens is \d+; it must be a whole number from 0 to \d+$"),
        ({"prompt": [10**12]}, r"prompt\[0\] is 1000000000000"),
        ({"prompt": "a\udcff"}, "prompt has a lone surrogate at 1"),
        ({"logit_bias": {1: math.nan}}, "logit_bias"),
        ({"num_draft_tokens": -1}, "num_draft_tokens is -1"),
        ({"num_draft_tokens": 64}, "num_draft_tokens is 64"),
        ({"stop": ""}, "stop has an empty string"),
        ({"stop": ["a", ""]}, "stop has an empty string"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is"),
    ],
)
def test_bad_values_name_themselves(gen: sd.Generator, arguments: dict[str, object], message: str) -> None:
    before = gen.generate(PROMPT, max_tokens=5, seed=1).tokens
    with pytest.raises(ValueError, match=message):
        gen.generate(**{"prompt": PROMPT, **arguments})  # type: ignore[arg-type]
    assert gen.generate(PROMPT, max_tokens=5, seed=1).tokens == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": b"def"}, "prompt is bytes; it must be a str or token ids: decode it"),
        ({"prompt": 7}, "prompt is 7"),
        ({"prompt": ["a", "b"]}, r"prompt\[0\] is 'a'; it must be a token id \(generate_many takes several prompts\)"),
        ({"max_tokens": "all"}, "max_tokens is 'all'; it must be a whole number"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"temperature": "hot"}, "temperature is 'hot'; it must be a finite number of at least 0"),
        ({"stop": [5]}, "stop is 5; it must be a str"),
        ({"logit_bias": [1]}, r"logit_bias is \[1\]"),
    ],
)
def test_wrong_types_name_themselves(gen: sd.Generator, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        gen.generate(**{"prompt": PROMPT, **arguments})  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers(gen: sd.Generator) -> None:
    own = gen.generate([1, 2, 3], max_tokens=5, temperature=0.5, top_k=10, seed=3, stop=None)
    of_numpy = gen.generate(
        np.array([1, 2, 3]),  # type: ignore[arg-type]
        max_tokens=np.int64(5),
        temperature=np.float32(0.5),  # type: ignore[arg-type]
        top_k=np.uint8(10),
        seed=np.uint64(3),
    )
    assert own.tokens == of_numpy.tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_ctx": 2**40}, "n_ctx is"),
        ({"n_ctx": -5}, "n_ctx is -5"),
        ({"n_threads": 0}, "n_threads is 0"),
        ({"n_threads": 10_000}, "n_threads is 10000"),
        ({"n_batch": 8}, "n_batch is 8"),
        ({"n_gpu_layers": -7}, "n_gpu_layers is -7; it must be a whole number from -1 to 100000, all or auto"),
        ({"num_draft_tokens": 64}, "num_draft_tokens is 64"),
    ],
)
def test_bad_options_name_themselves(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sd.Generator(**options)  # type: ignore[arg-type]


def test_a_context_beyond_memory_is_rejected() -> None:
    with pytest.raises(sd.ModelError, match="not enough memory"):
        sd.Generator(n_ctx=1 << 24)


def test_errors_are_one_family() -> None:
    assert issubclass(sd.VocabularyMismatch, sd.ModelError) and issubclass(sd.ModelError, sd.Error)
    assert issubclass(sd.ContextFull, sd.Error) and issubclass(sd.Error, RuntimeError)


def test_two_generators_in_two_threads() -> None:
    expected = sd.Generator(n_threads=1, num_draft_tokens=7).generate(PROMPT, max_tokens=100, seed=5).tokens
    results: list[list[int]] = []

    def work() -> None:
        gen = sd.Generator(n_threads=1, num_draft_tokens=7)
        for _ in range(3):
            results.append(gen.generate(PROMPT, max_tokens=100, seed=5).tokens)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 6


def test_one_generator_is_for_one_thread_at_a_time() -> None:
    gen = sd.Generator(n_threads=1)
    long = list(range(1, 500))
    errors: list[BaseException] = []

    def work() -> None:
        for _ in range(20):
            try:
                gen.generate([i % 4000 + 1 for i in long], max_tokens=5, seed=1)
            except sd.Error as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("another thread" in str(e) or "newer one" in str(e) for e in errors)
    assert len(gen.generate(PROMPT, max_tokens=5, seed=1).tokens) == 5


def test_the_gil_is_free_while_models_run() -> None:
    gen = sd.Generator(n_threads=1)
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    gen.generate([i % 4000 + 1 for i in range(500)], max_tokens=12, seed=1)
    done.set()
    thread.join()
    assert ticks >= 5


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_is_a_keyboard_interrupt_and_the_generator_goes_on() -> None:
    script = """
import os, signal, threading, sys
import specdec_native as sd
gen = sd.Generator(num_draft_tokens=7)
expected = gen.generate("import os", max_tokens=20, seed=1).tokens
for _ in range(3):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            for piece in gen.stream("def f(", max_tokens=400):
                pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert gen.generate("import os", max_tokens=20, seed=1).tokens == expected
print("fine")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert result.stdout.split() == ["interrupted"] * 3 + ["fine"], result.stderr
    assert signal.SIGINT  # the import is used on every platform


def test_what_a_shell_shows_fits_a_screen() -> None:
    with sd.Generator() as gen:
        assert re.fullmatch(r"Generator\('\S+stdlib-target-f16.gguf', draft='\S+stdlib-draft-f16.gguf'\)", repr(gen))
        completion = gen.generate("import os\n", max_tokens=200, seed=1)
        assert repr(completion.text) in repr(completion) and "Piece(" not in repr(completion)
        handle = gen.submit("import os\n", max_tokens=4)
        handle.text()
        assert repr(handle) == "<RequestHandle: done>"
    assert repr(gen).endswith(" (closed)")


def test_an_option_that_there_is_not() -> None:
    gen = sd.Generator()
    for use in (gen.generate, gen.submit):
        with pytest.raises(TypeError, match=r"unknown option 'max_new_tokens'; options are .*max_tokens"):
            use("import os", max_new_tokens=3)  # type: ignore[call-arg]
