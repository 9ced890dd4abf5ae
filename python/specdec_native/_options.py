"""The options of a Generator and of a request. Their types are here; their defaults, valid values and number are in the
engine's tables (`_core.generator_options()`, `_core.request_options()`), from which signatures are made."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

from . import _core
from ._chat import AssistantMessage, Message, Tool, ToolChoice
from ._pictures import Image
from ._results import VerificationMode

Verification = Literal["auto", VerificationMode]
Drafting = Literal["sampled", "argmax"]


class MakesJsonSchema(Protocol):
    """A `pydantic.TypeAdapter`."""

    def json_schema(self) -> dict[str, Any]: ...


# The schema as a JSON string or an object, or an object that makes one: a pydantic class (`model_json_schema`) or a
# TypeAdapter.
JsonSchema: TypeAlias = str | Mapping[str, Any] | type[Any] | MakesJsonSchema


class GeneratorOptions(TypedDict, total=False):
    """The keyword arguments of `Generator` besides target and draft; None, for any of them, is the default."""

    suffix: bool | None
    draft_corpus: str | os.PathLike[str] | None
    n_ctx: int | None
    draft_window: int | None
    n_threads: int | None
    n_batch: int | None
    n_gpu_layers: int | Literal["all", "auto"] | None
    devices: str | Sequence[str] | None
    n_gpu_layers_draft: int | Literal["all", "auto"] | None
    devices_draft: str | Sequence[str] | None
    n_cpu_moe: int | None
    n_cpu_moe_draft: int | None
    tensor_split: str | None
    override_tensor: str | Sequence[str] | None
    override_tensor_draft: str | Sequence[str] | None
    exact: bool | None
    rpc: str | Sequence[str] | None
    mmap: bool | None
    repack: bool | None
    tile_cache: str | os.PathLike[str] | None
    memory: str | None
    draft_weights: str | None
    chat_template: str | None
    json_tool_calls: str | None
    kv_type: str | None
    max_sequences: int | None
    max_queue_size: int | None
    num_draft_tokens: int | Literal["auto"] | None
    draft_tree: int | Literal["auto"] | None
    mmproj: str | os.PathLike[str] | None
    auto_cache: bool | None


class StreamOptions(TypedDict, total=False):
    """The keyword arguments of `Generator.stream`; None, for any of them, is the default."""

    max_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repeat_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    penalty_last_n: int | None
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    dry_penalty_last_n: int | None
    dry_sequence_breakers: str | Sequence[str] | None
    xtc_probability: float | None
    xtc_threshold: float | None
    logit_bias: Mapping[int, float] | None
    allowed_token_ids: Sequence[int] | None
    bad_words: str | Sequence[str] | None
    grammar: str | None
    json_schema: JsonSchema | None
    strict_schema: bool | None
    regex: str | None
    choice: str | Sequence[str] | None
    structural_tag: str | Mapping[str, Any] | None
    reasoning_budget: int | None
    stop: str | Sequence[str] | None
    min_tokens: int | None
    ignore_eos: bool | None
    stop_token_ids: Sequence[int] | None
    prediction: str | None
    images: Image | Sequence[Image] | None
    seed: int | None
    top_logprobs: int | None
    num_draft_tokens: int | Literal["auto"] | None
    verification: Verification | None
    drafting: Drafting | None


class ChatOptions(StreamOptions, total=False):
    """The keyword arguments of `Generator.stream_chat` and related methods."""

    tools: Sequence[Tool] | None
    tool_choice: ToolChoice | None
    parallel_tool_calls: bool | None
    continue_final_message: bool | None


class Request(ChatOptions, total=False):
    """A prompt or a conversation with its own options, for `Generator.stream_many` and `generate_many`."""

    prompt: str | Sequence[int]
    messages: Sequence[Message]


# What `generate_many` runs: a prompt (a string or token ids), a conversation (a list of messages), or a dict of either
# with options.
AnyRequest: TypeAlias = str | Sequence[int] | Sequence[Message] | Request

CHAT_OPTIONS = ("tools", "tool_choice", "parallel_tool_calls", "continue_final_message")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def lists_options(
    table: Mapping[str, Mapping[str, Any]], options: type[Any], **other_defaults: Any
) -> Callable[[_Function], _Function]:
    """Puts the options, with the defaults of the engine's table, into a function's signature in place of `**options`,
    where `help` and editors look."""

    def default(name: str) -> object:
        value = other_defaults[name] if name in other_defaults else table[name]["default"] if name in table else None
        return None if value in ([], {}, "") else value  # as empty lists and texts are written in Python

    def add(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        listed = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default(name), annotation=_written(kind))
            for name, kind in options.__annotations__.items()
            if name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
        return function

    return add


def _written(kind: Any) -> str:
    """A type as it stands in the source."""
    return str(getattr(kind, "__forward_arg__", kind))


def draft_of(sources: Sequence[str | os.PathLike[str]]) -> tuple[str | os.PathLike[str], bool]:
    """The draft and the `suffix` of a Generator for a list of draft sources: a model, or "suffix", or both."""
    models = [source for source in sources if source != "suffix"]
    if not sources or len(models) > 1 or "ngram" in models:
        raise ValueError(f'draft is {list(sources)}; a list holds the path of one model, "suffix", or both')
    return (models[0] if models else "suffix"), "suffix" in sources


def common_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Raises the error that concerns all requests of a batch."""
    _core.check_request_options(
        **{name: value for name, value in options.items() if name not in (*CHAT_OPTIONS, "images")}
    )
    return dict(options)


def request_of(request: object, common: Mapping[str, Any], index: int) -> tuple[str, Any, dict[str, Any]]:
    """Request `index` of a batch: "prompt" or "messages", what it holds, and its options. Its own options override the
    common ones; a common seed is the seed of request 0, and the seeds of the others are derived from it."""
    own: dict[str, Any]
    if isinstance(request, Mapping):
        own = {name: value for name, value in request.items() if value is not None}
        if "role" in own:
            raise ValueError('a request is a single message; a conversation is a list of messages: [{"role": ...}]')
        given = [name for name in ("prompt", "messages") if name in own]
        if len(given) != 1:
            raise ValueError('a request must have either a "prompt" or "messages"')
        (kind,) = given
    else:
        kind = "messages" if is_conversation(request) else "prompt"
        own = {kind: request}
    options: dict[str, Any] = {**common, **own}
    seed = common.get("seed")
    if "seed" not in own and seed is not None:
        options["seed"] = _core.derived_seed(operator.index(seed), index)
    if kind == "prompt":
        for name in CHAT_OPTIONS:
            if own.get(name) is not None:
                raise ValueError(f'{name} needs a conversation: give "messages" instead of "prompt"')
            options.pop(name, None)
    return kind, options.pop(kind), options


def is_conversation(prompt: object) -> bool:
    """Whether this is a list of messages, not a string or token ids."""
    if isinstance(prompt, (str, bytes, bytearray, memoryview)) or not isinstance(prompt, Sequence) or not prompt:
        return False
    return isinstance(prompt[0], Mapping | AssistantMessage)
