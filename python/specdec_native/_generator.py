"""The generator: typed arguments in, pieces of text out. Everything else happens in the native engine."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, cast

from . import _core

if TYPE_CHECKING:
    from typing_extensions import Unpack

FinishReason = Literal["stop", "length", "context"]
Verification = Literal["token", "block", "invariant"]
Drafting = Literal["sampled", "argmax"]

# Beside this file in a wheel; two folders up in a source tree.
_MODEL_FOLDERS = [pathlib.Path(__file__).parent / "models", pathlib.Path(__file__).parents[2] / "models"]


class Piece(NamedTuple):  # made of the engine's tuple in one step: cold after a cycle, every line of Python costs microseconds
    """One token of the output.

    `text` is what became certain with this token: it may be empty (an incomplete UTF-8 character, the possible start of a
    stop string) or hold text of earlier tokens. `logprob` is the natural log of the target's raw probability of the token,
    before any transform. `finish_reason` is set on the last piece: "stop" (end of generation or a stop string), "length"
    (max_tokens) or "context" (no room left).
    """

    token: int
    text: str
    from_draft: bool
    logprob: float
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class Stats:
    """What a text cost, and what the draft was worth. Times in seconds, of passes that other texts shared too."""

    prompt_tokens: int = 0
    prompt_cached_tokens: int = 0  #: of these, found in the cache of an earlier call or of another text
    prompt_seconds: float = 0.0
    tokens: int = 0  #: produced
    drafted: int = 0
    accepted: int = 0
    draft_calls: int = 0  #: passes of the draft model
    target_calls: int = 0
    draft_seconds: float = 0.0
    target_seconds: float = 0.0
    sampling_seconds: float = 0.0
    seconds: float = 0.0  #: all cycles, the three above included

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
    """A whole text. `finish_reason` is None for max_tokens=0 and for a text that failed (`generate_many`): `error` says how,
    and the rest is what there was before."""

    text: str
    tokens: list[int]
    pieces: list[Piece]
    finish_reason: FinishReason | None
    stats: Stats
    seed: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to one of several texts: a piece of it, or its end by an `error`. Its last event has its `stats`."""

    index: int  #: of its request
    piece: Piece | None
    error: Exception | None
    stats: Stats | None
    seed: int | None  #: None for a request that could not be used


class _Arguments(TypedDict):
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


class Stream(Iterator[Piece]):
    """Iterator over the pieces of one text; a context manager. Closing it, or dropping it, ends the text early.

    A new text on the same Generator ends this one: going on with it raises `Error`.
    """

    def __init__(self, generator: Generator, number: int) -> None:
        self._generator: Generator | None = generator
        self._number = number

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Piece:
        if self._generator is None:
            raise StopIteration
        if self._generator._running != self._number:
            self._generator = None
            raise _core.Error("this stream was ended by a newer one on the same Generator")
        try:
            piece = self._generator._core.next()
        except BaseException:
            self.close()
            raise
        if piece is None:
            self.close()
            raise StopIteration
        return Piece._make(piece)

    def close(self) -> None:
        """End the text here. What was delivered stays in the cache; closing twice is harmless."""
        generator, self._generator = self._generator, None
        if generator is not None and generator._running == self._number:
            generator._core.stop()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class EventStream(Iterator[Event]):
    """Iterator over the events of many texts; a context manager. Closing it, or dropping it, ends all of them.

    A new text on the same Generator ends these: going on with it raises `Error`.
    """

    def __init__(
        self,
        generator: Generator,
        number: int,
        requests: Iterable[str | Sequence[int] | Request],
        options: StreamOptions,
    ) -> None:
        self._generator: Generator | None = generator
        self._number = number
        self._requests = enumerate(requests)
        self._options = options
        self._refused: list[Event] = []
        self._index_of: dict[int, int] = {}  # the engine's id of a text -> index of its request
        self._cancelled: set[int] = set()  # indices of requests that were not submitted yet
        self._next_index = 0

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        if self._generator is None:
            raise StopIteration
        if self._generator._running != self._number:
            self._generator = None
            raise _core.Error("these texts were ended by a newer one on the same Generator")
        try:
            self._submit(self._generator)
            if self._refused:
                return self._refused.pop(0)
            event = self._generator._core.next_event()
        except BaseException:
            self.close()
            raise
        if event is None:
            self.close()
            raise StopIteration
        identifier, seed, piece, error, stats = event
        index = self._index_of[identifier]
        if stats is not None:
            del self._index_of[identifier]
        return Event(
            index,
            None if piece is None else Piece(*piece),
            None if error is None else _core.ModelError(error),
            None if stats is None else Stats(**stats),
            seed,
        )

    def _submit(self, generator: Generator) -> None:
        """Keeps as many texts waiting as run, and takes no more from `requests` before they are needed."""
        while len(self._index_of) + len(self._refused) < 2 * generator.max_sequences:
            index, request = next(self._requests, (-1, ""))
            if index < 0:
                return
            self._next_index = index + 1
            if index in self._cancelled:
                continue
            try:
                identifier = generator._core.submit(**_arguments_of(request, self._options, index))
            except (ValueError, TypeError, _core.Error) as error:
                self._refused.append(Event(index, None, error, Stats(), None))
            else:
                self._index_of[identifier] = index

    def cancel(self, index: int) -> None:
        """End the text of request `index`: there will be no further event of it. One that is over is left alone."""
        if index >= self._next_index:
            self._cancelled.add(index)
        self._refused = [event for event in self._refused if event.index != index]
        for identifier, other in list(self._index_of.items()):
            if other == index and self._generator is not None and self._generator._running == self._number:
                self._generator._core.cancel(identifier)
                del self._index_of[identifier]

    def close(self) -> None:
        """End all texts here; closing twice is harmless."""
        generator, self._generator = self._generator, None
        if generator is not None and generator._running == self._number:
            generator._core.stop()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Generator:
    """A target model and a draft that speeds it up without changing what it says.

    target: path of a GGUF file; None for the bundled pair (a demonstration: small models of Python source).
    draft: path of a GGUF file with the same vocabulary; "ngram" drafts from the text itself (prompt lookup); None decodes
        without a draft (with target=None: the bundled draft).
    n_ctx: tokens of context; None for what the target was trained with, at most 4096.
    n_threads: None for one per physical core.
    n_batch: tokens per pass while a prompt is read, 64 or more.
    rpc: "host:port" of machines on which `specdec rpc-server` runs: the target's layers go there (docs/distributed.md).
    n_gpu_layers: layers, the last ones, that go there, or on a GPU where llama.cpp was built with one; -1 for all. None: all
        with rpc, else 0.
    mmap: False reads the weights into memory of their own, in huge pages where the system has them: passes as fast or
        faster, for a slower start and memory that no other process shares.
    kv_type: "f16", or "q8_0" for caches of 53 % of the bytes (heads must be multiples of 32 wide).
    max_sequences: texts that run at once (`stream_many`, `generate_many`), 1 to 256. Each has a context of n_ctx tokens,
        whose memory is taken here.
    num_draft_tokens: drafts per cycle (K), 0 to 63; 0 decodes without a draft. "auto" decides place by place, by measured
        costs and learnt acceptance, and decodes without a draft where none pays.

    One thread at a time; several Generators can run in several threads. Raises ModelError for a file that cannot be used,
    VocabularyMismatch for a draft of another family, ValueError for a bad argument.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | None = None,
        draft: str | os.PathLike[str] | None = None,
        *,
        n_ctx: int | None = None,
        n_threads: int | None = None,
        n_batch: int = 512,
        n_gpu_layers: int | None = None,
        rpc: str | Sequence[str] = (),
        mmap: bool = True,
        kv_type: str = "f16",
        max_sequences: int = 1,
        num_draft_tokens: int | Literal["auto"] = "auto",
    ) -> None:
        if target is None:
            bundled_target, bundled_draft = _core.find_bundled_pair([str(folder) for folder in _MODEL_FOLDERS])
            target, draft = bundled_target, bundled_draft if draft is None else draft
        self._running = 0  # number of the stream that may go on
        self._core = _core.Generator(
            target=os.fspath(target),
            draft="" if draft is None else os.fspath(draft),
            n_ctx=0 if n_ctx is None else _positive("n_ctx", n_ctx),
            n_threads=0 if n_threads is None else _positive("n_threads", n_threads),
            n_batch=n_batch,
            n_gpu_layers=n_gpu_layers,
            rpc=[rpc] if isinstance(rpc, str) else list(rpc),
            mmap=mmap,
            kv_type=kv_type,
            max_sequences=max_sequences,
            num_draft_tokens=_draft_tokens(num_draft_tokens),
        )

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 224,
        temperature: float = 0.8,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        repeat_penalty: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        penalty_last_n: int = 64,
        logit_bias: Mapping[int, float] | None = None,
        stop: str | Sequence[str] = (),
        seed: int | None = None,
        num_draft_tokens: int | Literal["auto"] | None = None,
        verification: Verification = "block",
        drafting: Drafting = "sampled",
    ) -> Stream:
        """Generate a text piece by piece. The prompt is read before this returns.

        The distribution of the text is the target's own under the same transforms, whatever the draft proposes.

        prompt: text, or token ids. A text may contain special tokens written out.
        max_tokens: exactly so many tokens unless the text ends before; 0 produces nothing.
        temperature: 0 is greedy. top_k 0, top_p 1, min_p 0 and repeat_penalty 1 are off. Order as in llama.cpp: logit bias,
            penalties, top-k, top-p, min-p, temperature.
        logit_bias: token id -> added to its logit; -inf bans the token.
        stop: strings that end the text; not part of it.
        seed: 0 to 2^64 - 1; the same seed, prompt and num_draft_tokens give the same text ("auto" depends on timing: give a
            number to repeat a sampled text). None: a random one (see `Generator.seed`).
        num_draft_tokens: None for the Generator's own.
        verification: how drafts are judged (docs/losslessness.md). "block": together, which accepts the most, Sun et al.
            2403.10444. "token": one by one, Chen et al. 2302.01318 and Leviathan et al. 2211.17192. "invariant": a seed
            gives the same text with any draft, any num_draft_tokens or none, which accepts less, Daliri et al. 2408.07978.
        drafting: what a draft model proposes, tokens drawn from its distribution ("sampled") or its most likely ("argmax").

        Raises ValueError for a bad argument, ContextFull for a prompt that does not fit. Ctrl-C raises KeyboardInterrupt;
        the Generator stays usable.
        """
        options: StreamOptions = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repeat_penalty": repeat_penalty,
            "frequency_penalty": frequency_penalty,
            "presence_penalty": presence_penalty,
            "penalty_last_n": penalty_last_n,
            "logit_bias": logit_bias,
            "stop": stop,
            "seed": seed,
            "num_draft_tokens": num_draft_tokens,
            "verification": verification,
            "drafting": drafting,
        }
        arguments = _arguments(prompt, options)
        self._running += 1
        self._core.start(**arguments)
        return Stream(self, self._running)

    def generate(self, prompt: str | Sequence[int], **options: Unpack[StreamOptions]) -> Completion:
        """The whole text at once; arguments, their defaults and errors as for `stream`."""
        with self.stream(prompt, **options) as stream:
            pieces = list(stream)
        return Completion(
            text="".join(piece.text for piece in pieces),
            tokens=[piece.token for piece in pieces],
            pieces=pieces,
            finish_reason=pieces[-1].finish_reason if pieces else None,
            stats=self.stats,
            seed=self.seed,
        )

    def stream_many(self, requests: Iterable[str | Sequence[int] | Request], **options: Unpack[StreamOptions]) -> EventStream:
        """Generate many texts at once: up to `max_sequences` run together, in one pass of the target per cycle for all.

        requests: prompts, or `Request` dicts: a prompt with options of its own. They are taken from the iterable as they are
            needed, so it may be endless. A prompt's beginning that was read for another text is not read again.
        options: as for `stream`, for every request that does not say otherwise; `seed` is that of the first request, the next
            has seed + 1 and so on.

        Events come as they happen; pieces of one text are in order. A text is bit for bit the one that `stream` makes of the
        same request alone, under the same conditions as there (seed, num_draft_tokens).

        A request that cannot be used (a bad argument, a prompt that does not fit) is an event with its `error`; the others are
        untouched. Ctrl-C raises KeyboardInterrupt and ends all; the Generator stays usable.
        """
        _check_names(options)
        self._running += 1
        self._core.stop()
        return EventStream(self, self._running, requests, options)

    def generate_many(
        self, requests: Iterable[str | Sequence[int] | Request], **options: Unpack[StreamOptions]
    ) -> list[Completion]:
        """The whole texts of all requests, in order; arguments as for `stream_many`. Failures are in `Completion.error`."""
        pieces: dict[int, list[Piece]] = {}
        ends: dict[int, Event] = {}
        with self.stream_many(requests, **options) as events:
            for event in events:
                text = pieces.setdefault(event.index, [])
                if event.piece is not None:
                    text.append(event.piece)
                if event.stats is not None:
                    ends[event.index] = event
        return [
            Completion(
                text="".join(piece.text for piece in pieces[index]),
                tokens=[piece.token for piece in pieces[index]],
                pieces=pieces[index],
                finish_reason=pieces[index][-1].finish_reason if pieces[index] else None,
                stats=end.stats or Stats(),
                seed=end.seed or 0,
                error=end.error,
            )
            for index, end in sorted(ends.items())
        ]

    @property
    def stats(self) -> Stats:
        """Counters of the running or last text."""
        return Stats(**self._core.stats())

    @property
    def seed(self) -> int:
        """The seed of the running or last text."""
        return self._core.seed

    @property
    def max_sequences(self) -> int:
        """Texts that can run at once."""
        return self._core.max_sequences

    @property
    def n_ctx(self) -> int:
        """Tokens of context, of each text."""
        return self._core.n_ctx

    @property
    def n_threads(self) -> int:
        return self._core.n_threads

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a prompt, beginning with the model's BOS token if it uses one."""
        return self._core.tokenize(text)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of these tokens; bytes that are not UTF-8 become U+FFFD."""
        return self._core.detokenize(list(tokens))


def _arguments(prompt: str | Sequence[int], options: StreamOptions) -> _Arguments:
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
        "seed": _seed(options["seed"]),
        "num_draft_tokens": None if num_draft_tokens is None else _draft_tokens(num_draft_tokens),
        "max_tokens": options["max_tokens"],
        "verification": options["verification"],
        "drafting": options["drafting"],
    }


def _arguments_of(request: str | Sequence[int] | Request, common: StreamOptions, index: int) -> _Arguments:
    """Of request `index` of many: its own options, then the common ones, then the defaults of `stream`."""
    own: StreamOptions = {}
    prompt: str | Sequence[int]
    if isinstance(request, Mapping):
        if "prompt" not in request:
            raise ValueError('a request has no "prompt"')
        prompt = request["prompt"]
        own = cast(StreamOptions, {name: value for name, value in request.items() if name != "prompt"})
        _check_names(own)
    else:
        prompt = request
    options = cast(StreamOptions, {**(Generator.stream.__kwdefaults__ or {}), **common, **own})
    seed = _seed(common.get("seed"))
    if "seed" not in own and seed is not None:
        options["seed"] = (seed + index) % 2**64
    return _arguments(prompt, options)


def _check_names(options: StreamOptions) -> None:
    unknown = sorted(set(options) - set(StreamOptions.__annotations__))
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; options are {', '.join(sorted(StreamOptions.__annotations__))}")


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} is {value}; it must be 1 or more (None: chosen for you)")
    return value


def _draft_tokens(value: int | Literal["auto"]) -> int:
    if value == "auto":
        return _core.AUTO_DRAFT_TOKENS
    if isinstance(value, str) or not 0 <= value <= _core.MAX_DRAFT_TOKENS:
        raise ValueError(f'num_draft_tokens is {value!r}; it must be "auto" or between 0 and {_core.MAX_DRAFT_TOKENS}')
    return value


def _seed(seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}; it must be between 0 and 2**64 - 1")
    return seed
