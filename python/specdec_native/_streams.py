"""Iterators over a Generator's output: the pieces of one request, the events of many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

from . import _core
from ._chat import Answer, AssistantMessage
from ._log import publish
from ._options import AnyRequest, JsonSchema, request_of
from ._requests import OneRequest
from ._results import Event, Piece, Stats, VerificationMode

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._generator import Generator


T = TypeVar("T")


class Run(Iterator[T]):
    """An iterator over one or several requests. It ends when they have finished, when it is closed, or when its thread
    begins a newer run on the same Generator."""

    _what: ClassVar[str]

    def __init__(self, generator: Generator) -> None:
        self._generator: Generator | None = generator  # None: ended
        self._ended_by: str | None = None  # what ended it early, for the next reader

    def __iter__(self) -> Self:
        return self

    def _cancel(self) -> None:
        raise NotImplementedError

    def _check(self) -> Generator:
        """The Generator. Raises StopIteration if this run has ended, Error if something else ended it."""
        if self._ended_by is not None:
            reason, self._ended_by = self._ended_by, None
            raise _core.Error(reason)
        if self._generator is None:
            raise StopIteration
        if self._generator.closed:
            self.close()
            raise _core.Error("this Generator is closed")
        return self._generator

    def _raise(self, error: Exception) -> NoReturn:
        """Raises the error that ended a request, or ends the iteration if this run was closed meanwhile."""
        if isinstance(error, _core.Cancelled):
            self._check()
        self.close()
        raise error

    def supersede(self) -> None:
        """Called when a newer run of the same thread ends this one."""
        if self._generator is not None:
            self._ended_by = f"{self._what} ended by a newer one on the same Generator"
            self.close()

    def close(self) -> None:
        """End the run. Delivered tokens stay in the cache; closing twice is harmless.

        Any thread may call this; a thread that waits for the next item then gets the end of the iteration.
        """
        if self._generator is not None:
            self._generator = None
            self._cancel()
            publish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Stream(OneRequest, Run[Piece]):
    """Iterator over the pieces of one request; a context manager. Closing or dropping it ends the generation early.

    The engine does not wait for the reader: it generates while you handle a piece. A newer stream of the same thread on
    the same Generator ends this one: continuing the iteration then raises `Error`.
    """

    _what = "this stream was"

    def __init__(self, generator: Generator, request: _core.RequestHandle) -> None:
        super().__init__(generator)
        self._request = request
        self._index = 0

    def _cancel(self) -> None:
        self._request.cancel()

    def __next__(self) -> Piece:
        self._check()
        try:
            piece = self._request.wait(self._index)
        except BaseException:
            self.close()
            raise
        if piece is not None:
            self._index += 1
            return Piece._make(piece)
        error = self._request.error
        if error is not None:
            self._raise(error)
        self.close()
        raise StopIteration


class ChatStream(Stream):
    """Iterator over the pieces of the answer to a conversation; a context manager like Stream."""

    def __init__(self, generator: Generator, request: _core.RequestHandle, answer: Answer) -> None:
        super().__init__(generator, request)
        self._answer = answer
        self._text: list[str] = []
        self._is_whole = False

    def __next__(self) -> Piece:
        piece = super().__next__()
        self._text.append(piece.text)
        self._is_whole = piece.finish_reason == "stop"
        return piece

    @property
    def message(self) -> AssistantMessage:
        """The answer so far: content, reasoning and tool calls. Available also after the end."""
        return self._answer.message("".join(self._text), self._is_whole)


Form = tuple[Answer | None, JsonSchema | None]  # how a request's text is read: as an answer; as JSON


class _Running:
    """A request of an EventStream: its handle, and how many of its pieces were taken."""

    def __init__(self, request: _core.RequestHandle) -> None:
        self.request = request
        self.num_taken = 0


class EventStream(Run[Event]):
    """Iterator over the events of many requests; a context manager. Closing or dropping it ends all of them.

    A newer run of the same thread on the same Generator ends these: continuing the iteration then raises `Error`.
    """

    _what = "these requests were"

    def __init__(
        self,
        generator: Generator,
        requests: Iterable[AnyRequest],
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(generator)
        self._requests = iter(requests)
        self._options = options
        self._news = _core.News()
        self._events: deque[Event] = deque()  # ready to be yielded
        self._running: dict[int, _Running] = {}  # by the request's index
        self._cancelled: set[int] = set()  # indices of requests that were not submitted yet
        self._next_index = 0
        self._num_ends = 0  # last events among the ready ones
        self._forms: dict[int, Form] = {}  # by the index of a request whose last event was not yielded
        self._last_form: Form = (None, None)

    def _cancel(self) -> None:
        for running in self._running.values():
            running.request.cancel()
        self._running.clear()

    def __next__(self) -> Event:
        try:
            while True:
                self._submit(self._check())
                if self._events:
                    event = self._events.popleft()
                    if event.stats is not None:
                        self._num_ends -= 1
                        self._last_form = self._forms.pop(event.index, (None, None))
                    return event
                if not self._running:
                    self.close()
                    raise StopIteration
                for index in self._news.take():
                    self._take(index)
        except BaseException:
            self.close()
            raise

    def form_of_last(self) -> Form:
        """Internal: of the request whose last event was yielded last."""
        return self._last_form

    def _take(self, index: int) -> None:
        """Turns the new pieces of a request into events."""
        running = self._running.get(index)
        if running is None:
            return
        request = running.request
        is_done = request.done  # asked before the pieces: none come after it
        verification = cast(VerificationMode, request.verification)
        pieces: list[Piece] = []
        while (piece := request.peek(running.num_taken + len(pieces))) is not None:
            pieces.append(Piece._make(piece))
        running.num_taken += len(pieces)
        self._events += [Event(index, piece, None, None, request.seed, verification) for piece in pieces]
        has_last = bool(pieces) and pieces[-1].finish_reason is not None  # it may have come since then
        if not is_done and not has_last:
            return
        del self._running[index]
        error, stats = request.error, Stats(**request.stats())
        if isinstance(error, _core.Cancelled):
            self._raise(error)
        last = self._events.pop().piece if pieces and error is None else None
        self._append_last(Event(index, last, error, stats, request.seed, verification))

    def _append_last(self, event: Event) -> None:
        self._events.append(event)
        self._num_ends += 1

    def _submit(self, generator: Generator) -> None:
        """Keeps as many requests waiting as there are slots. While all slots are taken, it takes one request at a time,
        because `requests` may block."""
        while len(self._running) + self._num_ends < 2 * generator.max_sequences:
            waits = len(self._running) >= generator.max_sequences
            try:
                request = next(self._requests)
            except StopIteration:
                return
            index = self._next_index
            self._next_index += 1
            if index in self._cancelled:
                continue
            try:
                kind, prompt, options = request_of(request, self._options, index)
                if kind == "messages":
                    prompt = generator.chat_prompt(prompt, options)
                    self._forms[index] = (Answer(prompt), options.get("json_schema"))
                    handle = generator.submit_native(prompt, {})
                else:
                    self._forms[index] = (None, options.get("json_schema"))
                    handle = generator.submit_native(prompt, options)
            except (ValueError, TypeError, _core.Error) as error:
                self._append_last(Event(index, None, error, Stats(), None, None))
                return
            self._running[index] = _Running(handle)
            handle.watch(self._news, index)
            if waits or self._events:
                return

    def cancel(self, index: int) -> None:
        """End request `index`: it yields no further events. Does nothing if it has finished."""
        if index >= self._next_index:
            self._cancelled.add(index)
        self._events = deque(event for event in self._events if event.index != index)
        self._forms.pop(index, None)
        self._num_ends = sum(event.stats is not None for event in self._events)
        running = self._running.pop(index, None)
        if running is not None:
            running.request.cancel()
