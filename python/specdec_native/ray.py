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
import math
import os
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ._core import ContextFull, request_options
from ._generator import Generator
from ._options import Request, StreamOptions
from ._results import Completion

Batch = dict[str, npt.NDArray[Any]]  # column name -> one value per row

OUTPUT_COLUMNS = ("text", "tokens", "finish_reason", "error", "num_tokens", "num_drafted", "num_accepted", "seconds")
# Columns that set an option of their row. Not logit_bias, because Arrow does not preserve mappings in columns.
OPTION_COLUMNS = frozenset(StreamOptions.__annotations__) - {"logit_bias"}
_WHOLE_NUMBERS = frozenset(
    name for name, row in request_options().items() if row["type"] in {"whole", "seed", "draft_tokens"}
)


class GenerateText:
    """A class for `Dataset.map_batches`: continues the prompt of every row and adds the results as columns.

    target, draft: GGUF files, paths on the machine of the actor; None: the bundled pair (see `Generator`).
    prompt_column: strings, or lists of token ids.
    key_column: values that identify rows; None: the prompt column, so that equal prompts get equal outputs.
    sampling: keyword arguments of `Generator.stream` for all rows. A column with the name of one of them (except
        logit_bias) overrides it in rows where it is not null.
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
        prompt_column: str = "prompt",
        key_column: str | None = None,
        sampling: StreamOptions | None = None,
        max_sequences: int = 8,
        prefix: str = "",
        **generator: Any,
    ) -> None:
        self._prompt_column = prompt_column
        self._key_column = prompt_column if key_column is None else key_column
        self._sampling: StreamOptions = {**(sampling or {})}
        unknown = self._sampling.keys() - StreamOptions.__annotations__
        if unknown:
            raise ValueError(f"sampling has {', '.join(sorted(unknown))}; it takes the options of Generator.stream")
        self._seed: int | None = self._sampling.pop("seed", None)
        self._prefix = prefix
        self._generator = Generator(target, draft, max_sequences=max_sequences, **generator)

    def __call__(self, batch: Batch) -> Batch:
        for column in (self._prompt_column, self._key_column):
            if column not in batch:
                raise ValueError(
                    f'the dataset has no column "{column}", only {", ".join(batch)}; see prompt_column and key_column'
                )
        taken = [name for name in OUTPUT_COLUMNS if self._prefix + name in batch]
        if taken:
            raise ValueError(
                f'the dataset has a column "{self._prefix}{taken[0]}" already; give a prefix for the new ones'
            )
        requests = [self._request(batch, i) for i in range(len(batch[self._prompt_column]))]
        rows = [_row(completion) for completion in self._generator.generate_many(requests, **self._sampling)]
        columns = zip(*rows, strict=True) if rows else ((),) * len(OUTPUT_COLUMNS)
        return batch | {
            self._prefix + name: _column(name, values) for name, values in zip(OUTPUT_COLUMNS, columns, strict=True)
        }

    def _request(self, batch: Batch, i: int) -> Request:
        options = {name: _value(name, batch[name][i]) for name in OPTION_COLUMNS & batch.keys()}
        request = cast(Request, {name: value for name, value in options.items() if value is not None})
        request["prompt"] = _value("prompt", batch[self._prompt_column][i])
        request.setdefault("seed", row_seed(self._seed or 0, _value("key", batch[self._key_column][i])))
        return request


def row_seed(seed: int, key: Any) -> int:
    """The seed of a row: 64 bits of a hash of the dataset's seed and the row's key, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest(), "little")


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
