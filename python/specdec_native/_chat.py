"""Conversations as the engine takes them: in JSON, because chat templates read whatever fields they know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
Tool = Mapping[str, Any]


def _listed(name: str, values: Sequence[Mapping[str, Any]]) -> str:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Sequence):
        raise TypeError(f"{name} is {type(values).__name__}; it must be a list of dicts")
    for i, value in enumerate(values):
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}[{i}] is {type(value).__name__}; it must be a dict")
    try:
        text = json.dumps([dict(value) for value in values], ensure_ascii=False, allow_nan=False)
        text.encode()  # UnicodeEncodeError, a ValueError, for a lone surrogate
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must hold JSON values only: {error}") from error
    return text


def conversation(messages: Sequence[Message], tools: Sequence[Tool] | None) -> tuple[str, str]:
    """messages and tools in JSON. Raises TypeError or ValueError that names the argument."""
    return _listed("messages", messages), "null" if not tools else _listed("tools", tools)
