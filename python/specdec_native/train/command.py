"""The command line of `specdec-train`."""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._core import Error, check_output
from .._generator import Generator
from .._hub import local_model
from .text import LEAST_TOKENS, LENGTH, Texts, Tokens, add, finish, read_texts, sources, written

if TYPE_CHECKING:
    from .rows import RowReader, Sample
    from .shape import Shape
    from .speed import Costs
    from .target_weights import TargetWeights
    from .trainer import State

REMEDY = 'pip install "specdec_native[train]"'
MOST_BYTES_PER_HOUR = 5e15  #: of weights, once for every token: more than a machine can read
FIT_SHARE = 0.25  #: of time and tokens, at most, for the closed form
WRITTEN_FIRST = 40  #: documents that the target writes before training, if no text is given


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        "specdec-train",
        description="Trains a drafting head (EAGLE-3) for a target, from what the target makes of texts. The text that"
        " a target writes with a head is the target's own, however good the head is; only the speed depends on it.",
    )
    path = pathlib.Path
    p.add_argument(
        "--target", required=True, metavar="MODEL.gguf", help="the model to draft for, or hf:OWNER/REPOSITORY:QUANT"
    )
    p.add_argument(
        "--text",
        nargs="+",
        type=path,
        default=[],
        metavar="FILE",
        help='text files, folders, JSON lines (strings, or objects with "text"); none: the target writes its own',
    )
    p.add_argument(
        "--chat",
        nargs="+",
        type=path,
        default=[],
        metavar="FILE.jsonl",
        help='conversations: lists of messages, or objects with "messages"',
    )
    p.add_argument("--hours", type=float, default=3.0, help="training time; ends earlier without progress (default: 3)")
    p.add_argument("--tokens", type=int, default=10**12, metavar="N", help="ends earlier, after reading N tokens")
    p.add_argument(
        "--continue",
        dest="goes_on",
        type=path,
        metavar="DRAFTER.gguf",
        help="a head that specdec-train made, to train further",
    )
    p.add_argument(
        "--feed-forward",
        type=int,
        metavar="WIDTH",
        help="width of the head's feed-forward network (default: what a pass may cost)",
    )
    p.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="(default: all)")
    p.add_argument("--memory", type=int, default=512, metavar="MB", help="for hidden rows of the target (default: 512)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("-o", "--output", required=True, type=path, metavar="DRAFTER.gguf")
    p.add_argument("--force", action="store_true", help="replace the file of -o if it exists")
    return p


def say(text: str) -> None:
    print(text, flush=True)


def texts_of(gen: Generator, options: argparse.Namespace, target_bytes: int) -> tuple[Texts, Iterator[Tokens] | None]:
    """The iterator yields documents that the target writes, without end; None if text was given."""
    given = list(sources(options.text, options.chat))
    if given:
        say(f"reading {len(given)} documents")
        most = int(min(options.tokens, options.hours * MOST_BYTES_PER_HOUR / target_bytes))
        return read_texts(gen, given, most + 2 * LEAST_TOKENS, options.seed), None
    if options.text or options.chat:
        raise Error("no text in " + ", ".join(map(str, [*options.text, *options.chat])))
    say("no text given: the target writes its own")
    documents = written(gen, options.seed)
    texts = Texts()
    first = list(itertools.islice(documents, WRITTEN_FIRST))
    for tokens in first:
        add(texts, "written", tokens)
    finish(texts, {"written": first})
    return texts, documents


def describe(shape: Shape, texts: Texts, memory: int) -> str:
    tokens = "the target's vocabulary" if shape.tokens is None else f"{len(shape.tokens)} of {shape.vocabulary} tokens"
    held_out = ", ".join(f"{sum(map(len, parts))} of {kind}" for kind, parts in texts.held_out.items())
    return (
        f"text: {texts.num_tokens} tokens; held out: {held_out}\n"
        f"head: {shape.num_weights / 1e6:.1f} million weights, reads layers {', '.join(map(str, shape.layers))} of the"
        f" target, feed-forward {shape.feed_forward}, {tokens}\n"
        f"memory: the target's, and {memory >> 20} MB for training"
    )


def memory_of(shape: Shape, buffer_bytes: int, fit_bytes: int) -> int:
    """The regression, then weights, gradients, two moments and the average, logits and their gradients; samples; a
    margin."""
    weights = 4 * (5 * shape.num_weights + shape.output_size * shape.width)
    logits = 4 * LENGTH * shape.output_size * 8
    return max(weights + logits, fit_bytes) + 2 * buffer_bytes + (128 << 20)


def with_progress(samples: Iterator[Sample], reader: RowReader, num_tokens: int, end: float) -> Iterator[Sample]:
    """Yields samples until the time `end`, and reports every tenth of num_tokens."""
    reported = 0
    for sample in samples:
        yield sample
        if time.monotonic() >= end:
            return
        tenths = 10 * reader.num_read // num_tokens
        if tenths > reported:
            reported = tenths
            say(f"first fit: {min(reader.num_read, num_tokens)} of {num_tokens} tokens read")


def line_of(state: State, reader: RowReader, costs: Costs) -> str:
    held_out = ", ".join(
        f"{kind} " + " ".join(f"{share:.2f}" for share in found.greedy) for kind, found in state.held_out.items()
    )
    return (
        f"{state.seconds / 60:.0f} min, {reader.num_read} tokens read, {state.step} steps, loss {state.loss:.3f}"
        f" (held out {state.held_out_loss:.3f}); accepted drafts 1 to 4: {held_out};"
        f" about {costs.tokens_per_second(state.greedy):.1f} tokens/s, {costs.plain:.1f} without"
    )


def train(options: argparse.Namespace) -> None:
    import torch

    from . import head_file, rows, shape, speed
    from .begin import begin, fit_bytes, fit_tokens
    from .head import Head
    from .target_weights import TargetWeights
    from .trainer import Trainer, endless

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    path = pathlib.Path(local_model(options.target))
    with Generator(
        path,
        None,
        num_draft_tokens=0,
        n_threads=options.threads,
        n_ctx=2 * LENGTH,
        max_sequences=1 if options.text or options.chat else 8,
    ) as gen:
        gen.hidden_rows([0])  # an error now rather than later
        target = TargetWeights(path)
        texts, documents = texts_of(gen, options, target.num_bytes)
        chosen = shape.shape_for(target, gen.head_layers, vocabulary_for(target, texts), options.feed_forward)
        head = Head(chosen) if options.goes_on is None else head_file.read_head(options.goes_on, target, chosen)
        chosen = head.shape
        head_file.check_space(options.output, chosen)
        buffer_bytes = options.memory << 20
        say(describe(chosen, texts, memory_of(chosen, buffer_bytes, fit_bytes(chosen))))
        reader = rows.RowReader(gen, target, chosen)
        held_out = {kind: [reader.read(part) for part in parts] for kind, parts in texts.held_out.items()}
        measured = [sample for samples in held_out.values() for sample in samples]
        scale = rows.scale_of(measured)
        reader.num_read = 0
        given = (
            endless(texts.training, options.seed) if documents is None else itertools.chain(texts.training, documents)
        )
        buffer = rows.Buffer(reader, given, rows.buffer_size(chosen, buffer_bytes), options.seed)
        end = time.monotonic() + options.hours * 3600
        all_tokens = np.arange(chosen.vocabulary) if chosen.tokens is None else chosen.tokens
        output = target.output(all_tokens)
        if options.goes_on is None:
            num_tokens = max(1, min(fit_tokens(chosen), int(options.tokens * FIT_SHARE)))
            fit_end = end - (1 - FIT_SHARE) * options.hours * 3600
            samples = with_progress(buffer.first(num_tokens), reader, num_tokens, fit_end)
            begin(head, target, samples, measured, scale, output)
        else:
            head.go_on(torch.from_numpy(scale))
        costs = speed.measure(gen, texts.training[0][:64].tolist(), target.num_bytes, chosen.pass_bytes())
        trainer = Trainer(head, output, held_out)

        def report(state: State) -> None:
            say(line_of(state, reader, costs))
            head_file.write_head(trainer.averaged, target, options.output)

        try:
            trainer.evaluate()
            report(trainer.state)
            left = max(1.0, end - time.monotonic())
            reason = trainer.run(buffer.next, left, lambda: reader.num_read / options.tokens, report)
        except KeyboardInterrupt:
            reason = "interrupted"
            head_file.write_head(trainer.averaged, target, options.output)
    say(f"{reason}; wrote {options.output} ({options.output.stat().st_size >> 20} MB)")
    say(f"try it: specdec generate -m {path} -md {options.output}")


def vocabulary_for(target: TargetWeights, texts: Texts) -> np.ndarray | None:
    from .shape import vocabulary_of

    counts = np.zeros(target.vocabulary, np.int64)
    for tokens in texts.training:
        np.add.at(counts, tokens, 1)
    return vocabulary_of(counts, target.ends())


def main(arguments: Sequence[str] | None = None) -> int:
    p = parser()
    options = p.parse_args(arguments)
    if options.feed_forward is not None and (options.feed_forward < 32 or options.feed_forward % 32 != 0):
        p.error("--feed-forward must be a positive multiple of 32")
    if options.hours <= 0 or options.threads < 1 or options.memory < 1 or options.tokens < 1:
        p.error("--hours, --tokens, --threads and --memory must be positive")
    goes_on_there = options.goes_on is not None and options.goes_on.exists() and options.output.exists()
    overwrites = options.force or (goes_on_there and options.output.samefile(options.goes_on))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # saves, as Ctrl-C does
    try:
        check_output(options.output, overwrites, f"use --continue {options.output} to train it further, or --force")
        train(options)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "gguf"):
            raise
        print(f"specdec-train needs {error.name}: {REMEDY}", file=sys.stderr)
        return 1
    except (Error, ValueError) as error:
        print(f"specdec-train: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("specdec-train: interrupted before anything was trained; nothing was written", file=sys.stderr)
        return 130
    return 0
