"""The results of a generation: pieces, completions, statistics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _core
from ._chat import Answer, AssistantMessage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._options import JsonSchema

FinishReason = Literal["stop", "length", "context", "tool_calls"]  # the last one: only of a ChatCompletion
VerificationMode = Literal["token", "block", "invariant"]
DraftOrigin = Literal["model", "suffix", "ngram", "constraint", "prediction"]


class Piece(
    NamedTuple
):  # made from the engine's tuple in one step: with cold caches, each line of Python takes microseconds
    """One token of the output.

    `text` is the text that became final with this token: it may be empty (an incomplete UTF-8 character, the possible
    start of a stop string) or include text of earlier tokens. `draft_source` says what proposed the token: the draft
    model ("model"), a copy of text ("suffix", "ngram", "prediction"), or a constraint that allows no other token
    ("constraint"); None: it was sampled from the target. `logprob` is the natural log of the target's probability of
    the token, before any transform. `finish_reason` is set on the last piece: "stop" (end of generation or a stop
    string), "length" (max_tokens) or "context" (the context is full). `top_logprobs` has the most likely tokens at this
    place as (token, logprob), as many as the request asked for, most likely first; of equal ones the lower id first.
    """

    token: int
    text: str
    draft_source: DraftOrigin | None
    logprob: float
    finish_reason: FinishReason | None
    top_logprobs: tuple[tuple[int, float], ...]

    @property
    def from_draft(self) -> bool:
        """Whether the token is an accepted draft."""
        return self.draft_source is not None


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters and times of one request. Times are in seconds; a pass shared with other requests counts in full for
    each.

    `tokens` is the number of pieces of the output; `accepted` is how many of them are `from_draft`. Accepted drafts
    that were cut off by a stop string count only in `drafted`. The counters of a stream that was closed early include
    pieces that were not read.
    """

    prompt_tokens: int = 0
    prompt_cached_tokens: int = 0  #: prompt tokens found in the cache, from an earlier call or another request
    prompt_seconds: float = 0.0
    tokens: int = 0  #: of the output
    drafted: int = 0  #: proposed by the draft and scored by the target
    accepted: int = 0  #: tokens of the output that were drafts
    drafted_copies: int = 0  #: those of `drafted` that were copied from text, not drafted by a model
    accepted_copies: int = 0  #: of `accepted`
    drafted_predicted: int = 0  #: those of `drafted_copies` that were copied from the request's `prediction`
    accepted_predicted: int = 0  #: of `accepted_copies`
    draft_calls: int = 0  #: passes of the draft model
    draft_tokens_read: int = 0  #: tokens that the draft model read: of a long prompt its window, and drafts
    target_calls: int = 0
    draft_seconds: float = 0.0
    target_seconds: float = 0.0
    sampling_seconds: float = 0.0
    seconds: float = 0.0  #: all cycles, including the three times above
    #: Whether drafts are used and what they gain, or why not, from the costs measured so far: a sentence that begins
    #: with "on", "off" or "undecided". A request of `submit` has it only at its end ("" before).
    drafting: str = ""

    @property
    def acceptance_rate(self) -> float:
        """Accepted over drafted tokens; 0 without a draft."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_target_call(self) -> float:
        return self.tokens / self.target_calls if self.target_calls else 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Completion:
    """The whole output of a request. `finish_reason` is None for max_tokens=0 and for a failed request
    (`generate_many`), which has an `error` and the output before the error."""

    text: str
    tokens: list[int] = field(repr=False)
    pieces: list[Piece] = field(repr=False)
    finish_reason: FinishReason | None
    stats: Stats
    seed: int | None  #: None, like verification, for a request that could not run
    verification: VerificationMode | None  #: the mode that ran, never "auto"
    error: Exception | None = None
    schema: JsonSchema | None = field(default=None, repr=False, compare=False)  #: the json_schema that was asked for

    @property
    def parsed(self) -> Any:
        """The output as json_schema describes it: an instance of the pydantic class, the TypeAdapter's result, or for
        other schemas the JSON value. Raises ValueError (pydantic's ValidationError is one) for an output that was cut
        off, and if no schema was given."""
        return _parsed(self.text, self.schema)

    @property
    def ignored_keywords(self) -> list[str]:
        """The keywords that `strict_schema=False` left to you because they were not enforced: their places in the
        schema, as JSON pointers."""
        return [] if self.schema is None else ignored_keywords(self.schema)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values, for logs and files; an `error` becomes its message."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "schema"}
        values["pieces"] = [piece._asdict() for piece in self.pieces]
        values["stats"] = asdict(self.stats)
        values["error"] = None if self.error is None else str(self.error)
        return values

    def to_json(self) -> str:
        """`to_dict` as JSON on one line."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


def ignored_keywords(
    json_schema: JsonSchema | None = None, *, structural_tag: str | Mapping[str, Any] | None = None
) -> list[str]:
    """The places, as JSON pointers, of keywords that cannot be enforced in a schema or in the schemas of a structural
    tag. In a request such a keyword is an error, or with `strict_schema=False` left to you. Raises ValueError for an
    invalid schema."""
    return _core.ignored_keywords(json_schema=json_schema, structural_tag=structural_tag)


def _parsed(text: str, schema: Any) -> Any:
    if schema is None:
        raise ValueError("this output has no json_schema; give one to have it parsed")
    for method in ("model_validate_json", "validate_json"):
        if hasattr(schema, method):
            return getattr(schema, method)(text)
    return json.loads(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletion(Completion):
    """The answer to a conversation. `text` is what the model wrote, `message` is the text parsed. `finish_reason` is
    "tool_calls" if the model ended its answer with tool calls."""

    message: AssistantMessage

    @property
    def parsed(self) -> Any:
        """The content of the message as json_schema describes it (see `Completion.parsed`); None if there are tool
        calls."""
        return None if self.message.tool_calls else _parsed(self.message.content or "", self.schema)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values, with the message in the form of the OpenAI API."""
        return {**super(ChatCompletion, self).to_dict(), "message": self.message.to_dict()}


@dataclass(frozen=True, slots=True)
class Score:
    """The tokens of a text and, for each except the first, the natural log of its probability given the tokens before
    it."""

    tokens: list[int]
    logprobs: list[float | None]  #: of tokens[i]; None for the first
    most_likely: list[int | None]  #: the most likely token in place of tokens[i]; None for the first
    top_logprobs: list[
        tuple[tuple[int, float], ...]
    ]  #: the most likely tokens, as many as asked for (see Piece); () for the first

    @property
    def total(self) -> float:
        """The log-probability of the whole text, given its first token."""
        return sum(logprob for logprob in self.logprobs if logprob is not None)


@dataclass(frozen=True, slots=True)
class ChoiceScore:
    """How likely the target continues a prompt with one of several texts (`Generator.score_choices`)."""

    choice: str | list[int]  #: as it was given
    tokens: list[int]
    logprobs: list[float]  #: of each token, given the prompt and the tokens before it
    logprob: float  #: of the whole choice: their sum
    probability: float  #: the choice's share of the probability of all choices, which sum to 1


def score_of(
    tokens: list[int], logprobs: list[float], most_likely: list[int], top_logprobs: list[tuple[tuple[int, float], ...]]
) -> Score:
    """Adds the elements of the first token, which the engine's lists lack."""
    return Score(tokens, [None, *logprobs], [None, *most_likely], [(), *top_logprobs])


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """Activations of the target's layers for the tokens of a text. A drafting head reads the row of a token and the
    embedding of the next token to predict the token after that."""

    tokens: npt.NDArray[np.int32]  #: [tokens]
    layers: tuple[int, ...]  #: the layers whose inputs the rows are
    rows: npt.NDArray[np.float32] = field(repr=False)  #: [tokens, layers, width]
    #: [tokens, top_logprobs]: the most likely next tokens after each token, most likely first; of equal ones the lower
    #: id first.
    top_tokens: npt.NDArray[np.int32] = field(repr=False)
    top_logprobs: npt.NDArray[np.float32] = field(repr=False)  #: [tokens, top_logprobs], natural logs


def completion_of(
    pieces: list[Piece],
    stats: Stats,
    seed: int | None,
    verification: VerificationMode | None,
    error: Exception | None = None,
    schema: JsonSchema | None = None,
) -> Completion:
    return Completion(
        text="".join(piece.text for piece in pieces),
        tokens=[piece.token for piece in pieces],
        pieces=pieces,
        finish_reason=pieces[-1].finish_reason if pieces else None,
        stats=stats,
        seed=seed,
        verification=verification,
        error=error,
        schema=schema,
    )


def chat_completion_of(completion: Completion, answer: Answer) -> ChatCompletion:
    is_whole = completion.finish_reason == "stop"
    message = answer.message(completion.text, is_whole)
    values = {field.name: getattr(completion, field.name) for field in fields(completion)}
    if is_whole and message.tool_calls:
        values["finish_reason"] = "tool_calls"
    return ChatCompletion(**values, message=message)


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of one of several requests, or the `error` that ended it. The last event of a request has its `stats`."""

    index: int  #: of the request
    piece: Piece | None
    error: Exception | None
    stats: Stats | None
    seed: int | None  #: None, like verification, for a request that could not run
    verification: VerificationMode | None  #: the mode in use, never "auto"
