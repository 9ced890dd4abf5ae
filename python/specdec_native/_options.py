"""What can be asked for: the options of a text, and what the engine makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, cast

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
    stop: str | Sequence[str]
    seed: int | None
    num_draft_tokens: int | Literal["auto"] | None
    verification: Verification
    drafting: Drafting


class _Prompt(TypedDict):
    prompt: str | Sequence[int]


class Request(_Prompt, StreamOptions, total=False):
    """A prompt with options of its own, for `Generator.stream_many` and `generate_many`."""


def arguments(prompt: str | Sequence[int], options: StreamOptions) -> Arguments:
    """What the engine is given; `options` are complete."""
    stop, num_draft_tokens, logit_bias = options["stop"], options["num_draft_tokens"], options["logit_bias"] or {}
    if not isinstance(logit_bias, Mapping):
        raise ValueError(f"logit_bias is {logit_bias!r}; it must map token ids to numbers")
    return {
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "sampling": _core.SamplingParams(
            temperature=options["temperature"],
            top_k=options["top_k"],
            top_p=options["top_p"],
            min_p=options["min_p"],
            repeat_penalty=options["repeat_penalty"],
            frequency_penalty=options["frequency_penalty"],
            presence_penalty=options["presence_penalty"],
            penalty_last_n=options["penalty_last_n"],
            logit_bias={token: bias for token, bias in logit_bias.items()},
        ),
        "stop": [stop] if isinstance(stop, str) else list(stop),
        "seed": checked_seed(options["seed"]),
        "num_draft_tokens": None if num_draft_tokens is None else draft_tokens(num_draft_tokens),
        "max_tokens": options["max_tokens"],
        "verification": options["verification"],
        "drafting": options["drafting"],
    }


def arguments_of(request: str | Sequence[int] | Request, common: StreamOptions, index: int) -> Arguments:
    """Of request `index` of many: its own options, then the common ones, which are complete."""
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


def checked_seed(seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}; it must be between 0 and 2**64 - 1")
    return seed
