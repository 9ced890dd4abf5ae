"""The Generator class: a typed interface to the native engine."""

from __future__ import annotations

import asyncio
import os
import pathlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar, cast

import numpy as np

from . import _core, _progress
from ._chat import Answer, Message, Tool, conversation
from ._core import ChatPrompt as _ChatPrompt
from ._core import Generator as _Engine
from ._core import RequestHandle as _Submitted
from ._handles import AsyncStream, ChatHandle, EmbeddingHandle, RequestHandle, ScoredChoices
from ._hub import download_companion, local_model, log_choice
from ._log import publish
from ._options import (
    AnyRequest,
    ChatOptions,
    GeneratorOptions,
    StreamOptions,
    common_options,
    draft_of,
    is_conversation,
    lists_options,
)
from ._pictures import pictures_of, take_pictures
from ._results import (
    ChatCompletion,
    ChoiceScore,
    Completion,
    HiddenRows,
    Piece,
    Score,
    Stats,
    VerificationMode,
    chat_completion_of,
    completion_of,
)
from ._streams import ChatStream, EventStream, Run, Stream

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self, Unpack

_AnyRun = TypeVar("_AnyRun", bound=Run[Any])
_NO_LIMIT = 2**31 - 1  # tokens

_takes_options = lists_options(_core.request_options(), StreamOptions)
_takes_chat_options = lists_options(_core.request_options(), ChatOptions, max_tokens=None)

# Next to this file in a wheel; two folders up in a source tree.
_MODEL_FOLDERS = [pathlib.Path(__file__).parent / "models", pathlib.Path(__file__).parents[2] / "models"]


class _Runs(threading.local):
    """The latest runs of the calling thread on a Generator."""

    stream: weakref.ref[Run[Any]] | None = None
    request: _Submitted | None = None  # of `stream`, `generate` or `prefill`


def _several(texts: str | Sequence[str | Sequence[int]]) -> list[str | Sequence[int]]:
    several: list[str | Sequence[int]] = [texts] if isinstance(texts, str) else list(texts)
    if not several:
        raise ValueError("texts is empty; it must have at least one text")
    return several


class Generator:
    """A target model, and a draft that makes generation faster without changing its output.

    target: path of a GGUF file; "hf:OWNER/REPOSITORY:QUANT" for a model of the Hugging Face hub, which is downloaded
        once (default QUANT: Q4_K_M; needs `specdec_native[hub]`); None for the bundled pair (a demonstration: small
        models trained on Python source).
    draft: path or "hf:..." of a model with the same vocabulary, or of a head or block drafter for the target; "mtp" for
        the target's own head (multi-token prediction layers, which its file must have); "self" for the target itself,
        rounded to 3 or 2 bits, for models without a small one of their family; "suffix" for suffix decoding, which
        drafts what most often followed the longest match of the last tokens in the prompt, the output or earlier
        outputs; "ngram" for prompt lookup, which drafts what followed the latest occurrence of the last 1 to 3 tokens
        (a file with such a name is given as "./ngram" or as a Path); "auto" for the first of these that exists: "mtp";
        a block drafter, head or small model for this target, next to it or in the hub's cache; the one that the Hugging
        Face hub has for it; suffix decoding, with a RuntimeWarning; "none" for no drafts; None: "mtp" if the file has
        such layers and num_draft_tokens is not 0, otherwise no draft (with target=None: the bundled draft). A list
        holds a model or "mtp", "suffix", or both, and overrides `suffix`.
    suffix: with a draft model, also copies text that repeats earlier text, as with "suffix", when that is faster.
    draft_corpus: path of a text that outputs may repeat (source code, documents); if it ends in ".ids", of token ids,
        one document per line. Suffix decoding also copies from it. Its index is saved in FILE.index, or
        FOLDER/.specdec.index.
    n_ctx: context size in tokens; None for the target's training context, at most 4096; 0 for as much of the training
        context as fits into memory, with a RuntimeWarning that states the size.
    draft_window: the draft model reads at most the last draft_window tokens of a text, so that a long prompt costs it
        little memory and time, and no time before the first token. Shorter windows are read sooner, but their drafts
        are accepted less often. None for 1024. Drafting heads read everything.
    n_threads: CPU threads, 1 to 512; None for one per physical core (on hybrid processors, per performance core).
    n_batch: tokens per pass while a prompt is read, 64 or more.
    rpc: "host:port" of machines that run `specdec rpc-server`; the target's layers run there (docs/distributed.md).
    n_gpu_layers: number of layers to offload, counted from the last (the output is one), to a GPU, if a device module
        is installed (docs/devices.md), or to the rpc machines; "all" or -1 for all; "auto" for as many as fit. None:
        all with rpc, "auto" with devices or if a device multiplies at least 1.25 times as fast as the CPU, which is
        measured, otherwise 0. The logger "specdec_native" says which layers went where.
    devices: names of the devices for these layers, as `specdec generate --list-devices` shows them, or "none"; (): the
        GPUs with memory of their own, or else the first GPU.
    n_gpu_layers_draft, devices_draft: the same for the draft model. None and (): as for the target, or the CPU if
        passes of a draft model over one token are faster there, which is measured (0 with rpc).
    n_cpu_moe: the experts of this many of the target's layers, from the first on, stay on the CPU.
    n_cpu_moe_draft: the same for the draft model.
    tensor_split: "3,1" puts three quarters of these layers on the first device and a quarter on the second; "": by free
        memory.
    override_tensor: "PATTERN=DEVICE" or "PATTERN=CPU": puts tensors of the target whose names match this regular
        expression there.
    override_tensor_draft: the same for the draft model.
    exact: on devices, neither drafts nor other requests change a text; False: the fastest kernels, and requests share
        passes.
    mmap: False reads the weights into private memory, in huge pages if available: passes are as fast or faster, but the
        start is slower and the memory is not shared with other processes.
    repack: False leaves quantized weights (Q4_K, Q8_0, ...) in the file's layout instead of copying them into the order
        of the kernels: a faster start and memory shared with other processes, but slower passes; the target's logits
        are the same. A RuntimeWarning says if there is too little memory to repack.
    tile_cache: a folder that keeps the repacked weights (about as large as the models' files), so that the next start
        maps them instead of repacking (Linux); processes share them. "FOLDER:MIB" limits its size (default: 32768 MiB).
    memory: memory to use, such as "11G", "800M" (2**30 and 2**20 bytes each) or "11.5GB": weights of the target beyond
        it are read from the disk in every pass, from repacked ones in `tile_cache` or specdec's own cache folder. The
        text is the same. None: most of what is available. A RuntimeWarning says what is read and how long that takes.
    draft_weights: "4-bit" rounds weights of the draft model with more than 4.5 bits to Q4_0 while they are repacked; if
        the model has more than 64 MiB, also F16, BF16 and MXFP6. The draft gets faster, and the target decides as
        before. "auto" does the same, but in a model with less than 200 million weights (without the output matrix) it
        rounds only floats, to Q8_0. For a large vocabulary (also a drafting head's), both multiply only the rows of
        likely tokens exactly. "3-bit" and "2-bit" round to Q3_K and Q2_K (for "self"). "file" leaves the weights as
        they are and multiplies all rows.
    chat_template: used by `chat` and related methods instead of the target's own: the text of a Jinja template, or the
        name of one of llama.cpp's formats ("chatml", "llama3", ...), which have no default system prompts.
    json_tool_calls: when JSON in an answer is read as tool calls, if `tools` are given: {"name": ..., "arguments":
        {...}} or lists of these, bare or in a fenced block. "auto" and "always": if an answer has no calls in the
        template's form, because some models write JSON whatever their template says; "never".
    kv_type: "f16", or "q8_0" for caches with 53 % of the bytes (the width of heads must be a multiple of 32).
    max_sequences: requests that run at once (`submit`, `stream_many`, `generate_many`), 1 to 256. Each has a context of
        n_ctx tokens; its memory is allocated here.
    max_queue_size: submitted requests that may wait; one more raises QueueFull.
    num_draft_tokens: draft tokens per cycle (K), 0 to 63; 0 disables drafting. "auto" decides before each draft token,
        from measured pass times and acceptance, whether it is worth its time, and decodes without drafts if none is.
    mmproj: the projector with which the target reads pictures: a path; "auto", the default: one beside the target's
        file, if there is one; "none".
    draft_tree: with num_draft_tokens="auto", the number of drafts in a tree that a draft model proposes, 0 to 63; 0: a
        chain, which ends at its first wrong token. "auto", the default, branches where a branch is worth its time, by
        measured pass times and acceptance. The text is the same.
    auto_cache: False does not save what "auto" has measured of these models for the next process (in a small file below
        $XDG_CACHE_HOME or ~/.cache; it changes no seeded text).
    progress: of loading: True for a tqdm bar in a terminal or a notebook (needs `specdec_native[progress]`); or a
        function that is called every 50 ms with a step ("reading target.gguf") and the finished share of it, 0 to 1.
        If it raises, loading ends, as with Ctrl-C. (Downloads have huggingface_hub's own bars.)

    Any number of threads may use a Generator; requests beyond max_sequences wait. A thread that begins a stream ends
    its earlier one. A forked process cannot use its parent's Generators. A Generator is a context manager; `close`
    releases its memory before Python does. Raises ModelError for an unusable file, VocabularyMismatch for a draft with
    another vocabulary, Error for a failed download, ImportError for "hf:..." without huggingface_hub, ValueError for a
    bad argument, TypeError for an argument of the wrong type.
    """

    @lists_options(_core.generator_options(), GeneratorOptions)
    def __init__(
        self,
        target: str | os.PathLike[str] | None = None,
        draft: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        *,
        progress: bool | Callable[[str, float], object] | None = None,
        **options: Unpack[GeneratorOptions],
    ) -> None:
        given: dict[str, Any] = dict(options)
        if isinstance(draft, Sequence) and not isinstance(draft, str):
            draft, given["suffix"] = draft_of(draft)
        sources: tuple[str | os.PathLike[str], str | os.PathLike[str] | None]
        if target is None:
            bundled_target, bundled_draft = _core.find_bundled_pair([str(folder) for folder in _MODEL_FOLDERS])
            sources = bundled_target, bundled_draft if draft in (None, "auto") else draft
        else:
            sources = target, draft
        given["target"], given["draft"] = local_model(sources[0], with_projector=True), sources[1]
        if sources[1] is not None and given.get("num_draft_tokens") != 0:  # otherwise it is not used
            given["draft"] = local_model(sources[1])
        self._engine: _Engine | None = None
        self._path = os.fspath(given["target"])
        self._draft = given["draft"]
        self._runs = _Runs()
        self._metadata: dict[str, Any] | None = None
        self._has_noted_template = False
        try:
            with _progress.of_load(progress) as show:

                def tell(step: str, share: float) -> None:
                    publish()
                    if show is not None and step:
                        show(step, share)

                self._engine = _core.Generator(tell, download_companion, **given)
        except _core.VocabularyMismatch as error:
            if target is not None:
                raise
            raise _core.VocabularyMismatch(
                f"{error}. No target was given, so it is the bundled one: give target=..."
            ) from None
        finally:
            publish()
        for choice in (self._engine.placement, self._engine.draft_choice):
            if choice:
                log_choice(choice)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:  # of copy, deepcopy and pickle
        raise TypeError(
            "a Generator cannot be copied or pickled: it owns models and threads. Any number of threads can share it; "
            "create one in each process"
        )

    def __repr__(self) -> str:
        draft = "" if self._draft is None else f", draft={os.fspath(self._draft)!r}"
        return f"Generator({self._path!r}{draft}){' (closed)' if self._engine is None else ''}"

    @property
    def _core(self) -> _Engine:
        if self._engine is None:
            raise _core.Error("this Generator is closed")
        return self._engine

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._engine is None

    def close(self) -> None:
        """End all requests and release the models and their memory. Everything except `close` then raises `Error`.

        Any thread may call this; a call that runs in another thread ends first.
        """
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
            publish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @_takes_options
    def stream(self, prompt: str | Sequence[int], **options: Unpack[StreamOptions]) -> Stream:
        """Generate piece by piece. Returns at once; the first piece waits until the prompt is read.

        With any draft the output is distributed exactly as the target's, under the same transforms.

        prompt: a string, or token ids. A string may contain special tokens.
        max_tokens: maximum number of tokens to generate; 0 generates nothing.
        temperature, top_k, top_p, min_p: temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off. The order is
            llama.cpp's: logit bias, penalties, DRY, top-k, top-p, min-p, XTC, temperature.
        repeat_penalty, presence_penalty, frequency_penalty, penalty_last_n: penalties of tokens among the last
            penalty_last_n (-1: all); repeat_penalty 1 and 0 for the other two are off.
        dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers: DRY, off with a
            multiplier of 0. A token that would continue a repetition of L tokens, at least dry_allowed_length, loses
            dry_multiplier * dry_base ** (L - dry_allowed_length). Repetitions are searched in the last
            dry_penalty_last_n tokens (-1: all), but not across a breaker (None: newline, colon, quote, asterisk).
        xtc_probability, xtc_threshold: XTC, off with a probability of 0, a threshold above 0.5 or temperature 0. With
            probability xtc_probability, a token is sampled without the top choices: the tokens of at least probability
            xtc_threshold, except the least likely of them.
        logit_bias: token id -> number to add to its logit; -inf bans the token.
        allowed_token_ids: the only tokens that may come.
        bad_words: the last token of each of these texts is banned where its other tokens come before it.
        grammar: the output matches this grammar in llama.cpp's notation (GBNF); its first rule is `root`. At most one
            of grammar, json_schema, regex, choice and structural_tag may be given. Tokens that do not match are removed
            before all transforms except logit_bias.
        json_schema: the output is JSON on one line that satisfies this schema: a dict, a JSON string, or a pydantic
            model class or TypeAdapter; {} is any object. A keyword that is not enforced is an error (docs/python.md).
        strict_schema: False: keywords that cannot be enforced, such as "not", are left to you instead of raising an
            error.
        regex: the whole output matches this regular expression.
        choice: the output is one of these texts; `score_choices` tells how likely each of them is.
        structural_tag: the output is text with parts that obey schemas, such as tool calls between marks: a dict or a
            JSON string in xgrammar's form, which vLLM and SGLang also use (docs/python.md).
        reasoning_budget: for chats whose template marks reasoning: after this many tokens of reasoning, the mark that
            ends it follows; -1: no limit.
        stop: strings that end the output, which does not include them.
        min_tokens, ignore_eos: the tokens that end an output (including stop_token_ids) are banned until it has
            min_tokens tokens; with ignore_eos the model's own are always banned.
        stop_token_ids: tokens that end the output and are its last token.
        prediction: text that the output is likely to repeat, such as the file to be edited; drafts are copied from it.
            A good guess makes generation faster; no guess changes the distribution of the output.
        images: a picture, or a list of them, which come before the prompt: paths, bytes of PNG, JPEG, GIF or BMP files,
            data URLs, arrays of uint8 with the shape (height, width) or (height, width, 1, 3 or 4), or PIL images. The
            target needs a projector (`mmproj`).
        seed: 0 to 2^64 - 1; the same seed, prompt and options give the same output with any draft or none (with other
            verifications than "invariant": only with the same draft and a fixed num_draft_tokens). None: a random seed
            (see `Generator.seed`).
        top_logprobs: 0 to 20; how many of the most likely tokens each piece reports in `top_logprobs`.
        num_draft_tokens: None for the Generator's number.
        verification: how drafts are verified (docs/losslessness.md). "block": jointly, which accepts the most, Sun et
            al. 2403.10444. "token": one by one, Chen et al. 2302.01318 and Leviathan et al. 2211.17192. "invariant": a
            seed gives the same output for any draft and any num_draft_tokens, with 8 % fewer tokens per target call
            than "block" (12 % at worst), Daliri et al. 2408.07978. "auto": "invariant" if a seed is given, otherwise
            "block". `Generator.verification` is the mode in use.
        drafting: a draft model proposes tokens sampled from its distribution ("sampled") or its most likely tokens
            ("argmax").

        Raises ValueError for a bad argument, ContextFull for a prompt that does not fit. Ctrl-C raises
        KeyboardInterrupt; the Generator stays usable.
        """
        return self._begin(Stream(self, self._submit_alone(prompt, options)))

    @_takes_options
    def generate(self, prompt: str | Sequence[int], **options: Unpack[StreamOptions]) -> Completion:
        """Generate and return the whole completion; arguments, defaults and errors as for `stream`."""
        with RequestHandle(self, self._submit_alone(prompt, options), options.get("json_schema")) as handle:
            return handle.result()

    def prefill(
        self, prompt: str | Sequence[int], *, progress: bool | Callable[[int, int], object] | None = None
    ) -> int:
        """Read a prompt into the KV caches without generating anything; requests that begin with it then start at once.

        progress: True for a tqdm bar in a terminal or a notebook (needs `specdec_native[progress]`); or a function that
            is called with the number of tokens read and the number of all tokens after each n_batch of them. If it
            raises, reading ends, as with Ctrl-C.

        Returns the number of the prompt's tokens. Raises what `stream` raises.
        """
        request = self._submit_alone(prompt, {"max_tokens": 0}, read_prompt=True)
        with _progress.of_prompt(progress) as show, RequestHandle(self, request) as handle:
            request.wait_for_end(show)
            num_tokens = handle.result().stats.prompt_tokens
            if show is not None:
                show(num_tokens, num_tokens)
            return num_tokens

    def submit_native(
        self, prompt: Any, options: Mapping[str, Any], *, score_prompt: bool = False, read_prompt: bool = False
    ) -> _Submitted:
        """Internal: submit and return the engine's handle."""
        if is_conversation(prompt):
            raise TypeError("prompt is a list of messages; use chat, stream_chat or submit_chat for conversations")
        given = dict(options)
        images = given.pop("images", None)
        pictures = [] if images is None else pictures_of("images", images)
        request = self._core.submit(prompt, pictures, score_prompt, read_prompt, **given)
        publish()
        return request

    def _submit_alone(self, prompt: Any, options: Mapping[str, Any], *, read_prompt: bool = False) -> _Submitted:
        """Submits a request of the synchronous methods: it ends the thread's stream, and `stats` and related properties
        refer to it."""
        request = self.submit_native(prompt, options, read_prompt=read_prompt)
        self._end_run()
        self._runs.request = request
        return request

    def _end_run(self) -> None:
        run = self._runs.stream() if self._runs.stream is not None else None
        if run is not None:
            run.supersede()

    def _begin(self, run: _AnyRun) -> _AnyRun:
        self._runs.stream = weakref.ref(run)
        return run

    def chat_prompt(self, messages: Sequence[Message], options: Mapping[str, Any]) -> _ChatPrompt:
        """Internal: the prompt of an answer with its options. Without max_tokens, the answer ends where the model ends
        it."""
        self._note_missing_template(4)
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        given.setdefault("max_tokens", _NO_LIMIT)
        tools, choice = given.pop("tools", None), given.pop("tool_choice", "auto")
        parallel, goes_on = given.pop("parallel_tool_calls", True), given.pop("continue_final_message", None)
        marked, pictures = take_pictures(messages, given.pop("images", None))
        form = conversation(marked, tools, choice, parallel, goes_on)
        return self._core.chat(form.messages, pictures, *form[1:], **given)

    def _note_missing_template(self, stacklevel: int) -> None:
        if not self._core.has_chat_template and not self._has_noted_template:
            self._has_noted_template = True
            text = "the model has no chat template; messages are joined as plain text (chat_template=)"
            warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        tools: Sequence[Tool] | None = None,
        continue_final_message: bool = False,
    ) -> str:
        """The conversation as a prompt in the chat template, which is run as Jinja like in transformers.

        messages: dicts with "role", "content" and other fields that the template knows ("tool_calls", ...); only JSON
            values.
        add_generation_prompt: the prompt ends with the start of the assistant's answer.
        tools: JSON schemas of functions that the model may call, for templates that support tools.
        continue_final_message: the prompt ends inside the last message, which is the beginning of the assistant's
            answer; replaces add_generation_prompt.

        The result is for reading and for other engines: unlike a string, `chat` distinguishes special tokens written in
        messages from the template's. If the target has no template, messages are joined as plain text, with a
        RuntimeWarning. Raises ModelError if the template cannot be run or rejects the messages.
        """
        self._note_missing_template(3)
        given = conversation(messages, tools, continue_final_message=bool(continue_final_message))
        return self._core.chat_prompt(given.messages, given.tools, bool(add_generation_prompt), given.continues_answer)

    @_takes_chat_options
    def stream_chat(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> ChatStream:
        """Generate the assistant's answer piece by piece; messages, tools and errors as for `apply_chat_template`,
        options as for `stream`. `ChatStream.message` is the answer so far: content, reasoning and tool calls.

        max_tokens: without it, the answer ends where the model ends it or where the context is full.
        tool_choice: "auto": the answer may call tools; "none": it calls none; "required", or {"type": "function",
            "function": {"name": ...}}: it calls a tool, or this tool, with arguments that obey the function's schema
            (not together with another constraint).
        parallel_tool_calls: an answer may have more than one call.
        continue_final_message: the answer continues the last message, which the assistant must have written, without
            repeating it. None: this is done if the last message is an assistant's without tool calls.

        Special tokens written in messages or tools are ordinary text. Later turns of a conversation reuse what was read
        of it.
        """
        prompt = self.chat_prompt(messages, options)
        return self._begin(ChatStream(self, self._submit_alone(prompt, {}), Answer(prompt)))

    @_takes_chat_options
    def chat(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> ChatCompletion:
        """Generate and return the assistant's whole answer; arguments and errors as for `stream_chat`.
        `ChatCompletion.message` has its content, reasoning and tool calls."""
        prompt = self.chat_prompt(messages, options)
        schema = options.get("json_schema")
        with ChatHandle(self, self._submit_alone(prompt, {}), Answer(prompt), schema) as handle:
            return handle.result()

    @_takes_chat_options
    def stream_many(self, requests: Iterable[AnyRequest], **options: Unpack[ChatOptions]) -> EventStream:
        """Run many requests, up to `max_sequences` at once; each cycle has one pass of the target for all of them.

        requests: prompts, conversations (lists of messages), or `Request` dicts: either of these with its own options.
            They are taken from the iterable as needed, so it may be infinite; while it blocks, submitted requests
            continue. A prefix that was already read for another request is not read again.
        options: as for `stream` and, for conversations, `stream_chat`: the defaults for all requests. `seed` is the
            seed of the first request; the seeds of the others are derived from it (`Event.seed`), so that batches with
            different seeds share no outputs.

        Events are yielded as they happen, the pieces of one request in order. The output of a request is bit for bit
        what `stream` (`stream_chat`) gives for it alone with the same seed.

        A request that cannot run (a bad argument, a prompt that does not fit) yields one event with an `error`; the
        others are not affected. Bad `options` raise at once. Ctrl-C raises KeyboardInterrupt and ends all requests; the
        Generator stays usable.
        """
        if isinstance(requests, (str, bytes, Mapping)):
            raise TypeError(f"requests is a {type(requests).__name__}; give a list of prompts or conversations")
        common = common_options(options)  # raises errors that concern all requests now
        self._end_run()
        return self._begin(EventStream(self, requests, common))

    @_takes_chat_options
    def generate_many(
        self,
        requests: Iterable[AnyRequest],
        *,
        progress: bool | Callable[[int], object] | None = None,
        **options: Unpack[ChatOptions],
    ) -> list[Completion]:
        """The completions of all requests, in order; arguments as for `stream_many`. Those of conversations are
        ChatCompletions, with a `message`. Errors are in `Completion.error`.

        progress: True for a tqdm bar in a terminal or a notebook (needs `specdec_native[progress]`); or a function that
            is called with 1 whenever a request has ended, such as your own bar's `update`.
        """
        pieces: dict[int, list[Piece]] = {}
        completions: dict[int, Completion] = {}
        total = len(requests) if isinstance(requests, Sized) else None
        with _progress.of_many(progress, total) as show, self.stream_many(requests, **options) as events:
            for event in events:
                text = pieces.setdefault(event.index, [])
                if event.piece is not None:
                    text.append(event.piece)
                if event.stats is None:
                    continue
                answer, schema = events.form_of_last()
                completion = completion_of(
                    pieces.pop(event.index), event.stats, event.seed, event.verification, event.error, schema
                )
                completions[event.index] = completion if answer is None else chat_completion_of(completion, answer)
                if show is not None:
                    show(1)
        return [completions[index] for index in sorted(completions)]

    def score(self, text: str | Sequence[int], *, top_logprobs: int = 0) -> Score:
        """The log-probability of every token of a text, given the tokens before it, under the target without any
        transform.

        text: a string (special tokens in it are recognised) or token ids; at most n_ctx tokens. A beginning that
            another scored text has is not read again. The result has the same bits for every n_batch, max_sequences
            and number of threads, and under any load. Raises what `stream` raises.
        top_logprobs: 0 to 20; how many of the most likely tokens to report for each place as well.
        """
        with self.submit_score(text, top_logprobs=top_logprobs) as handle:
            return handle.score()

    def submit_score(self, text: str | Sequence[int], *, top_logprobs: int = 0) -> RequestHandle:
        """`score` together with other requests (`submit`); `RequestHandle.score` waits for the result."""
        return RequestHandle(
            self, self.submit_native(text, {"max_tokens": 0, "top_logprobs": top_logprobs}, score_prompt=True)
        )

    async def ascore(self, text: str | Sequence[int], *, top_logprobs: int = 0) -> Score:
        """`score` for asyncio. Cancelling the task cancels the request."""
        with await asyncio.to_thread(self.submit_score, text, top_logprobs=top_logprobs) as handle:
            await handle.aresult()
            return handle.score()

    def score_choices(
        self, prompt: str | Sequence[int] | Sequence[Message], choices: Sequence[str | Sequence[int]]
    ) -> list[ChoiceScore]:
        """How likely the target, without any transform or constraint, continues a prompt with each of these texts: for
        classification, multiple-choice questions and the like. Results are in the order of `choices`;
        `max(scores, key=lambda score: score.logprob)` is the most likely one.

        prompt: a string, token ids, or a conversation whose answer begins with a choice. It is read once.
        choices: strings or token ids. A string is tokenized as the continuation of the prompt, so " yes" and "yes"
            are different. Longer texts are less likely: compare `logprob / len(tokens)` for choices of very different
            lengths.

        The log-probabilities have the same bits as in a `score` of the whole text. Raises what `stream` raises.
        """
        run = self._scored_choices(prompt, choices)
        for handle in run:
            with handle:
                handle.result()
        return run.results()

    async def ascore_choices(
        self, prompt: str | Sequence[int] | Sequence[Message], choices: Sequence[str | Sequence[int]]
    ) -> list[ChoiceScore]:
        """`score_choices` for asyncio. Cancelling the task cancels the requests."""
        run = await asyncio.to_thread(self._scored_choices, prompt, choices)
        while (handle := await asyncio.to_thread(next, run, None)) is not None:
            with handle:
                await handle.aresult()
        return run.results()

    def _scored_choices(self, prompt: Any, choices: Sequence[str | Sequence[int]]) -> ScoredChoices:
        if isinstance(choices, str) or not choices:
            raise ValueError("choices must be a list of at least one text")
        tokens = self.chat_prompt(prompt, {}).tokens if is_conversation(prompt) else self._core.prompt_tokens(prompt)
        return ScoredChoices(self, self._core, tokens, choices)

    def embed(self, texts: str | Sequence[str | Sequence[int]]) -> npt.NDArray[np.float32]:
        """Embeddings of texts by the target: float32, shape [number of texts, width], rows with norm 1.

        texts: one text or several; each is a string (special tokens in it are recognised) or token ids, at most n_ctx
            tokens.

        Rows after the last norm are pooled as the target's file says (`pooling_type`): their mean, the first or the
        last; the mean if the file does not say, as with generative models. Texts are read in a context of their own,
        between the passes of requests, which keep their caches.
        """
        several = _several(texts)
        going_on = _core.Cancellation()
        return np.stack([self._core.embed(text, going_on) for text in several])

    def submit_embed(self, texts: str | Sequence[str | Sequence[int]]) -> EmbeddingHandle:
        """`embed` on a thread of its own; `EmbeddingHandle.result` waits for the rows."""
        return EmbeddingHandle(self._core, _several(texts))

    async def aembed(self, texts: str | Sequence[str | Sequence[int]]) -> npt.NDArray[np.float32]:
        """`embed` for asyncio. Cancelling the task ends the work."""
        with self.submit_embed(texts) as handle:
            return await handle.aresult()

    def hidden_rows(
        self, text: str | Sequence[int], *, layers: Sequence[int] | None = None, top_logprobs: int = 0
    ) -> HiddenRows:
        """Activations of the target's layers for each token of a text: float32, shape [tokens, layers, width].

        text: a string (special tokens in it are recognised), or token ids; at most n_ctx tokens.
        layers: the layers whose inputs are returned, from 0 (the embeddings) to `num_layers` (the output of the last
            layer, if llama.cpp provides it). None: the three that a drafting head reads, `head_layers`.
        top_logprobs: how many of the most likely next tokens to return for each token, with log-probabilities; 0: none,
            which also skips the output matrix, a third of a small model's time.

        Texts are read in a context of their own, between the passes of requests, which keep their caches; it takes as
        much memory as another cache of that many tokens. Rows have the same bits for every number of threads and under
        any load. Raises ModelError for a target whose layers cannot be read (docs/models.md has a table), otherwise
        what `stream` raises.
        """
        chosen = list(self.head_layers if layers is None else layers)
        tokens, rows, top_tokens, logprobs = self._core.hidden_rows(text, chosen, top_logprobs)
        return HiddenRows(tokens, tuple(chosen), rows, top_tokens, logprobs)

    @property
    def num_layers(self) -> int:
        """Number of the target's layers, without multi-token prediction layers."""
        return self._core.num_layers

    @property
    def head_layers(self) -> tuple[int, int, int]:
        """The target's layers whose inputs our drafting heads read: an early one, a middle one and the last."""
        last = self.num_layers - 1
        return min(2, last), max(self.num_layers // 2, min(1, last)), last

    @_takes_options
    def submit(self, prompt: str | Sequence[int], **options: Unpack[StreamOptions]) -> RequestHandle:
        """Start a request that runs together with others and return its handle at once; arguments and errors as for
        `stream`.

        Any thread may submit at any time. Up to `max_sequences` requests run at once; the others wait in order of
        arrival. Each output is bit for bit what `stream` gives for the request alone. An error, a cancellation or a
        slow reader of one request does not affect the others. Raises QueueFull if max_queue_size requests wait already.
        """
        return RequestHandle(self, self.submit_native(prompt, options), options.get("json_schema"))

    @_takes_chat_options
    def submit_chat(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> ChatHandle:
        """`submit` for the assistant's answer; arguments and errors as for `stream_chat`."""
        prompt = self.chat_prompt(messages, options)
        return ChatHandle(self, self.submit_native(prompt, {}), Answer(prompt), options.get("json_schema"))

    @_takes_options
    def astream(self, prompt: str | Sequence[int], **options: Unpack[StreamOptions]) -> AsyncStream:
        """`stream` for asyncio: `async for piece in gen.astream(...)`.

        Cancelling the task, leaving the iteration or closing the iterator cancels the request.
        """
        return AsyncStream(lambda: self.submit(prompt, **options))

    @_takes_chat_options
    def astream_chat(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> AsyncStream:
        """`stream_chat` for asyncio, like `astream`. (For the message, use `submit_chat`.)"""
        return AsyncStream(lambda: self.submit_chat(messages, **options))

    @_takes_options
    async def agenerate(self, prompt: str | Sequence[int], **options: Unpack[StreamOptions]) -> Completion:
        """`generate` for asyncio. Cancelling the task cancels the request."""
        with await asyncio.to_thread(self.submit, prompt, **options) as handle:
            return await handle.aresult()

    @_takes_chat_options
    async def achat(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> ChatCompletion:
        """`chat` for asyncio, like `agenerate`."""
        with await asyncio.to_thread(self.submit_chat, messages, **options) as handle:
            return await handle.aresult()

    def save_prefix(self, path: str | os.PathLike[str]) -> int:
        """Write the KV caches of this thread's running or last request of `stream`, `generate` or `prefill` to a file,
        for `load_prefix`.

        After `prefill(prompt)` this is the prompt without its last token; after the others it includes the output. The
        file is replaced in one step. It has the size of the caches: for each token of a 1.5B model 28 KB, with
        kv_type="q8_0" 15 KB, and in addition the draft's. Returns the number of tokens. Raises Error if nothing was
        read or the file cannot be written.
        """
        engine, request = self._core, self._runs.request
        if request is None:
            raise _core.Error(f"there is no cached prompt to save to {os.fspath(path)}; generate first")
        request.wait(0)  # waits until its prompt is read
        return engine.save_prefix(request, os.fsencode(path))

    def load_prefix(self, path: str | os.PathLike[str]) -> int:
        """Fill the KV caches from a file of `save_prefix`: a prompt that begins with its tokens does not read them
        again.

        The output is the same, bit for bit, as without the file. Ends this thread's stream. Returns the number of
        tokens; 0 if there is no such file, and 0 with a RuntimeWarning if the file is damaged or belongs to another
        model, `kv_type`, `max_sequences`, processor or version. Damage is detected, malice is not: load only files
        written by you or by programs that you trust.
        """
        engine = self._core
        if not os.path.exists(path):
            return 0
        self._end_run()
        count, problem = engine.load_prefix(os.fsencode(path))
        if problem:
            warnings.warn(f"the whole prompt is read again: {problem}", RuntimeWarning, stacklevel=2)
        return count

    @property
    def stats(self) -> Stats:
        """Counters of this thread's running or last request of `stream` or `generate`, up to its last piece. Streams,
        handles and completions have their own."""
        engine, request = self._core, self._runs.request
        if request is None:
            return Stats(drafting=engine.drafting(None))
        stats = Stats(**request.stats())
        return stats if stats.drafting else replace(stats, drafting=engine.drafting(request))

    @property
    def seed(self) -> int:
        """The seed of this thread's running or last request of `stream` or `generate`. Given again together with
        `verification`, a random seed repeats the output, unless draft lengths were "auto" and the verification was not
        "invariant"."""
        return 0 if self._runs.request is None else self._runs.request.seed

    @property
    def verification(self) -> VerificationMode:
        """The verification mode of this thread's running or last request; never "auto"."""
        request = self._runs.request
        return "block" if request is None else cast(VerificationMode, request.verification)

    @property
    def drafting(self) -> str:
        """A sentence that starts with "on", "off" or "undecided": whether this thread's running or last request
        of `stream` or `generate` uses drafts and what they gain, or why it does not, from the costs measured so far."""
        return self.stats.drafting

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the target's GGUF file: key -> int, float, bool, str or a list of these. Read on first
        use."""
        _ = self._core  # raises if this is closed
        if self._metadata is None:
            self._metadata = _core.read_metadata(self._path)
        return dict(self._metadata)

    @property
    def max_sequences(self) -> int:
        """Number of requests that can run at once."""
        return self._core.max_sequences

    @property
    def draft_window(self) -> int:
        """How many of a text's last tokens the draft model reads at most; 0 without a draft model."""
        return self._core.draft_window

    @property
    def n_ctx(self) -> int:
        """Tokens of context per sequence."""
        return self._core.n_ctx

    @property
    def n_threads(self) -> int:
        """Number of CPU threads."""
        return self._core.n_threads

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of a prompt, starting with the model's BOS token if it uses one; a BOS written at the start of the
        text is not doubled.

        special: control tokens written in the text, such as "<|im_end|>", are recognised. False: they are ordinary
        text.
        """
        return self._core.tokenize(text, special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of the tokens; bytes that are not UTF-8 become U+FFFD.

        special: control tokens appear by name. False: they are left out.
        """
        return self._core.detokenize(tokens, special)
