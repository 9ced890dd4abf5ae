"""Iterators over what a Generator makes: the pieces of one text, the events of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, TypeVar

from . import _core
from ._options import Request, StreamOptions, arguments_of
from ._results import Event, Piece, Stats

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._generator import Generator


T = TypeVar("T")


class _Turn(Iterator[T]):
    """What a Generator is at, until it is over, closed, or ended by something newer on the same Generator."""

    _what: ClassVar[str]

    def __init__(self, generator: Generator) -> None:
        self._generator: Generator | None = generator
        self._number = generator._core.turn

    def __iter__(self) -> Self:
        return self

    def _is_current(self) -> bool:
        return self._generator is not None and self._generator._core.turn == self._number

    def _current(self) -> Generator:
        """The Generator. Raises StopIteration when this is over, Error when something newer ended it."""
        if self._generator is None:
            raise StopIteration
        if not self._is_current():
            self._generator = None
            raise _core.Error(f"{self._what} ended by a newer one on the same Generator")
        return self._generator

    def close(self) -> None:
        """End it here. What was delivered stays in the cache; closing twice is harmless.

        Any thread may: one that waits for the next item then comes to the end.
        """
        try:
            if self._generator is not None and self._is_current():
                self._generator._core.stop()
        finally:
            self._generator = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Stream(_Turn[Piece]):
    """Iterator over the pieces of one text; a context manager. Closing it, or dropping it, ends the text early.

    A new text on the same Generator ends this one: going on with it raises `Error`.
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


class EventStream(_Turn[Event]):
    """Iterator over the events of many texts; a context manager. Closing it, or dropping it, ends all of them.

    A new text on the same Generator ends these: going on with it raises `Error`.
    """

    _what = "these texts were"

    def __init__(
        self,
        generator: Generator,
        requests: Iterable[str | Sequence[int] | Request],
        options: StreamOptions,
    ) -> None:
        super().__init__(generator)
        self._requests = iter(requests)
        self._options = options
        self._refused: list[Event] = []
        self._index_of: dict[int, int] = {}  # the engine's id of a text -> index of its request
        self._cancelled: set[int] = set()  # indices of requests that were not submitted yet
        self._next_index = 0

    def __next__(self) -> Event:
        generator = self._current()
        try:
            self._submit(generator)
            if self._refused:
                return self._refused.pop(0)
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
        """Keeps as many texts waiting as run, and takes no more from `requests` before they are needed: `requests` may make
        this wait. So once all places are taken it is one at a time."""
        while len(self._index_of) + len(self._refused) < 2 * generator.max_sequences:
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
                identifier = generator._core.submit(**arguments_of(request, self._options, index))
            except (ValueError, TypeError, _core.Error) as error:
                self._refused.append(Event(index, None, error, Stats(), None, None))
            else:
                self._index_of[identifier] = index
            if waits:
                return

    def cancel(self, index: int) -> None:
        """End the text of request `index`: there will be no further event of it. One that is over is left alone."""
        if index >= self._next_index:
            self._cancelled.add(index)
        self._refused = [event for event in self._refused if event.index != index]
        for identifier, other in list(self._index_of.items()):
            if other == index and self._generator is not None and self._is_current():
                self._generator._core.cancel(identifier)
                del self._index_of[identifier]
