"""The options of a request and their conversion to the engine's types."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, SupportsFloat, SupportsIndex, TypedDict, cast

from . import _core

Verification = Literal["auto", "token", "block", "invariant"]
Drafting = Literal["sampled", "argmax"]


class Arguments(TypedDict):
    prompt: str | list[int]
    sampling: _core.SamplingParams
    stop: list[str]
    seed: int | None
    num_draft_tokens: int | None
    max_tokens: int
    verification: str
    drafting: str


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
    logit_bias: Mapping[int, float] | None
    stop: str | Sequence[str] | None
    seed: int | None
    num_draft_tokens: int | Literal["auto"] | None
    verification: Verification
    drafting: Drafting


class _Prompt(TypedDict):
    prompt: str | Sequence[int]


class Request(_Prompt, StreamOptions, total=False):
    """A prompt with its own options, for `Generator.stream_many` and `generate_many`."""


def arguments(prompt: str | Sequence[int], options: StreamOptions) -> Arguments:
    """The engine's arguments; `options` must be complete."""
    num_draft_tokens, seed = options["num_draft_tokens"], options["seed"]
    stop = () if options["stop"] is None else options["stop"]
    logit_bias = {} if options["logit_bias"] is None else options["logit_bias"]
    if not isinstance(logit_bias, Mapping):
        raise TypeError(f"logit_bias is {logit_bias!r}; it must map token ids to numbers")
    return {
        "prompt": checked_text("prompt", prompt) if isinstance(prompt, str) else token_ids("prompt", prompt),
        "sampling": _core.SamplingParams(
            temperature=number("temperature", options["temperature"]),
            top_k=integer("top_k", options["top_k"]),
            top_p=number("top_p", options["top_p"]),
            min_p=number("min_p", options["min_p"]),
            repeat_penalty=number("repeat_penalty", options["repeat_penalty"]),
            frequency_penalty=number("frequency_penalty", options["frequency_penalty"]),
            presence_penalty=number("presence_penalty", options["presence_penalty"]),
            penalty_last_n=integer("penalty_last_n", options["penalty_last_n"]),
            logit_bias={
                integer("a token of logit_bias", token): number(f"logit_bias[{token}]", bias)
                for token, bias in logit_bias.items()
            },
        ),
        "stop": [checked_text("stop", text) for text in ([stop] if isinstance(stop, str) else stop)],
        "seed": None if seed is None else integer("seed", seed, 0, 2**64 - 1),
        "num_draft_tokens": None if num_draft_tokens is None else draft_tokens(num_draft_tokens),
        "max_tokens": integer("max_tokens", options["max_tokens"]),
        "verification": checked_text("verification", options["verification"]),
        "drafting": checked_text("drafting", options["drafting"]),
    }


def arguments_of(request: str | Sequence[int] | Request, common: StreamOptions, index: int) -> Arguments:
    """The engine's arguments for request `index` of many: its own options override the common ones, which are complete."""
    own: StreamOptions = {}
    prompt: str | Sequence[int]
    if isinstance(request, Mapping):
        if "prompt" not in request:
            raise ValueError('a request has no "prompt"')
        prompt = request["prompt"]
        own = cast(StreamOptions, {name: value for name, value in request.items() if name != "prompt"})
        check_names(own)
    else:
        prompt = request
    options: StreamOptions = {**common, **own}
    seed = common["seed"]
    if "seed" not in own and seed is not None:
        options["seed"] = (seed + index) % 2**64
    return arguments(prompt, options)


def check_names(options: StreamOptions) -> None:
    unknown = sorted(set(options) - set(StreamOptions.__annotations__))
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; options are {', '.join(sorted(StreamOptions.__annotations__))}")


def draft_tokens(value: int | Literal["auto"]) -> int:
    if value == "auto":
        return _core.AUTO_DRAFT_TOKENS
    if isinstance(value, str) or not 0 <= value <= _core.MAX_DRAFT_TOKENS:
        raise ValueError(f'num_draft_tokens is {value!r}; it must be "auto" or between 0 and {_core.MAX_DRAFT_TOKENS}')
    return value


# ---- Conversion to the engine's types; the engine checks the valid ranges.


def integer(name: str, value: SupportsIndex, least: int = -(2**31), most: int = 2**31 - 1) -> int:
    try:
        whole = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    if not least <= whole <= most:
        raise ValueError(f"{name} is {whole}; it must be between {least} and {most}")
    return whole


def number(name: str, value: SupportsFloat) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {value!r}; it must be a number") from None


def checked_text(name: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r:.80}; it must be a str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has a lone surrogate at {error.start}, which cannot be encoded as UTF-8") from None
    return value


def token_ids(name: str, tokens: Sequence[int]) -> list[int]:
    if isinstance(tokens, bytes | bytearray | memoryview):
        raise TypeError(f"{name} is {type(tokens).__name__}; it must be a str or token ids: decode it")
    if not isinstance(tokens, Iterable):
        raise TypeError(f"{name} is {tokens!r}; it must be a str or token ids")
    return [integer(f"{name}[{i}]", token) for i, token in enumerate(tokens)]
