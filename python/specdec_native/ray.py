"""Text generation over a Ray Data dataset: one engine per actor. Install with `pip install "specdec_native[ray]"`.

>>> import ray
>>> from specdec_native.ray import GenerateText
>>> ds = ray.data.read_json("prompts.jsonl")   # rows with a column "prompt"
>>> ds = ds.map_batches(
...     GenerateText,
...     fn_constructor_kwargs={"target": "t.gguf", "draft": "d.gguf", "n_threads": 4, "sampling": {"max_tokens": 128}},
...     compute=ray.data.ActorPoolStrategy(size=2),
...     num_cpus=4,
...     batch_size=64,
... )
>>> ds.write_parquet("texts")

This module does not import ray: Ray Data only needs a callable from columns to columns.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ._core import ContextFull, request_options, suggestion
from ._generator import Generator
from ._options import ChatOptions, Request, StreamOptions
from ._results import ChatCompletion, Completion

Batch = dict[str, npt.NDArray[Any]]  # column name -> one value per row

OUTPUT_COLUMNS = ("text", "tokens", "finish_reason", "error", "num_tokens", "num_drafted", "num_accepted", "seconds")
MESSAGE_COLUMN = "message"  # an output column of conversations only
# Columns that set an option of their row. Not logit_bias, because Arrow does not preserve mappings in columns.
OPTION_COLUMNS = frozenset(StreamOptions.__annotations__) - {"logit_bias", "images"}
_WHOLE_NUMBERS = frozenset(
    name for name, row in request_options().items() if row["type"] in {"whole", "seed", "draft_tokens"}
)


class GenerateText:
    """A class for `Dataset.map_batches`: continues the prompt of every row, or answers its conversation, and adds the
    results as columns.

    target, draft: GGUF files, paths on the machine of the actor; None: the bundled pair (see `Generator`).
    prompt_column: strings, or lists of token ids. Default: "prompt".
    messages_column: instead of prompts, conversations: lists of {"role": ..., "content": ...}, or JSON strings of such
        lists, which may hold what Arrow's columns cannot (tool calls with different fields). The column "message" then
        has the answers as JSON in the form of the OpenAI API.
    key_column: values that identify rows; None: the prompt column, so that equal prompts get equal outputs.
    sampling: keyword arguments of `Generator.stream` (with messages_column `Generator.stream_chat`, so also tools) for
        all rows. A column with the name of one of those of `stream` (except logit_bias) overrides it in rows where it
        is not null.
    max_sequences: number of rows that run at once in an actor, each with a context of n_ctx tokens.
    prefix: prefix for the names of the new columns, if the dataset already has columns with these names.
    generator: further keyword arguments of `Generator`, such as num_draft_tokens. Set n_threads to the num_cpus of
        map_batches, because an actor does not know about others on its machine.

    The seed of a row is its column "seed", or else is derived from sampling["seed"] (default: 0) and the row's key. On
    processors of one kind, its output therefore does not depend on the actor, the batch or the attempt, except with
    verification "block" or "token" and num_draft_tokens="auto".

    New columns: text, tokens (ids), finish_reason ("stop", "length" or "context"), num_tokens, num_drafted,
    num_accepted, seconds, and error: null, or why this row has no output. A bad row does not affect the others.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | None = None,
        draft: str | os.PathLike[str] | None = None,
        *,
        prompt_column: str | None = None,
        messages_column: str | None = None,
        key_column: str | None = None,
        sampling: ChatOptions | None = None,
        max_sequences: int = 8,
        prefix: str = "",
        **generator: Any,
    ) -> None:
        if prompt_column is not None and messages_column is not None:
            raise ValueError("give only one of prompt_column and messages_column")
        self._has_messages = messages_column is not None
        self._prompt_column = messages_column or prompt_column or "prompt"
        self._key_column = self._prompt_column if key_column is None else key_column
        self._output_columns = (*OUTPUT_COLUMNS, MESSAGE_COLUMN) if self._has_messages else OUTPUT_COLUMNS
        self._sampling: ChatOptions = {**(sampling or {})}
        options = ChatOptions if self._has_messages else StreamOptions
        for name in self._sampling.keys() - options.__annotations__.keys():
            hint = "; it needs messages_column" if name in ChatOptions.__annotations__ else ""
            raise ValueError(
                f"sampling has {name}{hint or suggestion(name, list(options.__annotations__))}; it takes the options "
                f"of Generator.{'stream_chat' if self._has_messages else 'stream'}"
            )
        self._seed: int | None = self._sampling.pop("seed", None)
        self._prefix = prefix
        self._generator = Generator(target, draft, max_sequences=max_sequences, **generator)

    def __call__(self, batch: Batch) -> Batch:
        for column in (self._prompt_column, self._key_column):
            if column not in batch:
                raise ValueError(
                    f'the dataset has no column "{column}", only {", ".join(batch)}; see prompt_column, '
                    "messages_column and key_column"
                )
        taken = [name for name in self._output_columns if self._prefix + name in batch]
        if taken:
            raise ValueError(
                f'the dataset has a column "{self._prefix}{taken[0]}" already; give a prefix for the new ones'
            )
        requests = [self._request(batch, i) for i in range(len(batch[self._prompt_column]))]
        rows = [self._row(completion) for completion in self._generator.generate_many(requests, **self._sampling)]
        columns = zip(*rows, strict=True) if rows else ((),) * len(self._output_columns)
        return batch | {
            self._prefix + name: _column(name, values)
            for name, values in zip(self._output_columns, columns, strict=True)
        }

    def _request(self, batch: Batch, i: int) -> Request:
        options = {name: _value(name, batch[name][i]) for name in OPTION_COLUMNS & batch.keys()}
        request = cast(Request, {name: value for name, value in options.items() if value is not None})
        given = _value("prompt", batch[self._prompt_column][i])
        if self._has_messages:
            request["messages"] = _messages(given)
        else:
            request["prompt"] = given
        if "seed" not in request:
            key = _value("key", batch[self._key_column][i])
            if isinstance(key, list) and self._has_messages:  # the same whatever fields other rows have
                key = json.dumps(_messages(key), sort_keys=True)
            request["seed"] = row_seed(self._seed or 0, key)
        return request

    def _row(self, completion: Completion) -> tuple[Any, ...]:
        row = _row(completion)
        if not self._has_messages:
            return row
        message = completion.message.to_dict() if isinstance(completion, ChatCompletion) else None
        return (*row, None if completion.error is not None else json.dumps(message, ensure_ascii=False))


def row_seed(seed: int, key: Any) -> int:
    """The seed of a row: 64 bits of a hash of the dataset's seed and the row's key, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest(), "little")


def _messages(value: Any) -> Any:
    """A conversation. Rows of a column of structs have all fields that any row has: null ones are not given."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value  # an error of the row, which says what is expected
    if not isinstance(value, list):
        return value
    return [_without_nulls(message) for message in value]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _value(name: str, value: Any) -> Any:
    """A cell as a Python object; None for a null. Columns of whole numbers with nulls arrive as floats."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and (name in _WHOLE_NUMBERS or name == "key") and value.is_integer():
        return int(value)
    return value


def _row(completion: Completion) -> tuple[Any, ...]:
    """The values of OUTPUT_COLUMNS. Raises errors that the row did not cause: a failed model, not enough memory."""
    if completion.error is not None and not isinstance(completion.error, ValueError | TypeError | ContextFull):
        raise completion.error
    if completion.error is not None:
        return (None, [], None, str(completion.error), 0, 0, 0, 0.0)
    stats = completion.stats
    counts = (stats.tokens, stats.drafted, stats.accepted, stats.prompt_seconds + stats.seconds)
    return (completion.text, completion.tokens, completion.finish_reason, None, *counts)


def _column(name: str, values: Iterable[Any]) -> npt.NDArray[Any]:
    if name.startswith("num_"):
        return np.fromiter(values, np.int64)
    if name == "seconds":
        return np.fromiter(values, np.float64)
    cells = list(values)
    column = np.empty(len(cells), object)  # np.array() would turn lists of equal length into a matrix
    column[:] = cells
    return column
