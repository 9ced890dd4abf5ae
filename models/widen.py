"""Make a small llama model as large as a real one, computing the same function: python models/widen.py 7b OUT.gguf.

The small model occupies a corner of the large one. All other weights are random: they are read and multiplied as in a
real model, but do not change the result. The logits are the small model's up to F16 rounding, so both acceptance and
cost are realistic. With d the small width and D the large one:

- The residual's columns from d on stay 0. Matrices that read them (q, k, v, gate, up, output) may be random there;
  those that write them (token_embd, attn_output, ffn_down) have zeros wherever their input can be nonzero.
- RMSNorm divides by the mean over D columns: its weights are multiplied by sqrt(d/D), its epsilon by d/D.
- Heads keep their width. A small kv head occupies one kv head of the large model, and its query heads those that read
  it. If a large kv head serves fewer query heads than a small one (grouped-query into multi-head), the small kv head is
  copied.
- v of the other heads and gate of the other neurons are zero in the first d columns, so their output is 0, and
  attn_output and ffn_down may be random there. All heads and neurons of additional layers are like that.
- Padding ids (--vocabulary) need a logit below all others, and llama has no output bias. So the residual's last column
  holds a constant, and epsilon is reduced by its square, which leaves all norms unchanged. Only the output norm passes
  the constant on, to the rows of the padding ids, where it gives logits of -1000 and less.
- An EAGLE-3 head stays one layer. It reads rows side by side, of three layers (fc) or of a token and what it is read
  with (q, k, v), each of which gets D columns. Embeddings and the output matrix are the target's.
- A block drafter (DSpark) keeps its layers, too. Its confidence reads a row and the bias's vector side by side; the
  bias itself depends on tokens only. Its norms of queries and keys keep their width but get the smaller epsilon, which
  changes them by less than F16 rounding.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

MODELS = pathlib.Path(__file__).resolve().parent
Array = npt.NDArray[Any]  # F16 or F32
F16Array = npt.NDArray[np.float16]
F32Array = npt.NDArray[np.float32]
Patch = tuple[int, int, Array]  # row, column, values


class OutputFile:
    """A file that gets its name when it is complete, by the rule of cpp/platform/output_file.h. Not that itself:
    `make demo` runs this script where only the program is built."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial-{os.getpid()}")

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.partial.replace(self.path)
        self.partial.unlink(missing_ok=True)


def check_output(out: pathlib.Path, overwrites: bool) -> None:
    if not out.parent.is_dir():
        raise WidenError(f"{out.parent}: no such folder")
    if out.exists() and not out.is_file():
        raise WidenError(f"{out}: not a regular file")
    if out.exists() and not overwrites:
        raise WidenError(f"{out} exists; use --force to replace it")


class WidenError(Exception):
    """An error that the user can correct."""


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    vocabulary: int


NAMED_HEAD = 64  # columns of a head in these shapes
NAMED = {  # layers, width, ffn, heads, kv heads
    "7b": (32, 4096, 11008, 64, 64),
    "1.1b": (22, 2048, 5632, 32, 4),
    "115m": (12, 768, 2816, 12, 12),
}
# Acceptance rate of the bundled draft for itself perturbed: strength. Measured by bench/acceptance/acceptance.py.
STRENGTHS = {0.5: 0.12, 0.6: 0.09, 0.7: 0.064, 0.8: 0.044, 0.9: 0.019, 0.95: 0.0099}


# ---- The small model


@dataclass(frozen=True)
class Small:
    architecture: str
    shape: Shape
    head: int  # columns of a head
    epsilon: float
    fields: dict[str, gguf.ReaderField]
    tensors: dict[str, Array]  # [rows, columns] or [columns]

    def layer(self, index: int, name: str) -> Array:
        return self.tensors[f"blk.{index}.{name}.weight"]


MATRICES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
NORMS = ["attn_norm", "ffn_norm"]
HEAD, BLOCK_DRAFTER = "eagle3", "dflash"  # architectures of drafters
HEAD_WIDE = ["attn_q_norm", "attn_k_norm"]  # norms of a block drafter's heads, which keep their width
BIAS = ["markov_w1.weight", "markov_w2.weight"]  # by the token before, [vocabulary, rank]


def norms(architecture: str) -> list[str]:
    return [*NORMS, "attn_norm_2"] if architecture == HEAD else NORMS


def own_tensors(architecture: str) -> set[str]:
    """Outside the layers."""
    if architecture == HEAD:
        return {"fc.weight", "output_norm.weight"}
    if architecture == BLOCK_DRAFTER:
        parts = {"fc.weight", "enc.output_norm.weight", "output_norm.weight", "conf_proj.weight", "conf_proj.bias"}
        return parts | set(BIAS)
    return {"token_embd.weight", "output_norm.weight"}


def read(path: pathlib.Path) -> Small:
    if not path.is_file():
        raise WidenError(f"{path}: no such file")
    try:
        reader = gguf.GGUFReader(path)
    except ValueError as error:
        raise WidenError(f"{path}: not a GGUF file ({error})") from None

    def value(key: str, default: Any = None) -> Any:
        field = reader.fields.get(key)
        return default if field is None else field.contents()

    arch = value("general.architecture")
    if arch not in ("llama", HEAD, BLOCK_DRAFTER):
        raise WidenError(f"{path}: architecture is {arch}; only llama, {HEAD} and {BLOCK_DRAFTER} can be widened")
    tensors = {tensor.name: np.asarray(tensor.data) for tensor in reader.tensors}
    heads = int(value(f"{arch}.attention.head_count"))
    width, layers = int(value(f"{arch}.embedding_length")), int(value(f"{arch}.block_count"))
    shape = Shape(
        layers,
        width,
        int(value(f"{arch}.feed_forward_length")),
        heads,
        int(value(f"{arch}.attention.head_count_kv", heads)),
        len(value("tokenizer.ggml.tokens")),
    )
    in_layers = [*MATRICES, *norms(arch), *(HEAD_WIDE if arch == BLOCK_DRAFTER else [])]
    known = {f"blk.{i}.{name}.weight" for i in range(layers) for name in in_layers} | own_tensors(arch)
    if difference := (known ^ tensors.keys()) - ({"output.weight"} if arch == "llama" else set()):
        raise WidenError(
            f"{path}: only plain llama models, EAGLE-3 heads and DSpark drafters; {min(difference)} is missing or"
            " unexpected"
        )
    for name, tensor in tensors.items():
        if tensor.dtype not in (np.float16, np.float32):
            raise WidenError(f"{path}: {name} is quantized; give the F16 or F32 file")
    head = int(value(f"{arch}.attention.key_length", width // heads))
    return Small(
        arch, shape, head, float(value(f"{arch}.attention.layer_norm_rms_epsilon")), dict(reader.fields), tensors
    )


def perturbed(small: Small, strength: float, seed: int) -> Small:
    """Adds Gaussian noise of `strength` times its standard deviation to every matrix; rounds to F16."""
    if not 0 <= strength < math.inf:
        raise WidenError(f"--perturb is {strength}; it must be at least 0")
    if strength == 0:
        return small
    rng = np.random.default_rng([seed, 0])

    def noisy(tensor: Array) -> Array:
        if tensor.ndim < 2:
            return tensor
        w = tensor.astype(np.float32)
        w += np.float32(strength) * w.std() * rng.standard_normal(w.shape, np.float32)
        return w.astype(np.float16)

    return replace(small, tensors={name: noisy(small.tensors[name]) for name in sorted(small.tensors)})


def strength_for(acceptance: float) -> float:
    """Interpolates linearly between the measured rates."""
    rates = sorted(STRENGTHS)
    if not rates[0] <= acceptance <= rates[-1]:
        raise WidenError(f"--acceptance is {acceptance}; it must be between {rates[0]} and {rates[-1]}")
    return float(np.interp(acceptance, rates, [STRENGTHS[rate] for rate in rates]))


# ---- The large model: matrices described, written in blocks of rows


@dataclass(frozen=True)
class Matrix:
    """A random matrix, overwritten by the patches in order."""

    name: str
    rows: int
    columns: int
    deviation: float
    patches: list[Patch]

    @property
    def bytes(self) -> int:
        return 2 * self.rows * self.columns


@dataclass(frozen=True)
class Vector:
    name: str
    values: F32Array

    @property
    def bytes(self) -> int:
        return self.values.nbytes


def zeros(rows: int, columns: int) -> F16Array:
    return np.broadcast_to(np.float16(0), (rows, columns))


def check(small: Small, shape: Shape) -> None:
    s = small.shape
    for name in ("layers", "width", "ffn", "heads", "vocabulary"):
        if getattr(shape, name) < getattr(s, name):
            raise WidenError(
                f"--{name} is {getattr(shape, name)}; the small model has {getattr(s, name)}, and it must fit in"
            )
    for name in ("width", "ffn"):
        if getattr(shape, name) % 32 != 0:
            raise WidenError(
                f"--{name} is {getattr(shape, name)}; it must be a multiple of 32, the block of quantized types"
            )
    if shape.kv_heads < 1 or shape.heads % shape.kv_heads != 0:
        raise WidenError(f"--kv-heads is {shape.kv_heads}; it must divide the {shape.heads} heads")
    if (needed := s.kv_heads * copies(small, shape)) > shape.kv_heads:
        raise WidenError(
            f"--kv-heads is {shape.kv_heads} for {shape.heads} heads; "
            f"the small model's {s.heads} heads on {s.kv_heads} need {needed}"
        )
    if small.architecture != "llama" and shape.vocabulary != s.vocabulary:
        raise WidenError(f"--vocabulary is {shape.vocabulary}; a drafter has the {s.vocabulary} of its file")
    if small.architecture == BLOCK_DRAFTER and shape.layers != s.layers:
        raise WidenError(f"--layers is {shape.layers}; a block drafter has the {s.layers} of its file")
    if shape.vocabulary > s.vocabulary and shape.width < s.width + 32:
        raise WidenError(f"--vocabulary {shape.vocabulary} needs a --width of at least {s.width + 32}")


def copies(small: Small, shape: Shape) -> int:
    """Number of large kv heads per small one: ratio of the query heads per kv head, rounded up."""
    return -(-(small.shape.heads // small.shape.kv_heads) // (shape.heads // shape.kv_heads))


def places(small: Small, shape: Shape) -> Iterator[tuple[int, int, int, int]]:
    """For every small query head: its index, its kv head, and the indices of both in the large model."""
    small_group, group = small.shape.heads // small.shape.kv_heads, shape.heads // shape.kv_heads
    for head in range(small.shape.heads):
        kv, member = divmod(head, small_group)
        place = kv * copies(small, shape) + member // group
        yield head, kv, place * group + member % group, place


def spread(small: Small, shape: Shape, row: int, values: Array) -> list[Patch]:
    """Values [rows, parts * small width] over rows side by side, each of which is as wide as the large model."""
    d = small.shape.width
    return [(row, part * shape.width, values[:, part * d : (part + 1) * d]) for part in range(values.shape[1] // d)]


def attention(small: Small, shape: Shape, layer: int) -> dict[str, list[Patch]]:
    h, group = small.head, shape.heads // shape.kv_heads
    patches: dict[str, list[Patch]] = {name: [] for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
    inputs = small.layer(0, "attn_v").shape[1]
    patches["attn_v"] += spread(small, shape, 0, zeros(shape.kv_heads * h, inputs))
    if layer >= small.shape.layers:
        return patches
    used = max(place for *_, place in places(small, shape)) + 1
    patches["attn_output"].append((0, 0, zeros(shape.width, used * group * h)))
    q, k, v, o = (small.layer(layer, name) for name in patches)
    for head, _, place, _ in places(small, shape):
        patches["attn_q"] += spread(small, shape, place * h, q[head * h : (head + 1) * h])
        patches["attn_output"].append((0, place * h, o[:, head * h : (head + 1) * h]))
    for kv, place in sorted({(kv, place) for _, kv, _, place in places(small, shape)}):
        patches["attn_k"] += spread(small, shape, place * h, k[kv * h : (kv + 1) * h])
        patches["attn_v"] += spread(small, shape, place * h, v[kv * h : (kv + 1) * h])
    return patches


def feed_forward(small: Small, shape: Shape, layer: int) -> dict[str, list[Patch]]:
    gate_off = (0, 0, zeros(shape.ffn, small.shape.width))  # silu(0) is 0
    if layer >= small.shape.layers:
        return {"ffn_gate": [gate_off], "ffn_up": [], "ffn_down": []}
    return {
        "ffn_gate": [gate_off, (0, 0, small.layer(layer, "ffn_gate"))],
        "ffn_up": [(0, 0, small.layer(layer, "ffn_up"))],
        "ffn_down": [(0, 0, zeros(shape.width, small.shape.ffn)), (0, 0, small.layer(layer, "ffn_down"))],
    }


def constant(small: Small) -> float:
    """The residual's last column if there are padding ids: a power of two whose square is below epsilon's part of
    the sum."""
    return float(2.0 ** math.floor(math.log2(math.sqrt(0.9 * small.epsilon * small.shape.width))))


def norm(small: Small, shape: Shape, values: Array) -> F32Array:
    """Sets the last column to 0, so that the constant is not read."""
    d = small.shape.width
    wide = np.full(shape.width, values.mean(), np.float64)
    wide[:d] = values
    wide *= math.sqrt(d / shape.width)
    if shape.vocabulary > small.shape.vocabulary:
        wide[-1] = 0
    return wide.astype(np.float32)


def fc(small: Small, shape: Shape) -> Matrix:
    """What makes a head's rows of the target's."""
    values = small.tensors["fc.weight"]
    parts = values.shape[1] // small.shape.width
    patches = spread(small, shape, 0, zeros(shape.width, values.shape[1])) + spread(small, shape, 0, values)
    return Matrix("fc.weight", shape.width, parts * shape.width, float(values.astype(np.float32).std()), patches)


def vocabulary_tensors(small: Small, shape: Shape) -> list[Matrix | Vector]:
    d, v = small.shape.width, small.shape.vocabulary
    embedding = small.tensors["token_embd.weight"]
    head = small.tensors.get("output.weight", embedding)  # tied in the small model, apart in the large one
    embedding_patches = [(0, 0, zeros(shape.vocabulary, shape.width)), (0, 0, embedding)]
    head_patches = [(0, 0, head)]
    output_norm = norm(small, shape, small.tensors["output_norm.weight"])
    if shape.vocabulary > v:
        # The constant leaves the output norm as 16 over the small model's root mean square; times -32768 it is the
        # logit.
        column = np.full((shape.vocabulary, 1), constant(small), np.float16)
        embedding_patches.append((0, shape.width - 1, column))
        output_norm[-1] = 16 * math.sqrt(d / shape.width) / constant(small)
        head_patches += [(0, shape.width - 1, zeros(v, 1)), (v, 0, zeros(shape.vocabulary - v, d))]
        head_patches.append((v, shape.width - 1, np.full((shape.vocabulary - v, 1), -32768, np.float16)))
    deviation = float(head.astype(np.float32).std())
    return [
        Matrix("token_embd.weight", shape.vocabulary, shape.width, deviation, embedding_patches),
        Matrix("output.weight", shape.vocabulary, shape.width, deviation, head_patches),
        Vector("output_norm.weight", output_norm),
    ]


def block_tensors(small: Small, shape: Shape) -> Iterator[Matrix | Vector]:
    d, rank = small.shape.width, small.tensors[BIAS[0]].shape[1]
    confidence = small.tensors["conf_proj.weight"].reshape(1, d + rank)
    patches = [(0, 0, confidence[:, :d]), (0, shape.width, confidence[:, d:])]
    yield Vector("enc.output_norm.weight", norm(small, shape, small.tensors["enc.output_norm.weight"]))
    yield Matrix("conf_proj.weight", 1, shape.width + rank, float(confidence.astype(np.float32).std()), patches)
    yield Vector("conf_proj.bias", small.tensors["conf_proj.bias"].astype(np.float32))
    for name in BIAS:
        yield Matrix(name, shape.vocabulary, rank, 0.0, [(0, 0, small.tensors[name])])
    for layer in range(shape.layers):
        for name in HEAD_WIDE:
            yield Vector(f"blk.{layer}.{name}.weight", small.layer(layer, name).astype(np.float32))


def tensors(small: Small, shape: Shape) -> Iterator[Matrix | Vector]:
    if small.architecture == "llama":
        yield from vocabulary_tensors(small, shape)
    else:
        yield fc(small, shape)
        yield Vector("output_norm.weight", norm(small, shape, small.tensors["output_norm.weight"]))
    if small.architecture == BLOCK_DRAFTER:
        yield from block_tensors(small, shape)
    q, kv = shape.heads * small.head, shape.kv_heads * small.head
    inputs = shape.width * (small.layer(0, "attn_q").shape[1] // small.shape.width)
    sizes = {"attn_q": (q, inputs), "attn_k": (kv, inputs), "attn_v": (kv, inputs)}
    sizes |= {"attn_output": (shape.width, q)}
    sizes |= {
        "ffn_gate": (shape.ffn, shape.width),
        "ffn_up": (shape.ffn, shape.width),
        "ffn_down": (shape.width, shape.ffn),
    }
    for layer in range(shape.layers):
        like = min(layer, small.shape.layers - 1)
        for name in norms(small.architecture):
            yield Vector(f"blk.{layer}.{name}.weight", norm(small, shape, small.layer(like, name)))
        for name, patches in (attention(small, shape, layer) | feed_forward(small, shape, layer)).items():
            deviation = float(small.layer(like, name).astype(np.float32).std())
            yield Matrix(f"blk.{layer}.{name}.weight", *sizes[name], deviation, patches)


# ---- Writing


class Filler:
    """Normal random numbers from a cyclic pool, starting at random. Its prime length keeps rows from repeating each
    other."""

    LENGTH = 2**21 - 9

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 1])
        self._normal = self._rng.standard_normal(self.LENGTH, np.float32)

    def rows(self, deviation: float) -> Callable[[F16Array], None]:
        """A function that fills successive blocks of rows."""
        pool = (self._normal * np.float32(deviation)).astype(np.float16)
        at = int(self._rng.integers(self.LENGTH))

        def fill(block: F16Array) -> None:
            nonlocal at
            out = block.reshape(-1)
            filled = 0
            while filled < out.size:
                count = min(out.size - filled, self.LENGTH - at)
                out[filled : filled + count] = pool[at : at + count]
                filled, at = filled + count, (at + count) % self.LENGTH

        return fill


BLOCK = 16 << 20  # bytes


def blocks(matrix: Matrix, filler: Filler) -> Iterator[F16Array]:
    fill = filler.rows(matrix.deviation)
    height = max(1, BLOCK // (2 * matrix.columns))
    for first in range(0, matrix.rows, height):
        block = np.empty((min(height, matrix.rows - first), matrix.columns), np.float16)
        fill(block)
        for row, column, values in matrix.patches:
            begin, end = max(row, first), min(row + values.shape[0], first + block.shape[0])
            if begin < end:
                block[begin - first : end - first, column : column + values.shape[1]] = values[begin - row : end - row]
        yield block


def vocabulary_keys(small: Small, shape: Shape) -> dict[str, list[Any]]:
    """The tokenizer's arrays, extended by a text and a type for every padding id."""
    padding = range(small.shape.vocabulary, shape.vocabulary)
    added: dict[str, list[Any]] = {"tokens": [f"<unused{i}>" for i in padding], "scores": [0.0] * len(padding)}
    added["token_type"] = [int(gguf.TokenType.UNUSED)] * len(padding)
    keys = {f"tokenizer.ggml.{name}": values for name, values in added.items()}
    return {key: list(small.fields[key].contents()) + values for key, values in keys.items() if key in small.fields}


def write_keys(writer: gguf.GGUFWriter, small: Small, shape: Shape) -> None:
    """The small model's metadata, except the values that depend on the shape."""
    epsilon, arch = small.epsilon * small.shape.width, small.architecture
    if shape.vocabulary > small.shape.vocabulary:
        epsilon -= constant(small) ** 2
    changed: dict[str, Any] = {
        f"{arch}.vocab_size": shape.vocabulary,
        f"{arch}.embedding_length": shape.width,
        f"{arch}.target_hidden_size": shape.width,
        f"{arch}.block_count": shape.layers,
        f"{arch}.feed_forward_length": shape.ffn,
        f"{arch}.attention.head_count": shape.heads,
        f"{arch}.attention.head_count_kv": shape.kv_heads,
        f"{arch}.attention.layer_norm_rms_epsilon": epsilon / shape.width,
        "general.file_type": int(gguf.LlamaFileType.MOSTLY_F16),
        **vocabulary_keys(small, shape),
    }
    for name in ("key_length", "value_length"):  # a head need not be width / heads
        writer.add_uint32(f"{arch}.attention.{name}", small.head)
    writer.add_uint32(f"{arch}.rope.dimension_count", small.head)
    for key, field in small.fields.items():
        written = (
            key.startswith("GGUF.") or key == "general.architecture" or any(key in keys for keys in writer.kv_data)
        )
        if not written:
            sub_type = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(key, changed.get(key, field.contents()), field.types[0], sub_type)
    if f"{arch}.attention.head_count_kv" not in small.fields:
        writer.add_uint32(f"{arch}.attention.head_count_kv", shape.kv_heads)


def write(small: Small, shape: Shape, out: pathlib.Path, seed: int, progress: Callable[[float], None]) -> None:
    """Writes a temporary file next to `out` in one pass and renames it when it is complete."""
    check(small, shape)
    plan = list(tensors(small, shape))
    size = sum(tensor.bytes for tensor in plan)
    if (free := shutil.disk_usage(out.parent).free) < size + (64 << 20):
        raise WidenError(f"{out} would take {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free in {out.parent}")
    with (
        OutputFile(out) as output,
        contextlib.closing(gguf.GGUFWriter(output.partial, small.architecture)) as writer,
    ):
        write_keys(writer, small, shape)
        for tensor in plan:
            is_matrix = isinstance(tensor, Matrix)
            size_of = (tensor.rows, tensor.columns) if isinstance(tensor, Matrix) else tensor.values.shape
            writer.add_tensor_info(
                tensor.name, size_of, np.dtype(np.float16 if is_matrix else np.float32), tensor.bytes
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        assert writer.fout is not None
        file, filler, written = writer.fout[0], Filler(seed), 0
        for tensor in plan:
            writer.write_padding(file, file.tell())
            for block in blocks(tensor, filler) if isinstance(tensor, Matrix) else [tensor.values]:
                file.write(block.data)
                written += block.nbytes
                progress(written / size)
        writer.write_padding(file, file.tell())


def parameters(small: Small, shape: Shape) -> int:
    return sum(t.rows * t.columns if isinstance(t, Matrix) else t.values.size for t in tensors(small, shape))


# ---- Command line


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("shape", choices=[*NAMED, "same"], help="a size, or the small model's own")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument(
        "--model", default=None, help="target, draft or a GGUF file (default: target; perturbed: draft)"
    )
    for name in ("layers", "width", "ffn", "heads", "kv-heads", "vocabulary"):
        parser.add_argument(
            f"--{name}", type=int, help="replaces the shape's value" if name != "vocabulary" else "pads to this size"
        )
    noise = parser.add_mutually_exclusive_group()
    noise.add_argument(
        "--perturb", type=float, metavar="STRENGTH", help="noise on every matrix, in its standard deviations"
    )
    noise.add_argument(
        "--acceptance", type=float, help="perturb by the strength that gave this rate with the bundled draft"
    )
    parser.add_argument("--seed", type=int, default=0, help="for the noise and the random weights")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    return parser.parse_args(arguments)


def shape_of(options: argparse.Namespace, small: Small) -> Shape:
    shape = small.shape
    if options.shape != "same":
        shape = Shape(*NAMED[options.shape], vocabulary=shape.vocabulary)
        heads, kv_heads = (max(1, count * NAMED_HEAD // small.head) for count in (shape.heads, shape.kv_heads))
        shape = replace(shape, heads=heads, kv_heads=kv_heads)  # as many columns
        if small.architecture != "llama":
            shape = replace(shape, layers=small.shape.layers)
    return replace(shape, **{name: value for name in vars(shape) if (value := getattr(options, name)) is not None})


def run(options: argparse.Namespace) -> None:
    out: pathlib.Path = options.out
    check_output(out, options.force)
    strength = options.perturb if options.acceptance is None else strength_for(options.acceptance)
    name = options.model or ("target" if strength is None else "draft")
    bundled = MODELS / f"stdlib-{name}-f16.gguf"
    small = perturbed(read(bundled if bundled.exists() else pathlib.Path(name)), strength or 0.0, options.seed)
    shape = shape_of(options, small)
    check(small, shape)
    shown = itertools.count()

    def progress(share: float) -> None:
        if sys.stderr.isatty() and next(shown) % 16 == 0:
            print(f"\r{out.name}: {share:4.0%}", end="", file=sys.stderr, flush=True)

    write(small, shape, out, options.seed, progress)
    noise = f", noise {strength:.4g}" if strength else ""
    count, gigabytes = parameters(small, shape), out.stat().st_size / 1e9
    print(f"{out}: {name}{noise} as {count / 1e6:.1f}M parameters, {gigabytes:.2f} GB")


def main(arguments: list[str] | None = None) -> int:
    try:
        run(parse(arguments))
    except (WidenError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
