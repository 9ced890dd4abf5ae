"""Progress of long calls, shown by the caller's own function or by a tqdm bar in a terminal or a notebook."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any


def _bar(**options: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "IProgress not found")  # a notebook without ipywidgets gets a bar of text
            from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            'progress=True needs tqdm: pip install "specdec_native[progress]", or give a function'
        ) from None
    return tqdm(**options)


class _StepBar:
    """One bar that restarts with every step."""

    def __init__(self) -> None:
        self._bar = _bar(
            desc="loading", total=1.0, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}", leave=False
        )

    def __call__(self, step: str, share: float) -> None:
        self._bar.set_description_str(step, refresh=False)
        self._bar.n = share
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


@contextlib.contextmanager
def of_load(given: bool | Callable[[str, float], object] | None) -> Iterator[Callable[[str, float], object] | None]:
    """The function to call with the step and the share of it that is done."""
    if given is True:
        with contextlib.closing(_StepBar()) as bar:
            yield bar
    else:
        yield given or None


@contextlib.contextmanager
def of_prompt(given: bool | Callable[[int, int], object] | None) -> Iterator[Callable[[int, int], object] | None]:
    """The function to call with the number of tokens read and the number of all tokens."""
    if given is not True:
        yield given or None
        return
    with contextlib.closing(_bar(unit="token")) as bar:

        def show(read: int, total: int) -> None:
            bar.total, bar.n = total, read
            bar.refresh()

        yield show


@contextlib.contextmanager
def of_many(
    given: bool | Callable[[int], object] | None, total: int | None
) -> Iterator[Callable[[int], object] | None]:
    """The function to call with the number of requests that have ended. total: all requests; None: unknown."""
    if given is True:
        with contextlib.closing(_bar(total=total, unit="prompt")) as bar:
            yield bar.update
    else:
        yield given or None
