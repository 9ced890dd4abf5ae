"""Passes llama.cpp's log to Python's logging: the logger "specdec_native"."""

from __future__ import annotations

import logging

from . import _core

_logger = logging.getLogger("specdec_native")
_logger.addHandler(logging.NullHandler())  # libraries stay silent unless the application configures logging


def publish() -> None:
    """Logs, on this thread, what llama.cpp has logged since the last call. Called while models load and at the end of
    other calls. All lines are DEBUG, errors too: what went wrong is said by exceptions, and a cancelled pass is an
    error to llama.cpp."""
    for _, line in _core.take_log():
        _logger.debug("%s", line)
