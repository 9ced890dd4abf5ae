"""Iterators over a Generator's output: the pieces of one request, the events of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, TypeVar

from . import _core
from ._chat import Answer, AssistantMessage
from ._log import publish
from ._options import Request, StreamOptions, prompt_and_options
from ._results import Event, Piece, Stats

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._generator import Generator


T = TypeVar("T")


class _Turn(Iterator[T]):
    """One run of a Generator. It ends when it finishes, is closed, or is replaced by a newer run on the same Generator."""

    _what: ClassVar[str]

    def __init__(self, generator: Generator) -> None:
        self._generator: Generator | None = generator
        self._number = generator._core.turn

    def __iter__(self) -> Self:
        return self

    def _is_current(self) -> bool:
        engine = None if self._generator is None else self._generator._engine  # None: closed
        return engine is not None and engine.turn == self._number

    def _current(self) -> Generator:
        """The Generator. Raises StopIteration if this run has ended, Error if a newer run ended it."""
        if self._generator is None:
            raise StopIteration
        if not self._is_current():
            closed = self._generator._engine is None
            self._generator = None
            if closed:
                raise _core.Error("this Generator is closed")
            raise _core.Error(f"{self._what} ended by a newer one on the same Generator")
        return self._generator

    def close(self) -> None:
        """End the run. Delivered tokens stay in the cache; closing twice is harmless.

        Any thread may call this; a thread that waits for the next item then gets the end of the iteration.
        """
        try:
            if self._generator is not None and self._is_current():
                self._generator._core.stop()
        finally:
            self._generator = None
            publish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Stream(_Turn[Piece]):
    """Iterator over the pieces of one request; a context manager. Closing or dropping it ends the generation early.

    A new request on the same Generator ends this one: continuing the iteration then raises `Error`.
    """

    _what = "this stream was"

    def __next__(self) -> Piece:
        generator = self._current()
        try:
            piece = generator._core.next()
        except BaseException:
            self.close()
            raise
        if piece is None:
            self.close()
            raise StopIteration
        return Piece._make(piece)


class ChatStream(Stream):
    """Iterator over the pieces of the answer to a conversation; a context manager, as Stream."""

    def __init__(self, generator: Generator, answer: Answer) -> None:
        super().__init__(generator)
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
        """The pieces so far, taken apart: content, reasoning and tool calls. Also after the end."""
        return self._answer.message("".join(self._text), self._is_whole)


class EventStream(_Turn[Event]):
    """Iterator over the events of many requests; a context manager. Closing or dropping it ends all of them.

    A new request on the same Generator ends these: continuing the iteration then raises `Error`.
    """

    _what = "these requests were"

    def __init__(
        self,
        generator: Generator,
        requests: Iterable[str | Sequence[int] | Request],
        options: StreamOptions,
    ) -> None:
        super().__init__(generator)
        self._requests = iter(requests)
        self._options = options
        self._rejected: list[Event] = []
        self._index_of: dict[int, int] = {}  # the engine's id -> index of the request
        self._cancelled: set[int] = set()  # indices of requests that were not submitted yet
        self._next_index = 0

    def __next__(self) -> Event:
        generator = self._current()
        try:
            self._submit(generator)
            if self._rejected:
                return self._rejected.pop(0)
            event = generator._core.next_event()
        except BaseException:
            self.close()
            raise
        if event is None:
            self.close()
            raise StopIteration
        identifier, seed, verification, piece, error, stats = event
        index = self._index_of[identifier]
        if stats is not None:
            del self._index_of[identifier]
        return Event(
            index,
            None if piece is None else Piece(*piece),
            error,
            None if stats is None else Stats(**stats),
            seed,
            verification,
        )

    def _submit(self, generator: Generator) -> None:
        """Keeps as many requests waiting as there are slots. Once all slots are taken it takes one request at a time, because
        `requests` may block."""
        while len(self._index_of) + len(self._rejected) < 2 * generator.max_sequences:
            waits = len(self._index_of) >= generator.max_sequences
            try:
                request = next(self._requests)
            except StopIteration:
                return
            index = self._next_index
            self._next_index += 1
            if index in self._cancelled:
                continue
            try:
                prompt, options = prompt_and_options(request, self._options, index)
                identifier = generator._core.submit(prompt, **options)
            except (ValueError, TypeError, _core.Error) as error:
                self._rejected.append(Event(index, None, error, Stats(), None, None))
            else:
                self._index_of[identifier] = index
            if waits:
                return

    def cancel(self, index: int) -> None:
        """End request `index`: it yields no further events. Does nothing if it has finished."""
        if index >= self._next_index:
            self._cancelled.add(index)
        self._rejected = [event for event in self._rejected if event.index != index]
        for identifier, other in list(self._index_of.items()):
            if other == index and self._generator is not None and self._is_current():
                self._generator._core.cancel(identifier)
                del self._index_of[identifier]
