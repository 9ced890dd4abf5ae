"""Models whose metadata or tensor types were changed in one place, through the whole of a generation: none may end the process.

    PYTHONPATH=.:tests/gguf python tests/fuzz/hostile_models.py [--files N] [--seed S]     (make fuzz)

Every file is a tiny model of one of the architectures of tests/models/tiny_models.py with one change: an entry of the metadata
has another value, another type, or is missing or new; a tensor has another type; tokens, of tokenizers of all kinds, have other
texts, types or scores. A worker process loads each file, tokenizes and generates. A file that kills the worker, or keeps it for
more than 20 seconds, is a finding; with any, the exit code is 1.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import math
import multiprocessing
import multiprocessing.connection
import pathlib
import random
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gguf import TokenType
from gguf_bytes import ARRAY, BOOL, F32, F64, I8, I32, I64, STRING, U8, U16, U32, U64, Gguf, array, entry, string, u32, u64
from gguf_bytes import tensor as tensor_entry
from tests.models.tiny_models import RECIPES, Vocabulary, make

FIXED = {U8: 1, I8: 1, U16: 2, 3: 2, U32: 4, I32: 4, F32: 4, BOOL: 1, U64: 8, I64: 8, F64: 8}
TIMEOUT = 20.0

# What a file might hold for a hyperparameter: (type, bytes).
VALUES = [(U32, u32(n)) for n in (0, 1, 2, 3, 7, 63, 255, 4096, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)]
VALUES += [(I32, struct.pack("<i", n)) for n in (-1, -2, -(2**31))]
VALUES += [(U64, u64(n)) for n in (2**32, 2**63, 2**64 - 1)]
VALUES += [(I64, struct.pack("<q", n)) for n in (-1, -(2**63))]
VALUES += [(F32, struct.pack("<f", x)) for x in (0.0, -1.0, float("nan"), float("inf"), 1e30)]
VALUES += [(U8, b"\x00"), (U16, b"\xff\xff"), (BOOL, b"\x01"), (STRING, string("")), (STRING, string("x" * 300))]
VALUES += [(STRING, string(b"\xff\x1b[2J\n")), (F64, struct.pack("<d", float("nan")))]
VALUES += [
    (ARRAY, array(U32, 0)),
    (ARRAY, array(U32, 2, u32(0) + u32(2**32 - 1))),
    (ARRAY, array(I32, 1, struct.pack("<i", -1))),
]
VALUES += [(ARRAY, array(STRING, 1, string("a"))), (ARRAY, array(F32, 3, bytes(12)))]

# Keys that models may have and these tiny ones lack.
NEW_KEYS = [
    "attention.key_length_swa",
    "attention.value_length_swa",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.causal",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.scale",
    "attention.group_norm_groups",
    "attention.temperature_length",
    "rope.dimension_count_swa",
    "rope.dimension_sections",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scale_linear",
    "expert_count",
    "expert_used_count",
    "expert_group_count",
    "expert_group_used_count",
    "expert_gating_func",
    "expert_shared_count",
    "expert_weights_norm",
    "leading_dense_block_count",
    "nextn_predict_layers",
    "vocab_size",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "pooling_type",
    "ssm.group_count",
    "ssm.dt_b_c_rms",
    "embedding_length_out",
    "full_attention_interval",
    "decoder_start_token_id",
    "use_parallel_residual",
    "tensor_data_layout",
    "feed_forward_length",
    "embedding_length",
    "context_length",
    "block_count",
]
TOKENIZER_KEYS = [
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.precompiled_charsmap",
    "tokenizer.chat_template",
    "general.alignment",
    "general.architecture",
    "split.count",
    "split.no",
]


# Tokenizers other than the byte-level BPE of tiny models, with every byte: SentencePiece, RWKV, unigram, WordPiece, PLaMo-2.
BYTES = {"llama": "<0x{:02X}>", "t5": "<0x{:02X}>", "bert": "<0x{:02X}>", "plamo2": "<0x{:02X}>", "rwkv": "\\x{:02x}"}
MARK_BYTES = ("llama", "t5", "plamo2")  # tokenizers whose byte tokens have a type of their own
WORDS = ["\u2581", *"abcdefghijklmnopqrstuvwxyzH", "He", "llo", "\u2581w", "rld"]


# What the tokens of a vocabulary might have instead.
ELEMENTS = {
    "tokenizer.ggml.tokens": [*map(string, ("", "ab", "l", "\u2581", "x" * 70_000, b"\xff\x1b[2J", "<0x", "\\x"))],
    "tokenizer.ggml.token_type": [struct.pack("<i", kind) for kind in (-1, 0, 2, 3, 4, 5, 6, 99)],
    "tokenizer.ggml.scores": [struct.pack("<f", score) for score in (float("nan"), float("inf"), -1e38, 1e38)],
}


def vocabulary(model: str) -> Vocabulary:
    texts = [*map(BYTES[model].format, range(256)), *WORDS]
    return Vocabulary(model=model, size=2 + len(texts), merges=(), renamed=dict(enumerate(texts, start=2)))


def value_end(data: bytes, at: int, kind: int) -> int:
    """Where a value of a sound file ends."""
    if kind == STRING:
        return at + 8 + int(struct.unpack_from("<Q", data, at)[0])
    if kind != ARRAY:
        return at + FIXED[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = value_end(data, at, inner)
    return at


@dataclass
class Parsed:
    """A sound file taken apart."""

    entries: dict[str, tuple[int, bytes]]  # key: type, value
    tensors: list[tuple[str, list[int], int, int]]  # name, shape, type, offset
    data: bytes

    @classmethod
    def of(cls, content: bytes) -> Parsed:
        num_tensors, num_entries = struct.unpack_from("<QQ", content, 8)
        at, entries = 24, {}
        for _ in range(num_entries):
            end = value_end(content, at, STRING)
            key, (kind,) = content[at + 8 : end].decode(), struct.unpack_from("<I", content, end)
            stop = value_end(content, end + 4, kind)
            entries[key], at = (kind, content[end + 4 : stop]), stop
        tensors = []
        for _ in range(num_tensors):
            end = value_end(content, at, STRING)
            name, (dims,) = content[at + 8 : end].decode(), struct.unpack_from("<I", content, end)
            shape = list(struct.unpack_from(f"<{dims}Q", content, end + 4))
            kind, offset = struct.unpack_from("<IQ", content, end + 4 + 8 * dims)
            tensors.append((name, shape, kind, offset))
            at = end + 4 + 8 * dims + 12
        return cls(entries, tensors, content[(at + 31) // 32 * 32 :])

    def with_type(self, name: str, kind: int) -> Parsed:
        """One tensor of another type, at the end of the data, where any type has room."""
        (shape,) = (shape for n, shape, _, _ in self.tensors if n == name)
        end = (len(self.data) + 31) // 32 * 32
        changed = [(n, s, kind if n == name else t, end if n == name else at) for n, s, t, at in self.tensors]
        return Parsed(self.entries, changed, self.data + bytes(end - len(self.data) + 8 * math.prod(shape)))

    def without(self, key: str) -> Parsed:
        return Parsed({k: v for k, v in self.entries.items() if k != key}, self.tensors, self.data)

    def with_entry(self, key: str, kind: int, value: bytes) -> Parsed:
        return Parsed({**self.entries, key: (kind, value)}, self.tensors, self.data)

    def with_elements(self, key: str, begin: int, end: int, element: bytes) -> Parsed:
        """Elements begin .. end - 1 of an array replaced."""
        stored = self.entries[key][1]
        (inner,), elements = struct.unpack_from("<I", stored), elements_of(stored)
        elements[begin:end] = [element] * (end - begin)
        return self.with_entry(key, ARRAY, array(inner, len(elements), b"".join(elements)))

    def build(self) -> bytes:
        entries = [entry(key, kind, value) for key, (kind, value) in self.entries.items()]
        tensors = [tensor_entry(name, shape, kind, offset) for name, shape, kind, offset in self.tensors]
        return Gguf(entries=entries, tensors=tensors, data=self.data).build()


# ggml's ids: floats, integers, block types.
OTHER_TYPES = [1, 30, 24, 25, 26, 9, 8, 2, 6, 7, 20, 27, 28, 12, 14, 96]


Changes = Iterator[tuple[str, Callable[[], Parsed]]]  # what is changed, and what changes it


def changed_metadata(base: Parsed, keys: Iterable[str]) -> Changes:
    """Each key missing, and with every other value."""
    for key in keys:
        if key in base.entries:
            yield f"{key} missing", functools.partial(base.without, key)
        for kind, value in VALUES:
            yield f"{key} = type {kind} {value[:24]!r}", functools.partial(base.with_entry, key, kind, value)


def changed_models(base: Parsed, architecture: str) -> Changes:
    yield from changed_metadata(
        base, dict.fromkeys([*base.entries, *TOKENIZER_KEYS, *(f"{architecture}.{k}" for k in NEW_KEYS)])
    )
    for name, *_ in base.tensors:
        for kind in OTHER_TYPES:
            yield f"{name} of type {kind}", functools.partial(base.with_type, name, kind)


def changed_vocabularies(base: Parsed) -> Changes:
    """Also with one token, or all from one on, of another text, type or score."""
    yield from changed_metadata(base, TOKENIZER_KEYS)
    for key, values in ELEMENTS.items():
        if key not in base.entries:
            continue
        count = int(struct.unpack_from("<Q", base.entries[key][1], 4)[0])
        for at in dict.fromkeys([*range(0, count, 9), *map(ord, "Hello, w"), 2 + ord("H"), 2 + 0xC3, count - 1]):
            for value in values:
                for end in (at + 1, count):
                    yield f"{key}[{at}:{end}] = {value[:24]!r}", functools.partial(base.with_elements, key, at, end, value)


def elements_of(value: bytes) -> list[bytes]:
    """The elements of an array, as they are stored."""
    inner, count = struct.unpack_from("<IQ", value, 0)
    ends = list(itertools.accumulate(range(count), lambda at, _: value_end(value, at, inner), initial=12))
    return [value[begin:end] for begin, end in itertools.pairwise(ends)]


def bases(path: pathlib.Path) -> dict[str, Callable[[], Changes]]:
    """What is changed: name -> all its changes. Sound files are written to `path` on the way."""
    found: dict[str, Callable[[], Changes]] = {}
    for name in RECIPES:
        base = Parsed.of(make(name).write(path).read_bytes())
        found[name] = functools.partial(changed_models, base, RECIPES[name].architecture)
    for name in BYTES:
        base = Parsed.of(make("llama", vocabulary=vocabulary(name)).write(path).read_bytes())
        if name in MARK_BYTES:
            base = base.with_elements("tokenizer.ggml.token_type", 2, 2 + 256, struct.pack("<i", TokenType.BYTE))
        found[f"vocabulary {name}"] = functools.partial(changed_vocabularies, base)
    return found


def work(connection: multiprocessing.connection.Connection) -> None:
    """Runs the files whose paths arrive, and answers what became of each."""
    import specdec_native as sd

    while True:
        try:
            path = connection.recv()
        except EOFError:  # the end
            return
        try:
            generator = sd.Generator(path, draft=None, n_ctx=64, n_threads=1)
            generator.generate("Hello, w\u00f6rld", max_tokens=3, temperature=0)
            connection.send("ran")
        except Exception as error:  # any error is fine: the process lives
            connection.send(type(error).__name__)


class Worker:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=work, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def run(self, path: pathlib.Path) -> str:
        """What became of the file; "died" and "hung" are findings, after which the worker is gone."""
        try:
            self._connection.send(str(path))
            if self._connection.poll(TIMEOUT):
                return str(self._connection.recv())
        except (EOFError, OSError):
            self._process.join()
            return f"died ({self._process.exitcode})"
        self._process.kill()
        return "hung"


def run(num_files: int, seed: int, keep: pathlib.Path | None = None) -> tuple[collections.Counter[str], list[str]]:
    """Tries num_files files (all there are, if fewer), chosen by the seed; how they ended, and the findings."""
    outcomes: collections.Counter[str] = collections.Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path, worker = pathlib.Path(folder) / "model.gguf", Worker()
        changes = bases(path)
        counts = {name: sum(1 for _ in files()) for name, files in changes.items()}
        chosen = {(name, i) for name, count in counts.items() for i in range(count)}
        if num_files < len(chosen):
            chosen = set(random.Random(seed).sample(sorted(chosen), num_files))
        for name, files in changes.items():
            for i, (change, changed) in enumerate(files()):
                if (name, i) not in chosen:
                    continue
                content = changed().build()
                path.write_bytes(content)
                outcome = worker.run(path)
                outcomes[outcome] += 1
                if outcome.startswith(("died", "hung")):
                    findings.append(f"{name}: {change}: {outcome}")
                    if keep is not None:
                        (keep / f"finding-{len(findings)}.gguf").write_bytes(content)
                    worker = Worker()
    return outcomes, findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000, help="at most; default: every single change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the files that are findings")
    options = parser.parse_args()
    outcomes, findings = run(options.files, options.seed, options.keep)
    for finding in findings:
        print(finding)
    print(f"{sum(outcomes.values())} files:", ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
