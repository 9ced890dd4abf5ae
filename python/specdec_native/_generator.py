"""The generator: typed arguments in, pieces of text out. Everything else happens in the native engine."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypedDict

from . import _core

if TYPE_CHECKING:
    from typing_extensions import Unpack

FinishReason = Literal["stop", "length", "context"]
Verification = Literal["token", "block", "invariant"]
Drafting = Literal["sampled", "argmax"]

# Beside this file in a wheel; two folders up in a source tree.
_MODEL_FOLDERS = [pathlib.Path(__file__).parent / "models", pathlib.Path(__file__).parents[2] / "models"]


@dataclass(frozen=True, slots=True)
class Piece:
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
    """What a text cost, and what the draft was worth. Times in seconds."""

    prompt_tokens: int
    prompt_cached_tokens: int  #: of these, found in the cache of an earlier call
    prompt_seconds: float
    tokens: int  #: produced
    drafted: int
    accepted: int
    draft_calls: int  #: passes of the draft model
    target_calls: int
    draft_seconds: float
    target_seconds: float
    sampling_seconds: float
    seconds: float  #: all cycles, the three above included

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
    """A whole text. `finish_reason` is None only for max_tokens=0."""

    text: str
    tokens: list[int]
    pieces: list[Piece]
    finish_reason: FinishReason | None
    stats: Stats


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
        return Piece(*piece)

    def close(self) -> None:
        """End the text here. What was delivered stays in the cache; closing twice is harmless."""
        generator, self._generator = self._generator, None
        if generator is not None and generator._running == self._number:
            generator._core.stop()

    def __enter__(self) -> Stream:
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
    kv_type: "f16", or "q8_0" for caches of 53 % of the bytes (heads must be multiples of 32 wide).
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
        kv_type: str = "f16",
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
            kv_type=kv_type,
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
        arguments: _Arguments = {
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "sampling": _core.SamplingParams(
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                repeat_penalty=repeat_penalty,
                frequency_penalty=frequency_penalty,
                presence_penalty=presence_penalty,
                penalty_last_n=penalty_last_n,
                logit_bias={token: bias for token, bias in (logit_bias or {}).items()},
            ),
            "stop": [stop] if isinstance(stop, str) else list(stop),
            "seed": _seed(seed),
            "num_draft_tokens": None if num_draft_tokens is None else _draft_tokens(num_draft_tokens),
            "max_tokens": max_tokens,
            "verification": verification,
            "drafting": drafting,
        }
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
        )

    @property
    def stats(self) -> Stats:
        """Counters of the running or last text."""
        return Stats(**self._core.stats())

    @property
    def seed(self) -> int:
        """The seed of the running or last text."""
        return self._core.seed

    @property
    def n_ctx(self) -> int:
        """Tokens of context."""
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
