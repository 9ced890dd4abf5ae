"""What streams and handles have in common."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, cast

from . import _core
from ._results import Stats, VerificationMode

if TYPE_CHECKING:
    from typing_extensions import Self


class OneRequest:
    """What is known of a request while it runs and afterwards."""

    _request: _core.RequestHandle

    @property
    def stats(self) -> Stats:
        """Counters and times of the request so far, also of pieces that were not read."""
        return Stats(**self._request.stats())

    @property
    def seed(self) -> int:
        """The request's seed: the one that was given, or a random one."""
        return self._request.seed

    @property
    def verification(self) -> VerificationMode:
        """The verification mode in use; never "auto"."""
        return cast(VerificationMode, self._request.verification)


class Cancellable:
    """A context manager that ends its work when it is left."""

    def cancel(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
