"""Handles of submitted requests, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from . import _core
from ._chat import Answer, AssistantMessage
from ._log import publish
from ._requests import Cancellable, OneRequest
from ._results import (
    ChatCompletion,
    ChoiceScore,
    Completion,
    Piece,
    Score,
    chat_completion_of,
    completion_of,
    score_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

    from ._generator import Generator
    from ._options import JsonSchema


class RequestHandle(OneRequest, Cancellable):
    """A request that runs together with others (`Generator.submit`). Any number of threads may use it.

    Iterating yields its pieces, from the first one each time, and waits for those that are still to come; it raises the
    error that ended the request, or simply ends if the request was cancelled. Dropping the handle cancels the request;
    so does leaving it as a context manager, and Ctrl-C (KeyboardInterrupt) while it is waited for.
    """

    def __init__(self, generator: Generator, request: _core.RequestHandle, schema: JsonSchema | None = None) -> None:
        self._generator = generator  # keeps the models alive as long as their requests
        self._request = request
        self._schema = schema

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'done' if self.done else 'not done'}>"

    def __iter__(self) -> Iterator[Piece]:
        for index in itertools.count():
            with self._cancelled_by_interrupts():
                piece = self._request.wait(index)
            if piece is None:
                break
            yield Piece._make(piece)
        if self.error is not None and not isinstance(self.error, _core.Cancelled):
            raise self.error

    def result(self) -> Completion:
        """Wait for the end and return the whole output. Raises what ended the request early (`Cancelled` after
        `cancel`)."""
        with self._cancelled_by_interrupts():
            self._request.wait_for_end()
        return self._completion()

    @contextlib.contextmanager
    def _cancelled_by_interrupts(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.cancel()
            raise

    async def aresult(self) -> Completion:
        """`result` for asyncio."""
        async for _ in self:
            pass
        return self._completion()

    def _completion(self) -> Completion:
        publish()
        if self.error is not None:
            raise self.error
        pieces: list[Piece] = []
        while (piece := self._request.peek(len(pieces))) is not None:
            pieces.append(Piece._make(piece))
        return completion_of(pieces, self.stats, self.seed, self.verification, schema=self._schema)

    def text(self) -> str:
        """The text of `result`."""
        return self.result().text

    def score(self) -> Score:
        """Wait for the end of a request of `Generator.submit_score` and return its score. Raises as `result` does;
        ValueError if the request has no score."""
        self.result()
        score = self._request.prompt_score()
        if score is None:
            raise ValueError("this request has no scores; use Generator.submit_score")
        return score_of(*score)

    def label_logprobs(self) -> list[float]:
        """Internal: of the scored tokens of a request that has ended."""
        score = self._request.prompt_score()
        return [] if score is None else score[1]

    def cancel(self) -> None:
        """End the request and free its slot; its output so far stays readable. Does not wait; harmless after the
        end."""
        self._request.cancel()

    @property
    def done(self) -> bool:
        """Whether the request has ended: its output is complete, or it was cancelled, or it failed."""
        return self._request.done

    @property
    def error(self) -> Exception | None:
        """What ended the request early (`Cancelled` after `cancel` and after `Generator.close`); None: nothing so
        far."""
        return cast("Exception | None", self._request.error)

    @property
    def prompt_progress(self) -> tuple[int, int]:
        """The number of prompt tokens that are read, and of all; cached tokens count as read."""
        return self._request.prompt_progress

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Like `__iter__`, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        index = 0
        with _news.sent_to(lambda: loop.call_soon_threadsafe(news.set)) as number:
            self._request.watch(_news.changed, number)
            while True:
                is_done = self.done  # asked before the pieces: none come after it
                while (piece := self._request.peek(index)) is not None:
                    yield Piece._make(piece)
                    index += 1
                if is_done:
                    break
                await news.wait()
                news.clear()
        if self.error is not None and not isinstance(self.error, _core.Cancelled):
            raise self.error


class AsyncStream(AsyncIterator[Piece]):
    """Iterator over the pieces of one request for asyncio (`Generator.astream`). Closing or dropping it, or leaving the
    iteration, cancels the request at once; an async generator would do so only when the event loop runs again."""

    def __init__(self, submit: Callable[[], RequestHandle]) -> None:
        self._submit = submit
        self._handle: RequestHandle | None = None
        self._pieces: AsyncIterator[Piece] | None = None
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        if self._is_closed:
            raise StopAsyncIteration
        try:
            if self._pieces is None:
                self._handle = await asyncio.to_thread(self._submit)
                self._pieces = self._handle.__aiter__()
            return await self._pieces.__anext__()
        except BaseException:
            self._close()
            raise

    async def aclose(self) -> None:
        """End the request; harmless after its end."""
        self._close()

    def _close(self) -> None:
        self._is_closed = True
        if self._handle is not None:
            self._handle.cancel()

    def __del__(self) -> None:
        self._close()


class ChatHandle(RequestHandle):
    """The handle of the answer to a conversation (`Generator.submit_chat`)."""

    def __init__(
        self,
        generator: Generator,
        request: _core.RequestHandle,
        answer: Answer,
        schema: JsonSchema | None = None,
    ) -> None:
        super().__init__(generator, request, schema)
        self._answer = answer

    def result(self) -> ChatCompletion:
        """Wait for the end and return the whole answer. Raises what ended the request early (`Cancelled` after
        `cancel`)."""
        return chat_completion_of(super().result(), self._answer)

    async def aresult(self) -> ChatCompletion:
        """`result` for asyncio."""
        return chat_completion_of(await super().aresult(), self._answer)

    @property
    def message(self) -> AssistantMessage:
        """The answer so far: content, reasoning and tool calls."""
        text: list[str] = []
        reason = None
        while (piece := self._request.peek(len(text))) is not None:
            text.append(piece[1])
            reason = piece[4]
        return self._answer.message("".join(text), reason == "stop")


class ScoredChoices(Iterator[RequestHandle]):
    """The requests that score the choices after a prompt: one that reads the prompt, then one per choice. They may be
    ended in any order."""

    def __init__(
        self, generator: Generator, engine: _core.Generator, prompt: list[int], choices: Sequence[str | Sequence[int]]
    ) -> None:
        self._choices = list(choices)
        self._labels = [engine.label_tokens(choice) for choice in choices]
        for choice, label in zip(self._choices, self._labels, strict=True):
            if not label:
                raise ValueError(f"the choice {choice!r} has no tokens; give at least one character")
        self._scores: list[RequestHandle] = []
        self._requests = self._submitted(generator, engine, prompt)

    def _submitted(self, generator: Generator, engine: _core.Generator, prompt: list[int]) -> Iterator[RequestHandle]:
        yield RequestHandle(generator, engine.submit_reading(prompt))
        for label in self._labels:
            self._scores.append(RequestHandle(generator, engine.submit_label(prompt, label)))
            yield self._scores[-1]

    def __next__(self) -> RequestHandle:
        return next(self._requests)

    def results(self) -> list[ChoiceScore]:
        logprobs = [handle.label_logprobs() for handle in self._scores]
        totals = [sum(one) for one in logprobs]
        shares = _core.shares(totals)
        return [
            ChoiceScore(choice if isinstance(choice, str) else list(choice), tokens, each, total, share)
            for choice, tokens, each, total, share in zip(
                self._choices, self._labels, logprobs, totals, shares, strict=True
            )
        ]


class EmbeddingHandle(Cancellable):
    """Embeddings that a thread of their own computes (`Generator.submit_embed`). Dropping the handle, leaving it as a
    context manager, or Ctrl-C while it is waited for ends the work."""

    def __init__(self, engine: _core.Generator, texts: list[str | Sequence[int]]) -> None:
        self._cancellation = _core.Cancellation()
        self._rows: concurrent.futures.Future[npt.NDArray[np.float32]] = concurrent.futures.Future()
        arguments = (engine, texts, self._cancellation, self._rows)
        threading.Thread(target=_embed, args=arguments, name="specdec_native embed", daemon=True).start()

    def result(self) -> npt.NDArray[np.float32]:
        """Wait for the rows, as `Generator.embed` returns them. Raises what ended the work (`Cancelled` after
        `cancel`)."""
        try:
            return self._rows.result()
        except BaseException:
            self.cancel()
            raise

    async def aresult(self) -> npt.NDArray[np.float32]:
        """`result` for asyncio."""
        try:
            return await asyncio.shield(asyncio.wrap_future(self._rows))
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End the work. Does not wait; harmless after the end."""
        self._cancellation.ask()

    @property
    def done(self) -> bool:
        """Whether the rows are there, or the work has failed or was cancelled."""
        return self._rows.done()

    def __del__(self) -> None:
        self.cancel()


def _embed(
    engine: _core.Generator,
    texts: list[str | Sequence[int]],
    cancellation: _core.Cancellation,
    rows: concurrent.futures.Future[npt.NDArray[np.float32]],
) -> None:
    try:
        result = np.stack([engine.embed(text, cancellation) for text in texts])
    except BaseException as error:
        rows.set_exception(error)
    else:
        rows.set_result(result)


class _News:
    """Tells listeners that their requests have changed. One thread does this for all, so that the threads that run
    models never wait for Python's lock."""

    def __init__(self) -> None:
        self.changed = _core.News()
        self._listeners: dict[int, Callable[[], object]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def sent_to(self, listener: Callable[[], object]) -> Iterator[int]:
        """Yields the number to watch a request with. `listener` is called, on another thread, for every change."""
        with self._lock:
            number = next(self._numbers)
            self._listeners[number] = listener
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="specdec_native news", daemon=True)
                self._thread.start()
        try:
            yield number
        finally:
            with self._lock:
                del self._listeners[number]

    def _run(self) -> None:
        while True:
            changed = self.changed.take()
            with self._lock:
                if not self._listeners:
                    self._thread = None
                    return
                listeners = [self._listeners[number] for number in changed if number in self._listeners]
            for listener in listeners:
                with contextlib.suppress(RuntimeError):  # its event loop is closed
                    listener()


_news = _News()
