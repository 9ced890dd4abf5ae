"""One generator with several threads and processes: use, cancellation, and the end of the program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

import specdec_native as sd

PROMPT = "def bfs(graph, start):"
ENDLESS = 4000  # tokens: more than a test waits for


@pytest.fixture
def gen() -> sd.Generator:
    return sd.Generator(n_threads=1, n_ctx=8192, num_draft_tokens=3)


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def test_threads_share_a_generator(gen: sd.Generator) -> None:
    expected = gen.generate(PROMPT, max_tokens=200, seed=1).tokens
    threads = [in_thread(lambda: gen.generate(PROMPT, max_tokens=200, seed=1).tokens) for _ in range(3)]
    assert len(gen.generate("x", max_tokens=1).tokens) == 1
    streamed = [piece.token for piece in gen.stream(PROMPT, max_tokens=200, seed=1)]
    for thread, results in threads:
        thread.join()
        assert results == [expected]
    assert streamed == expected


def test_a_thread_ends_its_own_stream_alone(gen: sd.Generator) -> None:
    mine = gen.stream(PROMPT, max_tokens=30, seed=1)
    thread, results = in_thread(lambda: sum(1 for _ in gen.stream(PROMPT, max_tokens=30, seed=1)))
    thread.join()
    assert results == [30]
    assert sum(1 for _ in mine) == 30
    older = gen.stream(PROMPT, max_tokens=ENDLESS, seed=1)
    next(older)
    assert len(gen.generate("x", max_tokens=1).tokens) == 1
    with pytest.raises(sd.Error, match="ended by a newer one"):
        next(older)
    assert list(older) == []


def test_a_bad_request_leaves_the_stream_alone(gen: sd.Generator) -> None:
    stream = gen.stream(PROMPT, max_tokens=20, seed=2)
    pieces = [next(stream)]
    for bad in ({"max_tokens": -1}, {"logit_bias": {10**6: 1.0}}, {"top_k": 2**40}, {"temperature": "hot"}):
        with pytest.raises((ValueError, TypeError)):
            gen.stream("y", **bad)  # type: ignore[arg-type]
    pieces += stream
    assert [piece.token for piece in pieces] == gen.generate(PROMPT, max_tokens=20, seed=2).tokens


@pytest.mark.parametrize("many", [False, True])
def test_another_thread_may_close(many: bool) -> None:
    gen = sd.Generator(n_threads=1, n_ctx=8192, num_draft_tokens=3, max_sequences=2)
    expected = gen.generate(PROMPT, max_tokens=10, seed=1).tokens
    for delay in (0.0, 0.003, 0.05):
        stream = (
            gen.stream_many([PROMPT, "class A:"], max_tokens=ENDLESS)
            if many
            else gen.stream(PROMPT, max_tokens=ENDLESS, seed=1)
        )
        thread, results = in_thread(lambda stream=stream: sum(1 for _ in stream))  # type: ignore[misc]
        time.sleep(delay)
        stream.close()
        thread.join(timeout=20)
        assert not thread.is_alive()
        assert isinstance(results[0], int) and results[0] < ENDLESS, results
        assert gen.generate(PROMPT, max_tokens=10, seed=1).tokens == expected


def test_an_asyncio_task_can_be_cancelled(gen: sd.Generator) -> None:
    async def consume() -> None:
        with gen.stream(PROMPT, max_tokens=ENDLESS, seed=1) as stream:
            while await asyncio.to_thread(next, stream, None) is not None:
                pass

    async def main() -> None:
        for delay in (0.001, 0.01, 0.03):
            task = asyncio.create_task(consume())
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.05)  # the thread returns

    asyncio.run(main())
    assert len(gen.generate(PROMPT, max_tokens=10).tokens) == 10


def test_counters_of_a_run_may_be_asked_for_on_any_thread_those_of_a_generator_are_the_threads_own(
    gen: sd.Generator,
) -> None:
    own = gen.generate(PROMPT, max_tokens=3, seed=2)
    stream = gen.stream(PROMPT, max_tokens=300, seed=1)
    thread, results = in_thread(lambda: (len(list(stream)), gen.stats.tokens, gen.seed))
    seen = []
    while thread.is_alive():
        seen.append(stream.stats.tokens)
    thread.join()
    assert seen == sorted(seen) and 0 <= seen[-1] <= 300
    assert results == [(stream.stats.tokens, 0, 0)]  # that thread has submitted nothing
    assert stream.seed == gen.seed == 1 and stream.stats == gen.stats
    assert own.stats.tokens == 3 and own.seed == 2


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    "work", ["gen.generate('def f', max_tokens=4000)", "[gen.tokenize('x ' * 10**6) for _ in range(99)]"]
)
def test_a_daemon_thread_does_not_disturb_the_end_of_the_program(work: str) -> None:
    program = f"""
        import sys, threading, time, specdec_native as sd
        gen = sd.Generator(n_threads=1, n_ctx=8192)
        threading.Thread(target=lambda: {work}, daemon=True).start()
        time.sleep(0.1)
        sys.exit(3)
    """
    for _ in range(3):
        ended = run_program(program)
        assert (ended.returncode, ended.stderr) == (3, "")


def test_the_thread_that_ends_the_program_may_still_call() -> None:
    """In an exit handler that runs after the module's own, and in a __del__ after that; a daemon thread works
    meanwhile."""
    ended = run_program("""
        import atexit, os, sys, threading, time
        atexit.register(lambda: show())
        import specdec_native as sd

        class Late:
            gen, write = sd.Generator(n_threads=1), os.write

            def __del__(self):
                tokens = self.gen.generate("def f", max_tokens=5).tokens
                self.write(1, b"%d %d" % (len(self.gen.tokenize("def f")), len(tokens)))

        late = Late()  # dies with its module, after all exit handlers
        gen = sd.Generator(n_threads=1)

        def show():
            print(gen.tokenize("def f"), gen.generate("def f", max_tokens=5, temperature=0).tokens, flush=True)

        show()
        busy = sd.Generator(n_threads=1, n_ctx=8192)
        # Not a lambda: its globals would keep the module alive.
        threading.Thread(target=busy.generate, args=("def f",), kwargs={"max_tokens": 4000}, daemon=True).start()
        time.sleep(0.1)
        sys.exit(3)
    """)
    assert (ended.returncode, ended.stderr) == (3, "")
    before, after, late = ended.stdout.splitlines()
    assert before == after
    assert late.split()[1] == "5"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_a_signal_handler_may_call_the_running_generator() -> None:
    """It runs on the thread that waits for a piece: its request waits for the running one, which goes on."""
    gen = sd.Generator(n_threads=1, n_ctx=2048)
    expected = gen.generate(PROMPT, max_tokens=20, temperature=0).tokens
    from_handler: list[list[int]] = []

    class Enough(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        from_handler.append(gen.generate(PROMPT, max_tokens=20, temperature=0).tokens)
        raise Enough

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Enough):
            gen.generate("x = 1\n" * 400, max_tokens=800)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert from_handler == [expected]
    assert gen.generate(PROMPT, max_tokens=20, temperature=0).tokens == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_is_told_to_make_its_own() -> None:
    ended = run_program("""
        import os, sys, specdec_native as sd
        gen = sd.Generator(n_threads=2)
        expected = gen.generate("def f", max_tokens=5, temperature=0).text
        if os.fork() == 0:
            try:
                gen.generate("def f", max_tokens=5)
            except sd.Error as error:
                print(error)
            print(sd.Generator(n_threads=2).generate("def f", max_tokens=5, temperature=0).text == expected, flush=True)
            os._exit(0)
        os.wait()
        print(gen.generate("def f", max_tokens=5, temperature=0).text == expected)
    """)
    assert ended.returncode == 0, ended.stderr
    message, child, parent = ended.stdout.splitlines()
    assert "before the process was forked; create one in each process" in message
    assert (child, parent) == ("True", "True")
