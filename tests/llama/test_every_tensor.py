"""A file in which one tensor is missing, or of another type or shape, gives text or an error that names the file: for
every tensor of a model of each architecture; the same for the metadata of drafting heads in files of their own
(fuzz_generate has those of models). A sample of them here; all, tens of thousands, with SPECDEC_EVERY_TENSOR=1.
"""

from __future__ import annotations

import functools
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from gguf_bytes import ARRAY, BOOL, F32, I32, STRING, U32, U64, array, string, u32, u64
from parsed_gguf import SIZES, Parsed
from tests.models.tiny_models import (
    RECIPES,
    SHAPES,
    WITH_HEADS,
    WITH_LONG_HEADS,
    Block,
    Model,
    Shape,
    block_drafter,
    damped,
    eagle3_head,
    gemma4_assistant,
    make,
    with_head,
    with_mask,
)

import specdec_native as sd

ROOT = pathlib.Path(__file__).parents[2]
EVERY = bool(os.environ.get("SPECDEC_EVERY_TENSOR"))
SAMPLE = 1500  # besides each missing tensor
TYPES = sorted({*map(int, GgmlType), *SIZES, 4, 31, 1000})
MXFP6 = (96, 97)
NOT_NUMBERS = re.compile(  # sound, but its weights are not
    r"the (target|draft) model failed: logits contain NaN \(first at id \d+\)"
)
HEAD = "+head"  # a model with its drafting head
FACTORS = {  # of rotations, by dimension: tensors that a file need not have
    "llama+factors": ["rope_freqs.weight"],
    "phi3+factors": ["rope_factors_long.weight", "rope_factors_short.weight"],
}
HEAD_FILES = {  # drafting heads in files of their own, and their targets
    "eagle3": ("llama", eagle3_head),
    "eagle3+own": ("llama", functools.partial(eagle3_head, own_parts=True)),
    "assistant": ("gemma4", gemma4_assistant),
    "dflash": ("llama", block_drafter),
    "dspark+own": ("llama", functools.partial(block_drafter, block=Block(biased=True, own_parts=True))),
}
MODELS = [*RECIPES, *(name + HEAD for name in WITH_HEADS), *FACTORS, *HEAD_FILES]
WIDE = "/wide"  # rows of 256, the blocks of many types


def wide(name: str) -> Shape:
    shape = SHAPES.get(name, Shape())
    return replace(shape, width=256, heads=4, kv_heads=min(shape.kv_heads, 4), head=64, ffn=256)


def target_of(model: str) -> Model:
    """Of HEAD_FILES. Block drafters need a mask."""
    made = make(HEAD_FILES[model][0])
    return with_mask(made) if model.startswith("d") else damped(made)


def target(model: str, folder: pathlib.Path) -> pathlib.Path:
    """The files of HEAD_FILES, written once."""
    path = folder / f"target-of-{model}.gguf"
    return path if path.exists() else target_of(model).write(path)


@functools.cache
def parsed(model: str) -> Parsed:
    """A sound file of MODELS, or of one of RECIPES that is wide."""
    if model in HEAD_FILES:
        with tempfile.TemporaryDirectory() as folder:
            return Parsed.of(HEAD_FILES[model][1](target_of(model)).write(pathlib.Path(folder) / "m.gguf").read_bytes())
    name = re.split(r"[+/]", model)[0]
    if model.endswith(HEAD):
        made = with_head(name, layers=2 if name in WITH_LONG_HEADS else 1)
    else:
        made = make(name, shape=wide(name) if model.endswith(WIDE) else None)
    factors = np.ones(made.shape.head // 2, np.float32)
    made = made.with_tensors({tensor: factors for tensor in FACTORS.get(model, [])})
    with tempfile.TemporaryDirectory() as folder:
        return Parsed.of(made.write(pathlib.Path(folder) / "m.gguf").read_bytes())


@dataclass(frozen=True)
class Change:
    model: str
    tensor: str
    kind: int | None = None  # neither: the tensor is missing
    shape: tuple[int, ...] | None = None
    metadata: tuple[str, int, str] | None = None  # instead: a key, the type of its value, and that in hexadecimal

    def file(self) -> bytes:
        sound = parsed(self.model)
        if self.metadata is not None:
            key, kind, value = self.metadata
            return sound.with_entry(key, kind, bytes.fromhex(value)).build()
        if self.kind is None and self.shape is None:
            return sound.without_tensor(self.tensor).build()
        changed = sound.with_tensor(self.tensor, kind=self.kind, shape=None if self.shape is None else list(self.shape))
        return (changed.with_entry("mxfp6.layout", U32, u32(1)) if self.kind in MXFP6 else changed).build()


def other_shapes(shape: list[int]) -> set[tuple[int, ...]]:
    """Reversed, flat, with one dimension more, and with each dimension one more or less, none, or halved."""
    found = {tuple(reversed(shape)), (*shape, 1), (*shape, 2), (math.prod(shape),)}
    for i, size in enumerate(shape):
        found |= {(*shape[:i], other, *shape[i + 1 :]) for other in (size + 1, size - 1, 0, size // 2, 2 * size)}
    return {other for other in found if other != tuple(shape) and len(other) <= 4}


def missing() -> list[Change]:
    return [Change(model, tensor) for model in MODELS for tensor, _, _, _ in parsed(model).tensors]


def of_other_types() -> list[Change]:
    models = [model + WIDE if model in RECIPES else model for model in MODELS]
    return [Change(model, name, kind) for model in models for name, _, _, _ in parsed(model).tensors for kind in TYPES]


def of_other_shapes() -> list[Change]:
    tensors = [(model, name, shape) for model in MODELS for name, shape, _, _ in parsed(model).tensors]
    return [Change(model, name, shape=other) for model, name, shape in tensors for other in sorted(other_shapes(shape))]


def of_other_metadata() -> list[Change]:
    """The keys of heads, except their vocabularies, and the other keys that llama.cpp looks for."""
    numbers = [0, 1, 2, 3, 5, 7, 16, 31, 33, 48, 64, 128, 1000, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    values = [(U32, u32(number)) for number in numbers] + [
        (I32, u32((1 << 32) - 1)),
        (U64, u64(1 << 63)),
        (BOOL, b"\1"),
    ]
    values += [(F32, struct.pack("<f", number)) for number in (0.0, -1.0, 1e30, math.nan)] + [(STRING, string("x"))]
    lists = [[], [0, 1], [1, 0], [2, 2, 2], [0, 1, 1 << 31]]
    values += [(ARRAY, array(U32, len(some), b"".join(map(u32, some)))) for some in lists]
    values += [(ARRAY, array(BOOL, len(some), some)) for some in (b"\0\1", b"\1\0", b"\1\1")]
    others = (
        "attention.shared_kv_layers",
        "attention.scale",
        "rope.scaling.type",
        "final_logit_softcapping",
        "expert_count",
    )
    changes = []
    for model in HEAD_FILES:
        entries = parsed(model).entries
        prefix = next(key for key in entries if key.endswith(".block_count")).removesuffix("block_count")
        keys = dict.fromkeys(
            [*(key for key in entries if key.startswith(prefix)), *(prefix + other for other in others)]
        )
        changes += [Change(model, "", metadata=(key, kind, value.hex())) for key in keys for kind, value in values]
    return changes


def outcome(path: pathlib.Path, change: Change) -> str:
    """ "text", or the error."""
    pair: tuple[pathlib.Path, pathlib.Path | str | None] = (path, "mtp" if change.model.endswith(HEAD) else None)
    if change.model in HEAD_FILES:
        pair = (target(change.model, path.parent), path)
    try:
        with sd.Generator(*pair, n_ctx=64, n_threads=1, num_draft_tokens=2) as generator:
            generator.generate("ab", max_tokens=3, seed=1)
    except sd.Error as error:
        return str(error)
    return "text"


def run(changes: list[Change], folder: pathlib.Path) -> list[str]:
    """The outcome of each, in processes of their own: one ends with the first change that crashes it."""
    outcomes: list[str] = []
    while len(outcomes) < len(changes):
        left = folder / "changes.txt"
        left.write_text("\n".join(json.dumps(asdict(change)) for change in changes[len(outcomes) :]), encoding="utf-8")
        child = subprocess.run(
            [sys.executable, __file__, left, folder / "m.gguf"],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "gguf", ROOT / "python")))},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20 + 5 * (len(changes) - len(outcomes)),
            check=False,
        )
        outcomes += child.stdout.splitlines()
        if child.returncode != 0:
            outcomes.append(f"CRASH {child.returncode}: {child.stderr.strip()[-300:]}")
    return outcomes


def check(changes: list[Change], folder: pathlib.Path) -> Counter[str]:
    """All end well; how many in which way."""
    outcomes = run(changes, folder)
    assert len(outcomes) == len(changes)
    ends_well = [text == "text" or NOT_NUMBERS.fullmatch(text) is not None for text in outcomes]
    wrong = [
        (change, text)
        for change, text, is_well in zip(changes, outcomes, ends_well, strict=True)
        if not is_well and (text.startswith("CRASH") or str(folder) not in text)  # of the file, or of its target
    ]
    assert not wrong, f"{len(wrong)} of {len(changes)}: " + "\n".join(map(str, wrong[:20]))
    return Counter("text" if is_well else "error" for is_well in ends_well)


def some(changes: list[Change]) -> list[Change]:
    return changes if EVERY else random.Random(18).sample(changes, SAMPLE // 2)


@pytest.mark.parametrize("model", [*MODELS, *(name + WIDE for name in RECIPES)])
def test_unchanged_models_generate(model: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(parsed(model).build())
    assert outcome(path, Change(model, "")) == "text"


def test_a_missing_tensor(tmp_path: pathlib.Path) -> None:
    changes = missing()
    counts = check(changes, tmp_path)
    assert counts["error"] > 0.8 * len(changes) and counts["text"] > 0, counts


@pytest.mark.parametrize(
    ("model", "tensor"),
    [
        ("phi3", "blk.1.attn_qkv.weight"),
        ("qwen35", "blk.0.attn_qkv.weight"),
        ("qwen35moe", "blk.0.attn_gate.weight"),
        ("granitehybrid", "blk.0.ssm_conv1d.bias"),
        ("nemotron_h", "blk.0.ssm_conv1d.bias"),
    ],
)
def test_an_optional_tensor_that_is_used_is_named(model: str, tensor: str, tmp_path: pathlib.Path) -> None:
    (text,) = run([Change(model, tensor)], tmp_path)
    assert re.fullmatch(
        rf'.*/m\.gguf: the file lacks a tensor that .* needs.*"{re.escape(tensor)}".*; convert .* again', text
    ), text


def test_another_type(tmp_path: pathlib.Path) -> None:
    counts = check(some(of_other_types()), tmp_path)
    assert min(counts["text"], counts["error"]) > 100, counts


def test_another_shape(tmp_path: pathlib.Path) -> None:
    counts = check(some(of_other_shapes()), tmp_path)
    assert counts["error"] > 100, counts


def test_other_metadata_of_a_head(tmp_path: pathlib.Path) -> None:
    changes = of_other_metadata()
    counts = check(changes if EVERY else random.Random(18).sample(changes, SAMPLE // 5), tmp_path)
    assert min(counts["text"], counts["error"]) > 20, counts


if __name__ == "__main__":
    for line in pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        one = Change(**json.loads(line))
        pathlib.Path(sys.argv[2]).write_bytes(one.file())
        print(outcome(pathlib.Path(sys.argv[2]), one).replace("\n", " "), flush=True)
