"""The options of a request. Their defaults and valid values are in the engine's table (`_core.request_options()`)."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from . import _core
from ._chat import Tool, ToolChoice

Verification = Literal["auto", "token", "block", "invariant"]
Drafting = Literal["sampled", "argmax"]


class MakesJsonSchema(Protocol):
    """A `pydantic.TypeAdapter`."""

    def json_schema(self) -> dict[str, Any]: ...


# The schema as a JSON string or an object, or an object that makes one: a pydantic class (`model_json_schema`) or a
# TypeAdapter.
JsonSchema: TypeAlias = str | Mapping[str, Any] | type[Any] | MakesJsonSchema


class StreamOptions(TypedDict, total=False):
    """The keyword arguments of `Generator.stream`."""

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    frequency_penalty: float
    presence_penalty: float
    penalty_last_n: int
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: str | Sequence[str] | None
    xtc_probability: float
    xtc_threshold: float
    logit_bias: Mapping[int, float] | None
    allowed_token_ids: Sequence[int] | None
    bad_words: str | Sequence[str] | None
    grammar: str | None
    json_schema: JsonSchema | None
    strict_schema: bool
    regex: str | None
    structural_tag: str | Mapping[str, Any] | None
    reasoning_budget: int
    stop: str | Sequence[str] | None
    min_tokens: int
    ignore_eos: bool
    stop_token_ids: Sequence[int] | None
    prediction: str
    seed: int | None
    top_logprobs: int
    num_draft_tokens: int | Literal["auto"] | None
    verification: Verification
    drafting: Drafting


class ChatOptions(StreamOptions, total=False):
    """The keyword arguments of `Generator.stream_chat` and related methods."""

    tools: Sequence[Tool] | None
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    continue_final_message: bool | None


class _Prompt(TypedDict):
    prompt: str | Sequence[int]


class Request(_Prompt, StreamOptions, total=False):
    """A prompt with its own options, for `Generator.stream_many` and `generate_many`."""


def draft_of(sources: Sequence[str | os.PathLike[str]]) -> tuple[str | os.PathLike[str], bool]:
    """The draft and the `suffix` of a Generator for a list of draft sources: a model, or "suffix", or both."""
    models = [source for source in sources if source != "suffix"]
    if not sources or len(models) > 1 or "ngram" in models:
        raise ValueError(f'draft is {list(sources)}; a list holds the path of one model, "suffix", or both')
    return (models[0] if models else "suffix"), "suffix" in sources


def prompt_and_options(
    request: str | Sequence[int] | Request, common: StreamOptions, index: int
) -> tuple[str | Sequence[int], dict[str, Any]]:
    """The prompt and options of request `index` of a batch. Its own options override the common ones; a common seed is
    the seed of request 0, and the seeds of the others are derived from it."""
    own: dict[str, Any] = {"prompt": request}
    if isinstance(request, Mapping):
        if "prompt" not in request:
            raise ValueError('a request has no "prompt"')
        own = dict(request)
    options: dict[str, Any] = {**common, **own}
    seed = common.get("seed")
    if "seed" not in own and seed is not None:
        options["seed"] = _core.derived_seed(operator.index(seed), index)
    return options.pop("prompt"), options
