"""llama.cpp's log as Python's: the logger "specdec_native"."""

from __future__ import annotations

import logging

from . import _core

_logger = logging.getLogger("specdec_native")
_logger.addHandler(logging.NullHandler())  # as libraries do: silent unless the application configures logging


def publish() -> None:
    """Logs what was logged natively since the last call, on this thread; called during a load and at the end of
    other calls."""
    for level, line in _core.take_log():
        _logger.log(level, "%s", line)
