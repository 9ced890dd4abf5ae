"""Tiny random projectors as GGUF files (llama.cpp's tools/mtmd), each with a tiny model that reads its rows.

>>> pair = make_pair("gemma3", seed=1)
>>> pair.target.write(path), pair.projector.write(projector_path)

Names and keys are those of tools/mtmd/clip-impl.h and clip.cpp. Tensors are numpy's way round: [rows, columns]; a
convolution's are [out, in, height, width].
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import gguf
import numpy as np
from tests.models.tiny_models import (
    RECIPES,
    SHAPES,
    Keys,
    Model,
    Random,
    Recipe,
    Shape,
    Tensors,
    Vocabulary,
    as_f32,
    make_recipe,
    pattern,
    with_head,
)


@dataclass(frozen=True)
class Encoder:
    """The sizes of a vision transformer."""

    image: int = 32  # pixels of a side
    patch: int = 4
    width: int = 32
    heads: int = 2
    ffn: int = 48
    layers: int = 2
    merge: int = 2  # patches of a side that become one row

    @property
    def num_patches(self) -> int:
        return (self.image // self.patch) ** 2

    @property
    def merged(self) -> int:
        return self.width * self.merge**2


@dataclass(frozen=True)
class Projector:
    type: str
    encoder: Encoder
    keys: Keys  # without "clip.vision."
    tensors: Tensors

    def write(self, path: pathlib.Path) -> pathlib.Path:
        e, writer = self.encoder, gguf.GGUFWriter(path, "clip")
        writer.add_bool("clip.has_vision_encoder", True)
        writer.add_string("clip.projector_type", self.type)
        writer.add_bool("clip.use_gelu", True)
        keys: Keys = {"image_size": e.image, "patch_size": e.patch, "embedding_length": e.width}
        keys |= {"feed_forward_length": e.ffn, "block_count": e.layers, "attention.head_count": e.heads}
        keys |= {"attention.layer_norm_epsilon": 1e-5} | self.keys
        for key, value in keys.items():
            name = f"clip.vision.{key}"
            if isinstance(value, list):
                writer.add_array(name, value)
            elif isinstance(value, float):
                writer.add_float32(name, value)
            else:
                writer.add_uint32(name, int(value))
        for name in ("mean", "std"):
            writer.add_array(f"clip.vision.image_{name}", [0.5, 0.5, 0.5])
        for name, tensor in self.tensors.items():
            writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


# ---- Parts of encoders


def linear(r: Random, name: str, rows: int, columns: int, bias: bool = True) -> Tensors:
    weight = {f"{name}.weight": r.matrix(rows, columns)}
    return weight | {f"{name}.bias": r.bias(rows)} if bias else weight


def norm(r: Random, name: str, width: int, bias: bool = True) -> Tensors:
    weight = {f"{name}.weight": r.norm(width)}
    return weight | {f"{name}.bias": r.bias(width)} if bias else weight


def patches(r: Random, e: Encoder, bias: bool = True) -> Tensors:
    columns = 3 * e.patch**2
    t: Tensors = {"v.patch_embd.weight": r.matrix(e.width, columns).reshape(e.width, 3, e.patch, e.patch)}
    return t | {"v.patch_embd.bias": r.bias(e.width)} if bias else t


def positions(r: Random, e: Encoder, more: int = 0) -> Tensors:
    return {"v.position_embd.weight": as_f32(0.3 * r.matrix(e.num_patches + more, e.width) * np.sqrt(e.width))}


def layers(r: Random, e: Encoder, *, bias: bool = True, fused: bool = False, gate: bool = False) -> Tensors:
    t: Tensors = {}
    for i in range(e.layers):
        layer = f"v.blk.{i}"
        t |= norm(r, f"{layer}.ln1", e.width, bias) | norm(r, f"{layer}.ln2", e.width, bias)
        parts = {"qkv": 3} if fused else {"q": 1, "k": 1, "v": 1}
        for name, count in parts.items():
            t |= linear(r, f"{layer}.attn_{name}", count * e.width, e.width, bias)
        t |= linear(r, f"{layer}.attn_out", e.width, e.width, bias)
        for name in ("up", *["gate"] * gate):
            t |= linear(r, f"{layer}.ffn_{name}", e.ffn, e.width, bias)
        t |= linear(r, f"{layer}.ffn_down", e.width, e.ffn, bias)
    return t


def transformer(r: Random, e: Encoder, more_positions: int = 0) -> Tensors:
    """As in CLIP and SigLIP."""
    return patches(r, e) | positions(r, e, more_positions) | layers(r, e) | norm(r, "v.post_ln", e.width)


# ---- Families


Made = tuple[Keys, Tensors]


def llava(r: Random, e: Encoder, width: int) -> Made:
    t = transformer(r, e) | linear(r, "mm.0", 40, e.width) | linear(r, "mm.2", width, 40)
    return {"feature_layer": [e.layers], "projection_dim": width}, t


def llava_tiles(r: Random, e: Encoder, width: int) -> Made:
    """LLaVA 1.6: an overview, then tiles."""
    keys, t = llava(r, e, width)
    return {**keys, "image_grid_pinpoints": [e.image, 2 * e.image, 2 * e.image, e.image]}, t


def idefics3(r: Random, e: Encoder, width: int) -> Made:
    keys: Keys = {"projector.scale_factor": e.merge, "preproc_image_size": 2 * e.image}
    return keys, transformer(r, e) | linear(r, "mm.model.fc", width, e.merged, bias=False)


def gemma3(r: Random, e: Encoder, width: int) -> Made:
    t = transformer(r, e) | {"mm.soft_emb_norm.weight": r.norm(e.width)}
    t["mm.input_projection.weight"] = r.matrix(width, e.width).T.copy()
    return {"projector.scale_factor": e.merge}, t


def gemma4(r: Random, e: Encoder, width: int) -> Made:
    """Tables of positions for either axis; norms without weights."""
    t = patches(r, e, bias=False) | layers(r, e, bias=False, gate=True)
    t["v.position_embd.weight"] = as_f32(0.3 * r.matrix(2, 1120 * e.merge, e.width) * np.sqrt(e.width))
    return {"projector.scale_factor": e.merge}, t | linear(r, "mm.input_projection", width, e.width, bias=False)


def merger(r: Random, e: Encoder, width: int) -> Tensors:
    return linear(r, "mm.0", e.merged, e.merged) | linear(r, "mm.2", width, e.merged)


def frames(r: Random, e: Encoder, bias: bool) -> Tensors:
    """Patches of two frames; a picture is both."""
    second = {"v.patch_embd.weight.1": patches(r, e)["v.patch_embd.weight"]}
    return patches(r, e, bias) | second | norm(r, "v.post_ln", e.width)


def qwen2vl(r: Random, e: Encoder, width: int) -> Made:
    return {}, frames(r, e, bias=False) | layers(r, e) | merger(r, e, width)


def qwen25vl(r: Random, e: Encoder, width: int) -> Made:
    """All but every second layer attend within windows; RMSNorm."""
    t = frames(r, e, bias=False) | layers(r, e, gate=True) | merger(r, e, width)
    norms = ("ln1.bias", "ln2.bias", "post_ln.bias")
    return {"n_wa_pattern": 2}, {name: tensor for name, tensor in t.items() if not name.endswith(norms)}


def qwen3vl(r: Random, e: Encoder, width: int, stacked: int = 1) -> Made:
    """stacked: further layers of the target read as many further parts of a row."""
    t = frames(r, e, bias=True) | positions(r, e) | layers(r, e, fused=True) | merger(r, e, width)
    for i in range(stacked):
        name = f"v.deepstack.{i}"
        t |= norm(r, f"{name}.norm", e.merged) | linear(r, f"{name}.fc1", e.merged, e.merged)
        t |= linear(r, f"{name}.fc2", width, e.merged)
    return {"spatial_merge_size": e.merge}, t


def qwen35(r: Random, e: Encoder, width: int) -> Made:
    return qwen3vl(r, e, width, stacked=0)


def pixtral(r: Random, e: Encoder, width: int) -> Made:
    """Positions by RoPE in two axes; a learned row ends each line."""
    t = patches(r, e, bias=False) | layers(r, e, bias=False, gate=True) | norm(r, "v.pre_ln", e.width, bias=False)
    t |= {"mm.input_norm.weight": r.norm(e.width), "mm.patch_merger.weight": r.matrix(e.width, e.merged)}
    t |= linear(r, "mm.1", 40, e.width, bias=False) | linear(r, "mm.2", width, 40, bias=False)
    return {"spatial_merge_size": e.merge}, t | {"v.token_embd.img_break": r.matrix(width)}


def internvl(r: Random, e: Encoder, width: int) -> Made:
    t = transformer(r, e, more_positions=1) | {"v.class_embd": r.matrix(e.width)}
    t |= {f"v.blk.{i}.ls{part}.weight": r.norm(e.width) for i in range(e.layers) for part in (1, 2)}
    t |= norm(r, "mm.model.mlp.0", e.merged) | linear(r, "mm.model.mlp.1", 40, e.merged)
    keys: Keys = {"projector.scale_factor": e.merge, "preproc_max_tiles": 4}
    return keys, t | linear(r, "mm.model.mlp.3", width, 40)


def lfm2(r: Random, e: Encoder, width: int) -> Made:
    """Pictures of 64 to 256 rows, else tiles of 512 pixels."""
    t = transformer(r, e) | norm(r, "mm.input_norm", e.merged)
    return {"projector.scale_factor": e.merge}, t | linear(r, "mm.1", 40, e.merged) | linear(r, "mm.2", width, 40)


TARGETS = {
    **RECIPES,
    "gemma3": replace(RECIPES["gemma3"], keys=pattern),
    "qwen2vl": Recipe("qwen2vl", lambda s: {"rope.dimension_sections": [2, 3, 3, 0]}, qkv_bias=True),
    "qwen3vl": Recipe(
        "qwen3vl", lambda s: {"rope.dimension_sections": [3, 3, 2, 0], "n_deepstack_layers": 1}, head_norms=True
    ),
}


def cells(mark: str, rows: int, columns: int) -> tuple[str, ...]:
    return tuple(mark % (row + 1, column + 1) for row in range(rows) for column in range(columns))


@dataclass(frozen=True)
class Family:
    type: str
    make: Callable[[Random, Encoder, int], Made]
    target: str = "llama"
    encoder: Encoder = field(default_factory=Encoder)
    marks: tuple[str, ...] = ()  # tokens of the target
    shape: Shape | None = None


VISION = ("<|vision_start|>", "<|vision_end|>")
WINDOW = Shape(head=32, window=12)  # shorter than a picture
FAMILIES = {
    "llava": Family("mlp", llava),
    "llava_tiles": Family("mlp", llava_tiles),
    "idefics3": Family(
        "idefics3",
        idefics3,
        marks=("\n\n", "<fake_token_around_image>", "<global-img>", *cells("<row_%d_col_%d>", 2, 2)),
    ),
    "gemma3": Family("gemma3", gemma3, "gemma3", marks=("<start_of_image>", "<end_of_image>"), shape=WINDOW),
    "gemma4": Family("gemma4v", gemma4, "gemma4", Encoder(patch=2, ffn=40), ("<|image>", "<image|>"), Shape(window=12)),
    "qwen2vl": Family("qwen2vl_merger", qwen2vl, "qwen2vl", marks=VISION),
    "qwen25vl": Family("qwen2.5vl_merger", qwen25vl, "qwen2vl", marks=VISION),
    "qwen3vl": Family("qwen3vl_merger", qwen3vl, "qwen3vl", marks=VISION),
    "qwen35": Family("qwen3vl_merger", qwen35, "qwen35", marks=VISION),
    "pixtral": Family("pixtral", pixtral, "mistral3", marks=("[IMG_END]",)),
    "internvl": Family("internvl", internvl, "qwen3", marks=("<img>", "</img>")),
    "lfm2": Family(
        "lfm2",
        lfm2,
        "lfm2",
        marks=("<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", *cells("<|img_row_%d_col_%d|>", 2, 2)),
    ),
}
FAMILIES_WITHOUT_CAUSALITY = ("gemma3", "gemma4")


@dataclass(frozen=True)
class Pair:
    target: Model
    projector: Projector

    def write(self, folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
        return self.target.write(folder / "target.gguf"), self.projector.write(folder / "mmproj.gguf")


def vocabulary(marks: tuple[str, ...], size: int = Vocabulary.size) -> Vocabulary:
    """With the marks, as control tokens, in the places of padding."""
    first = 2 + 256 + len(Vocabulary().merges)
    renamed = {first + i: mark for i, mark in enumerate(marks)}
    assert first + len(marks) <= size
    return Vocabulary(size=size, renamed=renamed, control=tuple(renamed))


def make_projector(name: str, width: int, seed: int = 0) -> Projector:
    """For a target whose embeddings are so wide."""
    family = FAMILIES[name]
    keys, tensors = family.make(Random(seed), family.encoder, width)
    return Projector(family.type, family.encoder, {"projection_dim": width, **keys}, tensors)


def make_pair(name: str, seed: int = 0, *, marks: bool = True) -> Pair:
    """marks: the target has tokens for the marks around a picture."""
    family = FAMILIES[name]
    shape = family.shape or SHAPES.get(family.target, Shape())
    target = make_recipe(TARGETS[family.target], seed, shape, vocabulary(family.marks if marks else ()))
    return Pair(target, make_projector(name, shape.width, seed))


def make_pair_with_head(name: str = "qwen35") -> Pair:
    """The target has a drafting head."""
    family = FAMILIES[name]
    target = with_head(family.target, vocabulary=vocabulary(family.marks))
    return Pair(target, make_projector(name, target.shape.width))


def random_picture(width: int, height: int, seed: int = 0) -> np.ndarray:
    """[height, width, 3]"""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
