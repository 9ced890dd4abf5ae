"""Generator.submit and the async methods: requests of many threads and tasks, each with the output that it has
alone."""

from __future__ import annotations

import asyncio
import gc
import os
import pathlib
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest
from tests import threads

import specdec_native as sd

PROMPTS = ["import os\n", "class Stack:\n    def push", "def bfs(graph, start):", "try:\n    import", "x = [", "# The"]
LONG = "import os\n" * 300
ENDLESS = {"max_tokens": 3000, "seed": 5, "temperature": 1.2, "logit_bias": {0: -float("inf")}}


def roomy(**options: int) -> sd.Generator:
    """With a context that requests do not fill while a test runs."""
    with pytest.warns(RuntimeWarning, match="trained for"):
        return sd.Generator(n_ctx=8192, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def gen() -> Iterator[sd.Generator]:
    with roomy(max_sequences=3, n_threads=2) as generator:
        yield generator


@pytest.fixture(scope="module")
def alone() -> dict[str, sd.Completion]:
    generator = sd.Generator(n_threads=2)
    return {prompt: generator.generate(prompt, max_tokens=24, seed=7) for prompt in PROMPTS}


def wait_until_idle(gen: sd.Generator) -> None:
    """Streams are refused while submitted requests run."""
    deadline = time.monotonic() + 20
    while True:
        try:
            gen.generate("a", max_tokens=1)
        except sd.Error as error:
            assert "submitted requests" in str(error)
            assert time.monotonic() < deadline, "a request still has its place"
            time.sleep(0.01)
        else:
            return


def test_requests_between_its_turns_do_not_cost_a_conversation_its_prefix() -> None:
    with roomy(max_sequences=2) as gen:
        texts = ["import os\n" + "print(name)\n" * 40, "class Stack:\n" + "    pass\n" * 30]
        reads = []
        for _ in range(4):
            for i, text in enumerate(texts):
                handle = gen.submit(text, max_tokens=6, seed=1)
                texts[i] += handle.text() + "\n"
                reads.append(handle.stats.prompt_tokens - handle.stats.prompt_cached_tokens)
        assert min(reads[:2]) > 50 and max(reads[2:]) < 20


def test_many_threads_get_what_each_request_gives_alone(gen: sd.Generator, alone: dict[str, sd.Completion]) -> None:
    wrong: list[object] = []

    def user(number: int) -> None:
        for i in range(6):
            prompt = PROMPTS[(number + i) % len(PROMPTS)]
            handle = gen.submit(prompt, max_tokens=24, seed=7)
            streamed = "".join(piece.text for piece in handle)
            result = handle.result()
            expected = alone[prompt]
            same = [piece[:2] + piece[3:] for piece in result.pieces] == [
                piece[:2] + piece[3:] for piece in expected.pieces
            ]
            if (
                streamed != expected.text
                or not same
                or not handle.done
                or result.seed != 7
                or handle.text() != streamed
            ):
                wrong.append((prompt, result))

    users = [threading.Thread(target=user, args=(number,)) for number in range(5)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    assert not wrong


def test_cancelled_and_failed_requests_do_not_hurt_the_others(
    gen: sd.Generator, alone: dict[str, sd.Completion]
) -> None:
    endless = [gen.submit(LONG, **ENDLESS) for _ in range(4)]
    handles = [gen.submit(prompt, max_tokens=24, seed=7) for prompt in PROMPTS]
    next(iter(endless[0]))
    for handle in endless:
        handle.cancel()
        handle.cancel()
    for prompt, handle in zip(PROMPTS, handles, strict=True):
        assert handle.text() == alone[prompt].text
    for handle in endless:
        pieces = list(handle)
        assert handle.done and isinstance(handle.error, sd.Cancelled)
        assert handle.stats.tokens == len(pieces)
        with pytest.raises(sd.Cancelled, match="cancelled"):
            handle.result()
    wait_until_idle(gen)


def test_bad_requests_are_rejected_at_once(gen: sd.Generator, alone: dict[str, sd.Completion]) -> None:
    handle = gen.submit(PROMPTS[0], max_tokens=24, seed=7)
    with pytest.raises(ValueError, match="temperature"):
        gen.submit("a", temperature=-1)
    with pytest.raises(TypeError, match="prompt"):
        gen.submit(5)  # type: ignore[arg-type]
    with pytest.raises(sd.ContextFull):
        gen.submit("import os\n" * 5000)
    with pytest.raises(TypeError, match="messages"):
        gen.submit_chat(5)  # type: ignore[arg-type]
    assert handle.text() == alone[PROMPTS[0]].text
    assert gen.submit("a", max_tokens=0).result().tokens == []


def test_a_dropped_handle_frees_its_place(gen: sd.Generator) -> None:
    handle = gen.submit("import os\n", **ENDLESS)
    next(iter(handle))
    del handle
    gc.collect()
    with gen.submit("import os\n", **ENDLESS) as closed:
        next(iter(closed))
    wait_until_idle(gen)
    assert isinstance(closed.error, sd.Cancelled)


def test_streams_and_submitted_requests_run_together(gen: sd.Generator) -> None:
    stream = gen.stream("import os\n", max_tokens=20, seed=1)
    pieces = [next(stream)]
    handle = gen.submit("import os\n", max_tokens=20, seed=1)
    text = handle.text()
    pieces += stream
    assert "".join(piece.text for piece in pieces) == text
    running = gen.submit("import os\n", **ENDLESS)
    assert gen.generate("import os\n", max_tokens=20, seed=1).text == text
    assert not running.done
    running.cancel()


@pytest.mark.filterwarnings("ignore:a context of")
@pytest.mark.parametrize("draft", [None, "suffix", "stdlib-draft-f16.gguf", "stdlib-head-f16.gguf"])
def test_no_prefix_is_lost_when_running_requests_move(draft: str | None, target_path: pathlib.Path) -> None:
    """They move to adjacent slots when others end; all slots are full."""
    source = target_path.with_name(draft) if draft and draft.endswith(".gguf") else draft
    rng = random.Random(3)
    with (
        sd.Generator(target_path, source, n_ctx=1024, max_sequences=3) as gen,
        sd.Generator(target_path, source, n_ctx=1024) as alone,
    ):
        texts = [f"import os\n\n\ndef {name}(folder):\n" + "    print(folder)\n" * 8 for name in "abc"]
        for turn in range(6):
            lengths = [2, 9, 24]
            rng.shuffle(lengths)
            handles = [gen.submit(text, max_tokens=n, temperature=0) for text, n in zip(texts, lengths, strict=True)]
            for i, (handle, length) in enumerate(zip(handles, lengths, strict=True)):
                done = handle.result()
                assert done.text == alone.generate(texts[i], max_tokens=length, temperature=0).text
                read = done.stats.prompt_tokens - done.stats.prompt_cached_tokens
                assert turn == 0 or read < 20, (turn, i, lengths)
                texts[i] += done.text + f"\n# {turn}\n"


def test_a_cancelled_request_does_not_delay_the_next_call() -> None:
    with roomy(max_sequences=1, n_threads=1) as gen:
        for _ in range(20):
            gen.submit("import os\n", **ENDLESS).cancel()
            assert len(gen.generate("import os\n", max_tokens=2).tokens) == 2


def test_a_prefilled_prompt_is_not_read_again(gen: sd.Generator) -> None:
    prompt = "import os\nimport sys\n" * 5
    expected = gen.generate(prompt, max_tokens=8, temperature=0).text
    gen.generate("something else", max_tokens=4)
    count = gen.prefill(prompt)
    assert count == len(gen.tokenize(prompt))
    done = gen.generate(prompt, max_tokens=8, temperature=0)
    assert done.text == expected and done.stats.prompt_cached_tokens == count - 1


def test_the_queue_is_bounded() -> None:
    with roomy(max_sequences=1, max_queue_size=1, n_threads=1) as gen:
        running, waiting = gen.submit("a", **ENDLESS), gen.submit("import os\n", max_tokens=4, seed=1)
        with pytest.raises(sd.QueueFull, match="2 requests"):
            gen.submit("b")
        running.cancel()
        assert len(waiting.result().tokens) == 4
        assert len(gen.submit("b", max_tokens=4).result().tokens) == 4


@threads.none_left()
def test_closing_ends_every_request_and_joins() -> None:
    gen = roomy(max_sequences=2, n_threads=1)
    handles = [gen.submit(LONG, **ENDLESS) for _ in range(5)]
    readers = [threading.Thread(target=list, args=(handle,)) for handle in handles]
    for reader in readers:
        reader.start()
    gen.close()
    for reader in readers:
        reader.join(timeout=20)
    for handle in handles:
        with pytest.raises(sd.Cancelled, match="closed"):
            handle.result()
    with pytest.raises(sd.Error, match="closed"):
        gen.submit("a")


def test_async_methods_give_what_each_request_gives_alone(gen: sd.Generator, alone: dict[str, sd.Completion]) -> None:
    async def main() -> None:
        results = await asyncio.gather(*(gen.agenerate(prompt, max_tokens=24, seed=7) for prompt in PROMPTS * 3))
        assert [result.text for result in results] == [alone[prompt].text for prompt in PROMPTS * 3]
        pieces = [piece async for piece in gen.astream(PROMPTS[1], max_tokens=24, seed=7)]
        assert "".join(piece.text for piece in pieces) == alone[PROMPTS[1]].text
        with pytest.raises(TypeError, match="messages"):
            await gen.achat(5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="top_p"):
            await gen.agenerate("a", top_p=3)

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_request(gen: sd.Generator, alone: dict[str, sd.Completion]) -> None:
    async def main() -> None:
        endless = [asyncio.create_task(gen.agenerate("import os\n", **ENDLESS)) for _ in range(5)]
        other = asyncio.create_task(gen.agenerate(PROMPTS[2], max_tokens=24, seed=7))
        await asyncio.sleep(0.05)
        for task in endless:
            task.cancel()
        assert (await other).text == alone[PROMPTS[2]].text
        assert all(
            isinstance(result, asyncio.CancelledError)
            for result in await asyncio.gather(*endless, return_exceptions=True)
        )
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(gen.agenerate("import os\n", **ENDLESS), timeout=0.05)
        stream = gen.astream("import os\n", **ENDLESS)
        async for _ in stream:
            break
        await stream.aclose()
        assert [piece async for piece in stream] == []
        await asyncio.to_thread(wait_until_idle, gen)

    asyncio.run(main())


def test_a_request_that_was_left_does_not_hold_up_the_next_call() -> None:
    """`ENDLESS` takes seconds; the next call begins after the pass that runs."""
    gen = roomy(n_threads=1)

    def is_quick() -> bool:
        begin = time.perf_counter()
        gen.generate("import os\n", max_tokens=2)
        return time.perf_counter() - begin < 0.5 * whole

    begin = time.perf_counter()
    gen.generate("import os\n", **ENDLESS)
    whole = time.perf_counter() - begin

    async def main() -> None:
        async for _ in gen.astream("import os\n", **ENDLESS):
            break
        assert is_quick()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(gen.astream("import os\n", **ENDLESS).__anext__(), 0)
        assert is_quick()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(gen.agenerate("import os\n", **ENDLESS), timeout=0.05)
        assert is_quick()

    asyncio.run(main())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("wait", ["handle.text()", "list(handle)"])
def test_ctrl_c_while_a_request_is_waited_for_cancels_it(wait: str) -> None:
    ended = run(f"""
        import os, signal, threading
        import specdec_native as sd
        gen = sd.Generator(n_ctx=8192)
        handle = gen.submit("import os\\n", max_tokens=3000, ignore_eos=True)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            {wait}
        except KeyboardInterrupt:
            gen.generate("import os\\n", max_tokens=2)
            print(isinstance(handle.error, sd.Cancelled))
    """)
    assert ended.stdout == "True\n", ended.stderr


def test_the_event_loop_is_not_blocked(gen: sd.Generator) -> None:
    async def main() -> None:
        task = asyncio.create_task(gen.agenerate("import os\n", **(ENDLESS | {"max_tokens": 1000})))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0.001)
            ticks += 1
        assert ticks > 20

    asyncio.run(main())


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("reader", ["pass", "threading.Thread(target=list, args=(handle,), daemon=True).start()"])
def test_python_ends_while_requests_run(reader: str) -> None:
    ended = run(f"""
        import threading, time
        import specdec_native as sd
        gen = sd.Generator(n_threads=2, n_ctx=8192)
        handle = gen.submit("import os\\n", max_tokens=3000, seed=1)
        {reader}
        time.sleep(0.1)
        print("end")
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_gets_an_error_and_ends() -> None:
    ended = run("""
        import os
        import specdec_native as sd
        gen = sd.Generator(n_threads=1, n_ctx=8192)
        handle = gen.submit("import os\\n", max_tokens=3000, seed=1)
        child = os.fork()
        if child == 0:
            for use in (lambda: gen.submit("a"), handle.result):
                try:
                    use()
                except sd.Error as error:
                    assert "forked" in str(error), error
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        handle.cancel()
        print(type(handle.error or sd.Cancelled()).__name__)
    """)
    assert (ended.returncode, ended.stdout) == (0, "Cancelled\n"), ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_do_not_disturb_a_running_request() -> None:
    """Children end as programs do, with everything that is destroyed then; the parent's text is what it is without
    them."""
    ended = run("""
        import os, sys, threading
        import specdec_native as sd
        gen = sd.Generator(n_threads=2, n_ctx=8192, max_sequences=2)
        alone = gen.submit("import os\\n", max_tokens=400, seed=1).text()
        results = []
        read = lambda: results.append(gen.submit("import os\\n", max_tokens=400, seed=1).text())
        reader = threading.Thread(target=read)
        reader.start()
        children = []
        for number in range(8):
            child = os.fork()
            if child == 0:
                sys.exit(10 + number)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        reader.join()
        print(codes == list(range(10, 18)), results == [alone])
    """)
    assert (ended.returncode, ended.stdout) == (0, "True True\n"), ended.stderr
