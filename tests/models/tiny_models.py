"""Tiny random models of several architectures as GGUF files: two layers, a few hundred tokens, loaded in milliseconds.

>>> model = make("qwen3", seed=1)
>>> model.write(path)

Tensors are numpy's way round: [rows, columns], experts and heads first. Names and keys are those of gguf and llama.cpp
(src/models/*.cpp).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType as GgmlType
from gguf import TokenType

F32Array = npt.NDArray[np.float32]
Keys = dict[str, int | float | str | list[int]]
Tensors = dict[str, F32Array]


# ---- Vocabulary: byte-level BPE


def byte_characters() -> list[str]:
    """GPT-2's printable character for each byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


MERGES = [
    "Ġ Ġ",
    "i n",
    "r e",
    "o n",
    "e r",
    "s e",
    "Ġ t",
    "l f",
    "d e",
    "Ġ =",
    "t h",
    "se lf",
    "r e t",
    "de f",
    "Ġt h",
    "Ġth e",
]


@dataclass(frozen=True)
class Vocabulary:
    """BOS, end of text, 256 bytes, merged tokens, padding."""

    size: int = 288
    merges: tuple[str, ...] = tuple(MERGES)
    bos: int = 0
    eos: int = 1
    adds_bos: bool = True
    model: str = "gpt2"
    renamed: Mapping[int, str] = field(default_factory=dict)  # ids with another text
    control: tuple[int, ...] = ()  # further ids of control tokens
    chat_template: str = ""
    adds_eos: bool = False

    def texts(self) -> list[str]:
        merged = [merge.replace(" ", "") for merge in self.merges]
        texts = ["<bos>", "<end>", *byte_characters(), *merged]
        texts += [f"<pad{i}>" for i in range(len(texts), self.size)]
        return [self.renamed.get(i, text) for i, text in enumerate(texts[: self.size])]

    def types(self) -> list[int]:
        ordinary = 2 + 256 + len(self.merges)
        kinds = [TokenType.NORMAL if 2 <= i < ordinary else TokenType.UNUSED for i in range(self.size)]
        for i in (0, 1, *self.control):
            kinds[i] = TokenType.CONTROL
        return [int(kind) for kind in kinds]

    def write(self, writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list(self.texts())
        writer.add_token_types(self.types())
        if self.model == "gpt2":
            writer.add_token_merges(self.merges)
        else:
            writer.add_token_scores([0.0] * self.size)
        writer.add_bos_token_id(self.bos)
        writer.add_eos_token_id(self.eos)
        writer.add_add_bos_token(self.adds_bos)
        if self.adds_eos:
            writer.add_add_eos_token(True)
        if self.chat_template:
            writer.add_chat_template(self.chat_template)


# ---- A model


@dataclass(frozen=True)
class Shape:
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head: int = 16
    ffn: int = 96
    layers: int = 2
    head_layers: int = 0  # of a drafting head (multi-token prediction), after the others
    context: int = 1024
    window: int = 48  # of sliding-window attention
    experts: int = 4
    experts_used: int = 2

    @property
    def q(self) -> int:
        return self.heads * self.head

    @property
    def kv(self) -> int:
        return self.kv_heads * self.head


@dataclass(frozen=True)
class Model:
    architecture: str
    shape: Shape
    keys: Keys  # without the architecture's prefix, except for those of the tokenizer
    tensors: Tensors
    vocabulary: Vocabulary

    def with_tensors(self, tensors: Tensors) -> Model:
        """With some tensors replaced."""
        return replace(self, tensors={**self.tensors, **tensors})

    def near(self, noise: float) -> Model:
        """A draft that often agrees with it: its matrices plus noise, relative to their standard deviation."""
        rng = np.random.default_rng(5)
        matrices = {name: t for name, t in self.tensors.items() if t.ndim >= 2 and t.shape[-1] > 1}
        return self.with_tensors(
            {name: as_f32(t + noise * t.std() * rng.standard_normal(t.shape)) for name, t in matrices.items()}
        )

    def write(
        self,
        path: pathlib.Path,
        weights: GgmlType | Mapping[str, GgmlType] = GgmlType.F32,
        kept: Collection[str] = (),
        tensors_per_file: int = 0,
    ) -> pathlib.Path:
        """Stores the matrices that a quantizer would quantize, but `kept`, as `weights`, one type or one for each
        name; everything else as F32.

        tensors_per_file: splits it into files path-00001-of-0000N.gguf.
        """
        writer = gguf.GGUFWriter(path, self.architecture, split_max_tensors=tensors_per_file)
        writer.add_block_count(self.shape.layers + self.shape.head_layers)
        writer.add_context_length(self.shape.context)
        writer.add_embedding_length(self.shape.width)
        if "feed_forward_length" not in self.keys:
            writer.add_feed_forward_length(self.shape.ffn)
        writer.add_vocab_size(self.vocabulary.size)
        for key, value in self.keys.items():
            name = key if key.startswith(("tokenizer.", "quantize.")) else f"{self.architecture}.{key}"
            if isinstance(value, bool):
                writer.add_bool(name, value)
            elif isinstance(value, str):
                writer.add_string(name, value)
            elif isinstance(value, int):
                writer.add_uint32(name, value)
            elif isinstance(value, float):
                writer.add_float32(name, value)
            else:
                writer.add_array(name, value)
        self.vocabulary.write(writer)
        for name, tensor in self.tensors.items():
            type = weights if isinstance(weights, GgmlType) else weights.get(name, GgmlType.F32)
            if type != GgmlType.F32 and is_weight(name, tensor) and name not in kept:
                writer.add_tensor(name, encoded(tensor, type), raw_dtype=type)
            else:
                writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def encoded(tensor: F32Array, type: GgmlType) -> npt.NDArray[np.generic]:
    """The gguf package cannot encode K-quants, I-quants and NVFP4: returns random blocks with values of about the
    tensor's magnitude."""
    if type in I_QUANTS:
        return random_blocks(tensor, type)
    if type == GgmlType.NVFP4:
        shape = (*tensor.shape[:-1], tensor.shape[-1] // 64, 36)
        blocks = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        # UE4M3: 2^(n - 7) is 8 n; half of it times codes of about 5.
        blocks[..., :4] = 8 * (7 + round(float(np.log2(tensor.std() / 2.5))))
        return blocks.reshape(*tensor.shape[:-1], -1)
    if type not in K_QUANTS:
        return gguf.quants.quantize(tensor, type)
    columns = tensor.shape[-1] // 256
    blocks = np.random.default_rng(0).integers(0, 256, (*tensor.shape[:-1], columns, K_QUANTS[type].itemsize), np.uint8)
    fields = blocks.view(K_QUANTS[type])
    unit = tensor.std() / 200
    fields["d"] = unit
    if type == GgmlType.Q4_K:
        fields["dmin"] = 7.5 * unit  # symmetric about zero
    else:
        fields["scales"] >>= 3
    return blocks.reshape(*tensor.shape[:-1], -1)


I_QUANTS = [GgmlType[f"IQ{name}"] for name in ("1_S", "1_M", "2_XXS", "2_XS", "2_S", "3_XXS", "3_S", "4_NL", "4_XS")]


def random_blocks(tensor: F32Array, type: GgmlType) -> npt.NDArray[np.uint8]:
    columns, size = gguf.GGML_QUANT_SIZES[type]
    shape = (*tensor.shape[:-1], tensor.shape[-1] // columns, size)
    blocks = np.random.default_rng(0).integers(0, 256, shape, np.uint8)

    def decoded(d: float) -> F32Array:
        bits = int(np.float16(d).view(np.uint16))
        if type == GgmlType.IQ1_M:  # in the high halves of four bytes
            for i in range(4):
                blocks[..., 49 + 2 * i] = blocks[..., 49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
        else:
            blocks[..., 0], blocks[..., 1] = bits & 255, bits >> 8
        return gguf.quants.dequantize(blocks.reshape(*tensor.shape[:-1], -1), type)

    decoded(float(tensor.std() / decoded(1.0).std()))
    return blocks.reshape(*tensor.shape[:-1], -1)


K_QUANTS = {  # blocks of 256 (ggml-common.h)
    GgmlType.Q4_K: np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("codes", "u1", 128)]),
    GgmlType.Q6_K: np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("d", "<f2")]),
}


def is_weight(name: str, tensor: F32Array) -> bool:
    """Whether the tensor is one of the matrices that quantizers touch."""
    kept = (
        "ffn_gate_inp",
        "shortconv.conv",
        "ssm_conv1d",
        "ssm_x",
        "ssm_dt",
        "ssm_norm",
        "time_mix",
        "channel_mix_lerp",
        "_coef",
    )
    return tensor.ndim >= 2 and name.endswith(".weight") and not any(part in name for part in kept)


# ---- Parts of architectures


def as_f32(x: npt.ArrayLike) -> F32Array:
    return np.asarray(x, np.float32)


class Random:
    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def matrix(self, *shape: int) -> F32Array:
        """Keeps the size of what it multiplies: [..., rows, columns]."""
        return as_f32(self._rng.standard_normal(shape) / np.sqrt(shape[-1]))

    def norm(self, size: int) -> F32Array:
        return as_f32(1 + 0.2 * self._rng.standard_normal(size))

    def signed_norm(self, size: int) -> F32Array:
        """Without this, a tied model would always repeat its last token."""
        return as_f32(self.norm(size) * self._rng.choice([-1, 1], size))

    def bias(self, size: int) -> F32Array:
        return as_f32(0.05 * self._rng.standard_normal(size))


@dataclass(frozen=True)
class Recipe:
    """How an architecture differs from llama."""

    architecture: str
    keys: Callable[[Shape], Keys] = lambda s: {}
    tied: bool = False
    fused_qkv: bool = False
    fused_gate: bool = False  # gate and up are one matrix
    gate: bool = True
    qkv_bias: bool = False
    biases: bool = False  # everywhere; LayerNorm instead of RMSNorm
    head_norms: bool = False
    wide_norms: bool = False  # of queries and keys, over all heads
    post_norms: bool = False
    ffn_norm: bool = True
    attends: bool = False  # every layer of a hybrid, as in a drafting head
    experts: bool = False
    shared_expert: bool = False
    output_norm: str = "output_norm"
    body: Callable[[Recipe, Random, Shape, str], Tensors] | None = None  # of a layer; none: attention and feed-forward


def attention(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    t = {f"{layer}.attn_output.weight": r.matrix(s.width, s.q)}
    parts = {"attn_qkv": s.q + 2 * s.kv} if recipe.fused_qkv else {"attn_q": s.q, "attn_k": s.kv, "attn_v": s.kv}
    for name, rows in parts.items():
        t[f"{layer}.{name}.weight"] = r.matrix(rows, s.width)
        if recipe.qkv_bias or recipe.biases:
            t[f"{layer}.{name}.bias"] = r.bias(rows)
    if recipe.biases:
        t[f"{layer}.attn_output.bias"] = r.bias(s.width)
    if recipe.head_norms:
        t |= {f"{layer}.attn_{name}_norm.weight": r.norm(s.head) for name in "qk"}
    return t


def feed_forward(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    rows = {"up": s.ffn * (2 if recipe.fused_gate else 1)} | (
        {"gate": s.ffn} if recipe.gate and not recipe.fused_gate else {}
    )
    t = {f"{layer}.ffn_{name}.weight": r.matrix(n, s.width) for name, n in rows.items()}
    t[f"{layer}.ffn_down.weight"] = r.matrix(s.width, s.ffn)
    if recipe.biases:
        t |= {f"{layer}.ffn_up.bias": r.bias(s.ffn), f"{layer}.ffn_down.bias": r.bias(s.width)}
    return t


def experts(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    t = {f"{layer}.ffn_gate_inp.weight": r.matrix(s.experts, s.width)}
    t |= {f"{layer}.ffn_{name}_exps.weight": r.matrix(s.experts, s.ffn, s.width) for name in ("gate", "up")}
    t[f"{layer}.ffn_down_exps.weight"] = r.matrix(s.experts, s.width, s.ffn)
    if recipe.shared_expert:
        t |= {f"{layer}.ffn_{name}_shexp.weight": r.matrix(s.ffn, s.width) for name in ("gate", "up")}
        t[f"{layer}.ffn_down_shexp.weight"] = r.matrix(s.width, s.ffn)
    return t


def transformer_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    names = [
        "attn_norm",
        *["ffn_norm"] * recipe.ffn_norm,
        *["post_attention_norm", "post_ffw_norm"] * recipe.post_norms,
    ]
    t = {f"{layer}.{name}.weight": r.norm(s.width) for name in names}
    if recipe.biases:
        t |= {f"{layer}.{name}.bias": r.bias(s.width) for name in names}
    return t | attention(recipe, r, s, layer) | (experts if recipe.experts else feed_forward)(recipe, r, s, layer)


def qwen2moe_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    return {**transformer_layer(recipe, r, s, layer), f"{layer}.ffn_gate_inp_shexp.weight": r.bias(s.width)}


def seed_oss_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """The norm before the feed-forward part has the name that others give to one after attention."""
    return {**transformer_layer(recipe, r, s, layer), f"{layer}.post_attention_norm.weight": r.norm(s.width)}


def wide_norms(r: Random, s: Shape, layer: str) -> Tensors:
    """Norms of queries and keys over all heads."""
    return {f"{layer}.attn_q_norm.weight": r.norm(s.q), f"{layer}.attn_k_norm.weight": r.norm(s.kv)}


def olmo2_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Norms only after attention and the feed-forward part."""
    t = transformer_layer(recipe, r, s, layer) | (wide_norms(r, s, layer) if recipe.wide_norms else {})
    return {name: tensor for name, tensor in t.items() if name != f"{layer}.attn_norm.weight"}


def minimax_m2_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    t = transformer_layer(recipe, r, s, layer) | wide_norms(r, s, layer)
    return {**t, f"{layer}.exp_probs_b.bias": r.bias(s.experts)}


def gemma3n_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Four streams of activations, a low-rank path in parallel to attention, and embeddings per layer."""
    t = transformer_layer(recipe, r, s, layer)
    t |= per_layer_embeddings(r, s, layer, ALTUP["embedding"])
    if layer == "blk.0":
        streams = (ALTUP["streams"] - 1, s.width, s.width)
        t |= {"altup_proj.weight": r.matrix(*streams), "altup_unembd_proj.weight": r.matrix(*streams)}
    n = ALTUP["streams"]
    shapes = {"correct_coef": (n, n), "predict_coef": (n * n, n), "router": (n, s.width)}
    t |= {f"{layer}.altup_{name}.weight": r.matrix(*shape) for name, shape in shapes.items()}
    t |= {
        f"{layer}.{name}.weight": r.norm(s.width)
        for name in ("altup_correct_scale", "altup_router_norm", "laurel_post_norm")
    }
    return t | {
        f"{layer}.laurel_l.weight": r.matrix(ALTUP["rank"], s.width),
        f"{layer}.laurel_r.weight": r.matrix(s.width, ALTUP["rank"]),
    }


ALTUP = {"streams": 4, "embedding": 256, "rank": 64}  # constants of llama.cpp


def per_layer_embeddings(r: Random, s: Shape, layer: str, size: int) -> Tensors:
    t: Tensors = {}
    if layer == "blk.0":
        t["per_layer_token_embd.weight"] = r.matrix(Vocabulary().size, size * s.layers)
        t |= {
            "per_layer_model_proj.weight": r.matrix(size * s.layers, s.width),
            "per_layer_proj_norm.weight": r.norm(size),
        }
    t |= {f"{layer}.inp_gate.weight": r.matrix(size, s.width), f"{layer}.proj.weight": r.matrix(s.width, size)}
    return {**t, f"{layer}.post_norm.weight": r.norm(s.width)}


def gemma4_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Even layers have a sliding window; the others turn only some of the columns."""
    t = transformer_layer(recipe, r, s, layer) | per_layer_embeddings(r, s, layer, PER_LAYER)
    if is_odd(layer):
        t["rope_freqs.weight"] = as_f32([1.0, 1e30] * (s.head // 4))
    return {**t, f"{layer}.layer_output_scale.weight": as_f32([0.9])}


PER_LAYER = 32  # columns of Gemma 4's embeddings per layer


def gpt_oss_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Biases of the experts, and a logit per head that takes attention from all tokens."""
    t = transformer_layer(recipe, r, s, layer)
    t |= {f"{layer}.post_attention_norm.weight": r.norm(s.width), f"{layer}.attn_sinks.weight": r.norm(s.heads)}
    t |= {f"{layer}.attn_output.bias": r.bias(s.width), f"{layer}.ffn_gate_inp.bias": r.bias(s.experts)}
    sizes = {"gate": s.ffn, "up": s.ffn, "down": s.width}
    return t | {
        f"{layer}.ffn_{name}_exps.bias": r.bias(s.experts * size).reshape(s.experts, size)
        for name, size in sizes.items()
    }


LATENT, ROPE = 32, 16  # of multi-head latent attention: compressed keys and values; columns of a head with positions


def latent_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Keys and values are compressed; a 3-D matrix per head expands them (multiplied with permuted activations)."""
    t = {f"{layer}.{name}.weight": r.norm(s.width) for name in ("attn_norm", "ffn_norm")}
    t |= {f"{layer}.attn_{name}_a_norm.weight": r.norm(LATENT) for name in ("q", "kv")}
    t[f"{layer}.attn_q_a.weight"] = r.matrix(LATENT, s.width)
    t[f"{layer}.attn_q_b.weight"] = r.matrix(s.heads * (32 + ROPE), LATENT)
    t[f"{layer}.attn_kv_a_mqa.weight"] = r.matrix(LATENT + ROPE, s.width)
    t[f"{layer}.attn_k_b.weight"] = r.matrix(s.heads, LATENT, 32)
    t[f"{layer}.attn_v_b.weight"] = r.matrix(s.heads, 32, LATENT)
    t[f"{layer}.attn_output.weight"] = r.matrix(s.width, s.heads * 32)
    return t | (feed_forward if layer == "blk.0" else experts)(recipe, r, s, layer)


def mamba_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    inner, state, rank = 2 * s.width, 16, 32
    t = {f"{layer}.attn_norm.weight": r.norm(s.width), f"{layer}.ssm_in.weight": r.matrix(2 * inner, s.width)}
    t |= {f"{layer}.ssm_conv1d.weight": r.matrix(inner, 4), f"{layer}.ssm_conv1d.bias": r.bias(inner)}
    t |= {f"{layer}.ssm_x.weight": r.matrix(rank + 2 * state, inner)}
    t |= {f"{layer}.ssm_dt.weight": r.matrix(inner, rank), f"{layer}.ssm_dt.bias": r.bias(inner)}
    t |= {f"{layer}.ssm_a": -np.exp(r.matrix(inner, state)), f"{layer}.ssm_d": r.norm(inner)}
    return {**t, f"{layer}.ssm_out.weight": r.matrix(s.width, inner)}


def lfm2_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Even layers convolve over the last 3 tokens, odd ones attend; those have experts, if any."""
    if is_odd(layer):
        t = transformer_layer(recipe, r, s, layer)
        return {**t, f"{layer}.exp_probs_b.bias": r.bias(s.experts)} if recipe.experts else t
    t = {f"{layer}.{name}.weight": r.norm(s.width) for name in ("attn_norm", "ffn_norm")}
    t |= {
        f"{layer}.shortconv.conv.weight": r.matrix(s.width, 3),
        f"{layer}.shortconv.in_proj.weight": r.matrix(3 * s.width, s.width),
    }
    t |= {f"{layer}.shortconv.out_proj.weight": r.matrix(s.width, s.width)}
    return t | feed_forward(recipe, r, s, layer)


def mamba2_mixer(r: Random, s: Shape, layer: str) -> Tensors:
    """State spaces with one decay per head."""
    mixed = 2 * s.width + 2 * SSM["group_count"] * SSM["state_size"]  # the convolution's channels
    heads = SSM["time_step_rank"]
    t = {f"{layer}.ssm_in.weight": r.matrix(2 * s.width + mixed + heads, s.width)}
    t |= {f"{layer}.ssm_conv1d.weight": r.matrix(mixed, 4), f"{layer}.ssm_conv1d.bias": r.bias(mixed)}
    t |= {
        f"{layer}.ssm_dt.bias": r.bias(heads),
        f"{layer}.ssm_a": -np.exp(r.matrix(heads, 1)),
        f"{layer}.ssm_d": r.matrix(heads, 1),
    }
    t[f"{layer}.ssm_norm.weight"] = r.norm(2 * s.width).reshape(SSM["group_count"], -1)
    return {**t, f"{layer}.ssm_out.weight": r.matrix(s.width, 2 * s.width)}


def mamba2_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    return {f"{layer}.attn_norm.weight": r.norm(s.width), **mamba2_mixer(r, s, layer)}


def granite_hybrid_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Even layers are state spaces, odd ones attend."""
    if is_odd(layer):
        return transformer_layer(recipe, r, s, layer)
    norms = {f"{layer}.{name}.weight": r.norm(s.width) for name in ("attn_norm", "ffn_norm")}
    return norms | mamba2_mixer(r, s, layer) | feed_forward(recipe, r, s, layer)


def nemotron_h_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """A layer is a state space, attention, or a feed-forward part."""
    parts: dict[str, Callable[[], Tensors]] = {
        "blk.0": lambda: mamba2_mixer(r, s, layer),
        "blk.1": lambda: attention(recipe, r, s, layer),
    }
    rest = parts.get(layer, lambda: feed_forward(recipe, r, s, layer))
    return {f"{layer}.attn_norm.weight": r.norm(s.width), **rest()}


def nemotron_h_moe_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """The drafting head attends and has experts."""
    if layer not in ("blk.2", "blk.3"):
        return nemotron_h_layer(recipe, r, s, layer)
    t = {name: tensor for name, tensor in experts(recipe, r, s, layer).items() if "ffn_gate_exps" not in name}
    t = {name: tensor for name, tensor in t.items() if "ffn_gate_shexp" not in name}
    if recipe.attends:
        t |= attention(recipe, r, s, layer) | {f"{layer}.post_attention_norm.weight": r.norm(s.width)}
    return {**t, f"{layer}.attn_norm.weight": r.norm(s.width), f"{layer}.exp_probs_b.bias": r.bias(s.experts)}


def falcon_h1_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """A state space and attention side by side."""
    t = {f"{layer}.attn_norm.weight": r.norm(s.width), f"{layer}.ffn_norm": r.norm(s.width)}
    return t | mamba2_mixer(r, s, layer) | attention(recipe, r, s, layer) | feed_forward(recipe, r, s, layer)


def jamba_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Even layers are Mamba's, with norms inside; odd ones attend."""
    if is_odd(layer):
        return transformer_layer(recipe, r, s, layer)
    t = mamba_layer(recipe, r, s, layer) | feed_forward(recipe, r, s, layer)
    t |= {f"{layer}.ssm_{name}_norm.weight": r.norm(size) for name, size in {"dt": 32, "b": 16, "c": 16}.items()}
    return {**t, f"{layer}.ffn_norm.weight": r.norm(s.width)}


def qwen35_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Even layers are gated delta nets, odd ones attend, with a gate on each head's output."""
    t = {f"{layer}.{name}.weight": r.norm(s.width) for name in ("attn_norm", "post_attention_norm")}
    t |= (experts if recipe.experts else feed_forward)(recipe, r, s, layer)
    if recipe.shared_expert:
        t[f"{layer}.ffn_gate_inp_shexp.weight"] = r.bias(s.width)
    if recipe.attends or is_odd(layer):
        return t | attention(recipe, r, s, layer) | {f"{layer}.attn_q.weight": r.matrix(2 * s.q, s.width)}
    heads, size = SSM["time_step_rank"], SSM["state_size"]
    values = heads * size
    mixed = values + 2 * SSM["group_count"] * size
    t |= {f"{layer}.attn_qkv.weight": r.matrix(mixed, s.width), f"{layer}.attn_gate.weight": r.matrix(values, s.width)}
    t |= {f"{layer}.ssm_{name}.weight": r.matrix(heads, s.width) for name in ("alpha", "beta")}
    t |= {f"{layer}.ssm_conv1d.weight": r.matrix(mixed, 4), f"{layer}.ssm_norm.weight": r.norm(size)}
    t |= {f"{layer}.ssm_dt.bias": r.bias(heads), f"{layer}.ssm_a": -np.exp(r.bias(heads))}
    return {**t, f"{layer}.ssm_out.weight": r.matrix(s.width, values)}


def qwen3next_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """As Qwen 3.5's, with one matrix for both gates of a delta net."""
    t = qwen35_layer(recipe, r, s, layer)
    if f"{layer}.ssm_alpha.weight" in t:
        gates = [t.pop(f"{layer}.ssm_{name}.weight") for name in ("beta", "alpha")]
        t[f"{layer}.ssm_ba.weight"] = as_f32(np.concatenate(gates))
    return t


def kimi_linear_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Even layers are delta nets with a gate per channel; odd ones attend to compressed keys and values, without
    positions."""
    latent = {name: tensor for name, tensor in latent_layer(recipe, r, s, layer).items() if ".attn_q_" not in name}
    if is_odd(layer):
        queries = r.matrix(s.heads * (32 + ROPE), s.width)
        return {**latent, f"{layer}.attn_q.weight": queries, f"{layer}.exp_probs_b.bias": r.bias(s.experts)}
    t = {name: tensor for name, tensor in latent.items() if ".attn_" not in name or ".attn_norm." in name}
    inner = s.heads * KDA_HEAD
    t |= {f"{layer}.attn_{name}.weight": r.matrix(inner, s.width) for name in "qkv"}
    t |= {f"{layer}.ssm_conv1d_{name}.weight": r.matrix(inner, 1, 4) for name in "qkv"}
    t |= {f"{layer}.ssm_{name}_a.weight": r.matrix(KDA_HEAD, s.width) for name in "fg"}
    t |= {f"{layer}.ssm_{name}_b.weight": r.matrix(inner, KDA_HEAD) for name in "fg"}
    t |= {f"{layer}.ssm_beta.weight": r.matrix(s.heads, s.width), f"{layer}.ssm_dt.bias": r.bias(inner)}
    t |= {f"{layer}.ssm_a": as_f32(-np.exp(r.matrix(s.heads, 1))), f"{layer}.ssm_norm.weight": r.norm(KDA_HEAD)}
    return {**t, f"{layer}.attn_output.weight": r.matrix(s.width, inner)}


KDA_HEAD = 32  # columns of a head of Kimi's delta nets


def glm4moe_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """Layer 0 is dense; experts have a bias that decides which are used."""
    t = {f"{layer}.{name}.weight": r.norm(s.width) for name in ("attn_norm", "post_attention_norm")}
    t |= attention(recipe, r, s, layer)
    if layer == "blk.0":
        return t | feed_forward(recipe, r, s, layer)
    return t | experts(recipe, r, s, layer) | {f"{layer}.exp_probs_b.bias": r.bias(s.experts)}


def pattern(s: Shape) -> Keys:
    """Every second layer has a window."""
    return {**sliding(s), "attention.sliding_window_pattern": [i % 2 == 0 for i in range(s.layers + s.head_layers)]}


def mimo2_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """The head has no experts."""
    return transformer_layer(replace(recipe, experts=not recipe.attends), r, s, layer)


def drafting_head_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    """A layer that reads [token's embedding, target's hidden row of the token before], each with a norm."""
    t = (recipe.body or transformer_layer)(replace(recipe, attends=True), r, s, layer)
    t |= {f"{layer}.nextn.{name}.weight": r.norm(s.width) for name in ("enorm", "hnorm", "shared_head_norm")}
    return {**t, f"{layer}.nextn.eh_proj.weight": r.matrix(s.width, 2 * s.width)}


LORA = 16  # rank of RWKV's low-rank matrices


def rwkv7_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    t: Tensors = {}
    for name in ("attn_norm", "attn_norm_2", "time_mix_ln"):
        t |= {f"{layer}.{name}.weight": r.norm(s.width), f"{layer}.{name}.bias": r.bias(s.width)}
    if layer == "blk.0":
        t |= {
            "token_embd_norm.weight": r.norm(s.width),
            "token_embd_norm.bias": r.bias(s.width),
            "output_norm.bias": r.bias(s.width),
        }
    for name in "wavg":
        t |= {
            f"{layer}.time_mix_{name}1.weight": r.matrix(LORA, s.width),
            f"{layer}.time_mix_{name}2.weight": r.matrix(s.width, LORA),
        }
    vectors = ("w0", "a0", "v0", "k_k", "k_a", "r_k")
    t |= {f"{layer}.time_mix_{name}.weight": r.bias(s.width) for name in vectors}
    t |= {
        f"{layer}.time_mix_{name}.weight": r.matrix(s.width, s.width)
        for name in ("key", "value", "receptance", "output")
    }
    t[f"{layer}.time_mix_lerp_fused.weight"] = as_f32(0.5 + r.bias(6 * s.width)).reshape(6, 1, 1, s.width)
    t[f"{layer}.channel_mix_lerp_k.weight"] = as_f32(0.5 + r.bias(s.width)).reshape(1, 1, s.width)
    t[f"{layer}.channel_mix_key.weight"] = r.matrix(s.ffn, s.width)
    return {**t, f"{layer}.channel_mix_value.weight": r.matrix(s.width, s.ffn)}


def is_odd(layer: str) -> bool:
    return int(layer.removeprefix("blk.")) % 2 == 1


def common_keys(recipe: Recipe, s: Shape) -> Keys:
    epsilon = "attention.layer_norm_epsilon" if recipe.biases else "attention.layer_norm_rms_epsilon"
    keys: Keys = {epsilon: 1e-5, "attention.head_count": s.heads, "attention.head_count_kv": s.kv_heads}
    keys |= {"attention.key_length": s.head, "attention.value_length": s.head, "rope.dimension_count": s.head}
    if recipe.experts:
        keys |= {"expert_count": s.experts, "expert_used_count": s.experts_used, "expert_feed_forward_length": s.ffn}
    return keys


def latent_keys(s: Shape) -> Keys:
    lengths: Keys = {"q_lora_rank": LATENT, "kv_lora_rank": LATENT, "key_length_mla": 32 + ROPE, "value_length_mla": 32}
    lengths |= {"head_count_kv": 1, "key_length": LATENT + ROPE, "value_length": LATENT}
    keys: Keys = {f"attention.{name}": value for name, value in lengths.items()}
    keys |= {"rope.dimension_count": ROPE, "leading_dense_block_count": 1, "expert_shared_count": 1}
    return {**keys, "expert_weights_scale": 1.0}


def mamba_keys(s: Shape) -> Keys:
    keys = {"conv_kernel": 4, "inner_size": 2 * s.width, "state_size": 16, "time_step_rank": 32}
    return {**{f"ssm.{name}": value for name, value in keys.items()}, "attention.head_count": 0}


def odd_layers_attend(s: Shape) -> Keys:
    return {"attention.head_count_kv": [s.kv_heads * (i % 2) for i in range(s.layers)]}


def lfm2_keys(s: Shape) -> Keys:
    return {"shortconv.l_cache": 3, **odd_layers_attend(s)}


SSM = {"conv_kernel": 4, "state_size": 16, "time_step_rank": 8, "group_count": 2}  # time_step_rank: heads


def mamba2_keys(s: Shape) -> Keys:
    return {f"ssm.{name}": value for name, value in {**SSM, "inner_size": 2 * s.width}.items()}


def nemotron_h_keys(s: Shape) -> Keys:
    more = [0] * s.head_layers
    layers: Keys = {"attention.head_count_kv": [0, s.kv_heads, 0, *(s.kv_heads for _ in more)]}
    layers["feed_forward_length"] = [0, 0, s.ffn, *more]
    return {**mamba2_keys(s), **layers, "attention.layer_norm_epsilon": 1e-5}


def qwen35_keys(s: Shape) -> Keys:
    keys = {**SSM, "inner_size": SSM["time_step_rank"] * SSM["state_size"]}
    more: Keys = {
        "full_attention_interval": 2,
        "rope.dimension_sections": [3, 3, 2, 0],
        "expert_shared_feed_forward_length": s.ffn,
    }
    return {**{f"ssm.{name}": value for name, value in keys.items()}, **more}


def glm4moe_keys(s: Shape) -> Keys:
    return {"leading_dense_block_count": 1, "expert_shared_count": 1, "expert_weights_scale": 1.0}


SIGMOID = 2  # how probabilities of experts are made


def qwen3next_keys(s: Shape) -> Keys:
    return {name: value for name, value in qwen35_keys(s).items() if name != "rope.dimension_sections"}


def kimi_linear_keys(s: Shape) -> Keys:
    kinds: Keys = {"attention.head_count_kv": [i % 2 for i in range(s.layers)], "expert_gating_func": SIGMOID}
    compressed = {name: value for name, value in latent_keys(s).items() if name != "attention.q_lora_rank"}
    return {**compressed, **kinds, "ssm.conv_kernel": 4, "kda.head_dim": KDA_HEAD}


def lfm2moe_keys(s: Shape) -> Keys:
    return {**lfm2_keys(s), "leading_dense_block_count": 1, "expert_gating_func": SIGMOID}


def nemotron_h_moe_keys(s: Shape) -> Keys:
    shared: Keys = {"expert_shared_count": 1, "expert_shared_feed_forward_length": s.ffn, "expert_weights_scale": 1.0}
    return {**nemotron_h_keys(s), **shared, "expert_gating_func": SIGMOID}


def cohere2_keys(s: Shape) -> Keys:
    return {
        **sliding(s),
        "attention.sliding_window_pattern": 2,
        "logit_scale": 0.25,
        "attention.layer_norm_epsilon": 1e-5,
    }


def gemma4_keys(s: Shape) -> Keys:
    lengths: Keys = {
        "attention.key_length_swa": s.head,
        "attention.value_length_swa": s.head,
        "rope.dimension_count_swa": s.head,
    }
    windows: Keys = {"attention.sliding_window_pattern": [i % 2 == 0 for i in range(s.layers)]}
    return {
        **sliding(s),
        **lengths,
        **windows,
        "embedding_length_per_layer_input": PER_LAYER,
        "final_logit_softcapping": 30.0,
    }


def rwkv7_keys(s: Shape) -> Keys:
    ranks: Keys = {f"attention.{name}_lora_rank": LORA for name in ("decay", "iclr", "value_residual_mix", "gate")}
    return {
        **ranks,
        "wkv.head_size": 64,
        "token_shift_count": 2,
        "attention.layer_norm_epsilon": 1e-5,
        "attention.head_count": 0,
    }


def sliding(s: Shape) -> Keys:
    return {"attention.sliding_window": s.window}


def soft_capped(s: Shape) -> Keys:
    return {**sliding(s), "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}


RECIPES = {
    "llama": Recipe("llama"),
    "llama_tied": Recipe("llama", tied=True),
    "qwen2": Recipe("qwen2", qkv_bias=True),
    "qwen3": Recipe("qwen3", head_norms=True),
    "gemma2": Recipe("gemma2", soft_capped, tied=True, post_norms=True),
    "gemma3": Recipe("gemma3", sliding, tied=True, post_norms=True, head_norms=True),
    "phi2": Recipe("phi2", fused_qkv=True, gate=False, biases=True, ffn_norm=False),
    "phi3": Recipe("phi3", fused_qkv=True, fused_gate=True),
    "mixtral": Recipe("llama", experts=True),
    "qwen2moe": Recipe("qwen2moe", qkv_bias=True, experts=True, shared_expert=True, body=qwen2moe_layer),
    "qwen3moe": Recipe("qwen3moe", head_norms=True, experts=True),
    "gpt-oss": Recipe("gpt-oss", sliding, qkv_bias=True, ffn_norm=False, experts=True, body=gpt_oss_layer),
    "deepseek2": Recipe("deepseek2", latent_keys, experts=True, shared_expert=True, body=latent_layer),
    "mamba": Recipe("mamba", mamba_keys, body=mamba_layer),
    "mamba2": Recipe("mamba2", lambda s: {**mamba2_keys(s), "attention.head_count": 0}, body=mamba2_layer),
    "rwkv7": Recipe("rwkv7", rwkv7_keys, body=rwkv7_layer),
    "jamba": Recipe(
        "jamba", lambda s: {**mamba_keys(s), "attention.head_count": s.heads, **odd_layers_attend(s)}, body=jamba_layer
    ),
    "granitehybrid": Recipe(
        "granitehybrid", lambda s: {**mamba2_keys(s), **odd_layers_attend(s)}, body=granite_hybrid_layer
    ),
    "nemotron_h": Recipe("nemotron_h", nemotron_h_keys, gate=False, body=nemotron_h_layer),
    "qwen35": Recipe("qwen35", qwen35_keys, head_norms=True, body=qwen35_layer),
    "qwen35moe": Recipe("qwen35moe", qwen35_keys, head_norms=True, experts=True, shared_expert=True, body=qwen35_layer),
    "glm4moe": Recipe("glm4moe", glm4moe_keys, qkv_bias=True, experts=True, shared_expert=True, body=glm4moe_layer),
    "lfm2": Recipe("lfm2", lfm2_keys, tied=True, head_norms=True, output_norm="token_embd_norm", body=lfm2_layer),
    "lfm2moe": Recipe(
        "lfm2moe",
        lfm2moe_keys,
        tied=True,
        head_norms=True,
        experts=True,
        output_norm="token_embd_norm",
        body=lfm2_layer,
    ),
    "nemotron_h_moe": Recipe(
        "nemotron_h_moe", nemotron_h_moe_keys, gate=False, experts=True, shared_expert=True, body=nemotron_h_moe_layer
    ),
    "falcon-h1": Recipe("falcon-h1", mamba2_keys, body=falcon_h1_layer),
    "qwen3next": Recipe(
        "qwen3next", qwen3next_keys, head_norms=True, experts=True, shared_expert=True, body=qwen3next_layer
    ),
    "kimi-linear": Recipe("kimi-linear", kimi_linear_keys, experts=True, shared_expert=True, body=kimi_linear_layer),
    "mistral3": Recipe("mistral3"),
    "smollm3": Recipe("smollm3", tied=True),
    "ernie4_5": Recipe("ernie4_5", tied=True),
    "granite": Recipe("granite", lambda s: {"logit_scale": 4.0}, tied=True),
    "granitemoe": Recipe("granitemoe", lambda s: {"logit_scale": 4.0}, tied=True, experts=True),
    "seed_oss": Recipe("seed_oss", qkv_bias=True, ffn_norm=False, body=seed_oss_layer),
    "olmo2": Recipe("olmo2", post_norms=True, ffn_norm=False, wide_norms=True, body=olmo2_layer),
    "exaone4": Recipe("exaone4", post_norms=True, ffn_norm=False, head_norms=True, body=olmo2_layer),
    "glm4": Recipe("glm4", fused_gate=True, post_norms=True),
    "hunyuan-dense": Recipe("hunyuan-dense", tied=True, head_norms=True),
    "cohere2": Recipe("cohere2", cohere2_keys, tied=True, ffn_norm=False),
    "minimax-m2": Recipe("minimax-m2", lambda s: {"expert_gating_func": SIGMOID}, experts=True, body=minimax_m2_layer),
    "hy_v3": Recipe("hy_v3", head_norms=True, experts=True, shared_expert=True),
    "mimo2": Recipe("mimo2", pattern, fused_qkv=True, experts=True, body=mimo2_layer),
    "step35": Recipe(
        "step35",
        lambda s: {**pattern(s), "expert_shared_feed_forward_length": s.ffn},
        head_norms=True,
        experts=True,
        shared_expert=True,
    ),
    "gemma3n": Recipe("gemma3n", sliding, tied=True, post_norms=True, head_norms=True, body=gemma3n_layer),
    "gemma4": Recipe("gemma4", gemma4_keys, tied=True, post_norms=True, head_norms=True, body=gemma4_layer),
}
SHAPES = {  # where not the default
    "qwen3": Shape(head=32),
    "gemma2": Shape(head=32, kv_heads=1),
    "gemma3": Shape(head=32),
    "qwen3moe": Shape(experts=8, experts_used=3, ffn=64),
    "hy_v3": Shape(head=32),
    "step35": Shape(head=32),
    "nemotron_h": Shape(layers=3),
    "nemotron_h_moe": Shape(layers=3),
}
RECURRENT = ["mamba", "mamba2", "rwkv7", "jamba", "granitehybrid", "nemotron_h", "qwen35", "qwen35moe", "lfm2"]
RECURRENT += ["lfm2moe", "nemotron_h_moe", "falcon-h1", "qwen3next", "kimi-linear"]
WITH_HEADS = ["qwen35", "qwen35moe", "glm4moe", "deepseek2", "nemotron_h_moe", "qwen3next"]  # with a drafting head
WITH_LONG_HEADS = ["hy_v3", "mimo2", "step35"]  # of several layers
WITH_HEADS += WITH_LONG_HEADS
TRANSFORMERS = [name for name in RECIPES if name not in RECURRENT]


def make(name: str, seed: int = 0, *, shape: Shape | None = None, vocabulary: Vocabulary | None = None) -> Model:
    """A model of RECIPES[name]. The seed decides all weights."""
    return make_recipe(RECIPES[name], seed, shape or SHAPES.get(name, Shape()), vocabulary or Vocabulary())


def make_recipe(recipe: Recipe, seed: int, s: Shape, v: Vocabulary) -> Model:
    r = Random(seed)
    tensors = {"token_embd.weight": r.matrix(v.size, s.width), f"{recipe.output_norm}.weight": r.signed_norm(s.width)}
    if not recipe.tied:
        tensors["output.weight"] = r.matrix(v.size, s.width)
    if recipe.biases:
        tensors |= {"output_norm.bias": r.bias(s.width), "output.bias": r.bias(v.size)}
    for i in range(s.layers):
        tensors |= (recipe.body or transformer_layer)(recipe, r, s, f"blk.{i}")
    keys = common_keys(recipe, s) | recipe.keys(s)
    for i in range(s.layers, s.layers + s.head_layers):
        tensors |= drafting_head_layer(recipe, r, s, f"blk.{i}")
        keys["nextn_predict_layers"] = s.head_layers
    return Model(recipe.architecture, s, keys, tensors, v)


def bert_layer(recipe: Recipe, r: Random, s: Shape, layer: str) -> Tensors:
    t = attention(recipe, r, s, layer) | feed_forward(recipe, r, s, layer)
    for name in ("attn_output_norm", "layer_output_norm"):
        t |= {f"{layer}.{name}.weight": r.norm(s.width), f"{layer}.{name}.bias": r.bias(s.width)}
    if layer == "blk.0":
        t |= {"token_embd_norm.weight": r.norm(s.width), "token_embd_norm.bias": r.bias(s.width)}
        t["token_types.weight"] = r.matrix(2, s.width)
        if recipe.architecture == "bert":
            t["position_embd.weight"] = r.matrix(s.context, s.width)
    return t


def bert_keys(s: Shape) -> Keys:
    return {"attention.causal": False, "pooling_type": 1, "tokenizer.ggml.token_type_count": 2}


# Embeddings only.
ENCODERS = {
    "bert": Recipe("bert", bert_keys, tied=True, biases=True, gate=False, body=bert_layer),
    "nomic-bert": Recipe("nomic-bert", bert_keys, tied=True, biases=True, fused_qkv=True, body=bert_layer),
    "jina-bert-v2": Recipe("jina-bert-v2", bert_keys, tied=True, biases=True, body=bert_layer),
    "gemma-embedding": Recipe(
        "gemma-embedding",
        lambda s: {**sliding(s), "pooling_type": 1},
        tied=True,
        head_norms=True,
        post_norms=True,
    ),
}


def make_encoder(
    name: str, seed: int = 0, *, shape: Shape | None = None, vocabulary: Vocabulary | None = None
) -> Model:
    model = make_recipe(ENCODERS[name], seed, shape or Shape(kv_heads=4), vocabulary or Vocabulary())
    if name == "gemma-embedding":
        return model
    return replace(model, tensors={tensor: t for tensor, t in model.tensors.items() if not tensor.startswith("output")})


def word_pieces(words: Collection[str]) -> tuple[Vocabulary, Keys]:
    """BERT's vocabulary and its further keys: [PAD], [UNK], [CLS], [SEP], then words and, with "##", their ends."""
    texts = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    texts += [word[2:] if word.startswith("##") else f"\u2581{word}" for word in words]
    texts += [f"[unused{i}]" for i in range(len(texts), Vocabulary.size)]
    renamed = dict(enumerate(texts))
    keys: Keys = {f"tokenizer.ggml.{name}_token_id": i for i, name in enumerate(("padding", "unknown"))}
    keys["tokenizer.ggml.seperator_token_id"] = 3
    return Vocabulary(model="bert", bos=2, eos=3, renamed=renamed, control=(2, 3)), keys


# Architectures of llama.cpp that do not make one token after another; of the last three, the name is enough.
NOT_GENERATIVE = {
    "dream": Recipe("dream", qkv_bias=True),
    "llada": Recipe("llada"),
    "eagle3": Recipe("eagle3"),
    "dflash": Recipe("dflash"),
    "gemma4-assistant": Recipe("gemma4-assistant"),
}


def make_not_generative(name: str) -> Model:
    return make_recipe(NOT_GENERATIVE[name], 0, Shape(kv_heads=4), Vocabulary())


def deepened(model: Model, layers: int) -> Model:
    """With so many layers: the first, and copies of the second. Quick to make where only the size counts."""
    tensors = {
        name: tensor
        for name, tensor in model.tensors.items()
        if not name.startswith("blk.") or name.startswith("blk.0.")
    }
    second = {name: tensor for name, tensor in model.tensors.items() if name.startswith("blk.1.")}
    for i in range(1, layers):
        tensors |= {name.replace("blk.1.", f"blk.{i}."): tensor for name, tensor in second.items()}
    return replace(model, shape=replace(model.shape, layers=layers), tensors=tensors)


def with_head(
    name: str, seed: int = 0, *, layers: int = 1, shape: Shape | None = None, vocabulary: Vocabulary | None = None
) -> Model:
    """make(), with a drafting head whose drafts are accepted now and then: all layers change their input little, and
    each layer of the head passes the token's embedding on, so all predict mostly from the last token."""
    shape = replace(shape or SHAPES.get(name, Shape()), head_layers=layers)
    model = make(name, seed, shape=shape, vocabulary=vocabulary)
    width = model.shape.width
    tensors: dict[str, np.ndarray] = {}
    for i in range(model.shape.layers, model.shape.layers + layers):
        layer = f"blk.{i}.nextn"
        projection = model.tensors[f"{layer}.eh_proj.weight"] * 0.2
        projection[:, :width] += np.eye(width)
        tensors |= {
            f"{layer}.eh_proj.weight": as_f32(projection),
            f"{layer}.enorm.weight": as_f32(np.ones(width)),
            f"{layer}.shared_head_norm.weight": model.tensors["output_norm.weight"],
        }
    return damped(model).with_tensors(tensors)


def eagle3_head(target: Model, *, own_parts: bool = False, tokens: int = 200, seed: int = 7) -> Model:
    """An EAGLE-3 head for the target, in a file of its own. own_parts: with embeddings and an output matrix of its own,
    for as many tokens; else it uses the target's. A damped target accepts its drafts now and then: each token attends
    to itself and passes its embedding on.
    """
    r, v = Random(seed), target.vocabulary
    width = target.shape.width
    s = replace(target.shape, layers=1, head_layers=0, heads=4, kv_heads=4, head=width // 4)
    recipe, layer = Recipe("eagle3"), "blk.0"
    norm = target.tensors["output_norm.weight" if "output_norm.weight" in target.tensors else "token_embd_norm.weight"]
    t = {"fc.weight": r.matrix(width, 3 * width), "output_norm.weight": norm}
    t |= {f"{layer}.{name}.weight": as_f32(np.ones(width)) for name in ("attn_norm", "attn_norm_2", "ffn_norm")}
    for name, factor in {"q": 2.5, "k": 2.5, "v": 1.0}.items():
        t[f"{layer}.attn_{name}.weight"] = as_f32(np.hstack([factor * np.eye(width), 0.1 * r.matrix(width, width)]))
    t[f"{layer}.attn_output.weight"] = as_f32(np.eye(width))
    t |= feed_forward(recipe, r, s, layer)
    if own_parts:
        ids = np.sort(np.random.default_rng(seed).choice(np.arange(2, v.size), tokens, replace=False))
        t["token_embd.weight"] = target.tensors["token_embd.weight"]
        t["output.weight"] = target.tensors.get("output.weight", target.tensors["token_embd.weight"])[ids]
        t["d2t"] = ids.astype(np.int64)
    last = target.shape.layers
    keys: Keys = {"target_layers": [0, last // 2, last - 1], "target_hidden_size": width}
    return damped(Model("eagle3", s, common_keys(recipe, s) | keys, t, v), ("fc.weight", "ffn_down.weight"))


def gemma4_assistant(target: Model, *, seed: int = 7) -> Model:
    """A Gemma 4 assistant for the target, which has two layers: one attends to a sliding window, one to everything. A
    damped target accepts its drafts now and then: each token passes its embedding on, to twice the target's columns.
    """
    r, width, norm = Random(seed), target.shape.width, target.tensors["output_norm.weight"]
    s = replace(target.shape, width=2 * width, layers=2)
    recipe = Recipe("gemma4-assistant", post_norms=True, head_norms=True)
    embeddings = target.tensors["token_embd.weight"]
    t = {"token_embd.weight": as_f32(np.hstack([embeddings, np.zeros_like(embeddings)]))}
    t["output_norm.weight"] = as_f32(np.hstack([norm, norm]))
    t["nextn.pre_projection.weight"] = as_f32(np.hstack([np.eye(2 * width, width), 0.01 * r.matrix(2 * width, width)]))
    t["nextn.post_projection.weight"] = r.matrix(width, 2 * width)
    for layer in ("blk.0", "blk.1"):
        own = transformer_layer(recipe, r, s, layer)
        unused = tuple(f"{layer}.attn_{name}" for name in ("k.", "v.", "k_norm"))
        t |= {name: tensor for name, tensor in own.items() if not name.startswith(unused)}
        t |= {
            f"{layer}.{name}.weight": as_f32(0.3 * t[f"{layer}.{name}.weight"])
            for name in ("post_attention_norm", "post_ffw_norm")
        }
        t[f"{layer}.layer_output_scale.weight"] = as_f32([0.9])
    t["rope_freqs.weight"] = as_f32([1.0, 1e30] * (s.head // 4))
    keys = {
        name: key
        for name, key in gemma4_keys(s).items()
        if name not in ("embedding_length_per_layer_input", "final_logit_softcapping")
    }
    keys |= {"embedding_length_out": width, "nextn_predict_layers": s.layers}
    return Model("gemma4-assistant", s, common_keys(recipe, s) | keys, t, target.vocabulary)


@dataclass(frozen=True)
class Block:
    """How a block drafter differs from a plain DFlash one."""

    size: int = 8
    biased: bool = False  # DSpark
    fills_anchor: bool = True  # if biased
    causal: bool = False
    own_parts: bool = False  # embeddings and an output matrix of its own, for some tokens
    tokens: int = 260
    windowed: bool = False  # the first layer
    sinks: bool = False
    sections: bool = False  # M-RoPE, of which text uses one section

    @property
    def num_places(self) -> int:
        return self.size if self.biased and self.fills_anchor else self.size - 1


def with_mask(model: Model) -> Model:
    """A damped target for block drafters: what tells tokens from the mask, its last one, is the first column."""
    table = model.tensors["token_embd.weight"].copy()
    table[:, 0] = np.abs(table[:, 0]) + 0.1
    table[-1] = 0
    table[-1, 0] = 0.05
    return damped(model).with_tensors({"token_embd.weight": table})


def block_drafter(target: Model, block: Block | None = None, *, seed: int = 7) -> Model:
    """A block drafter for with_mask(...). Its layers attend mostly to the token before and pass its embedding on, so
    the target accepts drafts now and then: the first of a block, and with a bias those after it.
    """
    block = block or Block()
    r, v, width = Random(seed), target.vocabulary, target.shape.width
    s = replace(target.shape, layers=2, head_layers=0, heads=4, kv_heads=4, head=width // 4)
    table = target.tensors["token_embd.weight"]
    matrix = target.tensors.get("output.weight", table)
    norm = target.tensors["output_norm.weight" if "output_norm.weight" in target.tensors else "token_embd_norm.weight"]
    read = [0, target.shape.layers // 2, target.shape.layers - 1]
    t = {"fc.weight": r.matrix(width, len(read) * width), "enc.output_norm.weight": r.norm(width)}
    t["output_norm.weight"] = norm
    # Queries and keys are constant but for their sign, and turned against each other by one position.
    angles = 10000.0 ** (-np.arange(4) / (s.head // 2))
    query, key = np.zeros(s.head), np.zeros(s.head)
    query[:4], query[s.head // 2 :][:4], key[:4] = np.cos(angles), -np.sin(angles), 1
    first_column = np.eye(1, width)
    for i in range(s.layers):
        layer = f"blk.{i}"
        t |= {f"{layer}.{name}.weight": r.norm(width) for name in ("attn_norm", "ffn_norm")}
        t[f"{layer}.attn_q.weight"] = as_f32(np.outer(np.tile(query, s.heads), first_column)) + 0.02 * r.matrix(
            width, width
        )
        t[f"{layer}.attn_k.weight"] = as_f32(np.outer(np.tile(key, s.heads), first_column)) + 0.02 * r.matrix(
            width, width
        )
        t[f"{layer}.attn_v.weight"] = as_f32(np.eye(width))
        t[f"{layer}.attn_output.weight"] = as_f32(0.03 * np.eye(width))  # less than a token's own embedding
        t |= {f"{layer}.attn_{name}_norm.weight": as_f32(2.4 * np.ones(s.head)) for name in "qk"}
        t |= feed_forward(Recipe("dflash"), r, s, layer)
        t[f"{layer}.ffn_down.weight"] *= np.float32(0.01)
        if block.sinks:
            t[f"{layer}.attn_sinks.weight"] = r.bias(s.heads) + as_f32(np.full(s.heads, 18.0))
    ids = np.arange(v.size)
    if block.own_parts:
        ids = np.sort(np.random.default_rng(seed).choice(np.arange(2, v.size), block.tokens, replace=False))
        t |= {"token_embd.weight": table, "output.weight": matrix[ids], "d2t": ids.astype(np.int64)}
    if block.biased:
        own = table / np.sqrt((table * table).mean(-1, keepdims=True)) * norm
        t |= {"markov_w1.weight": as_f32(2 * own), "markov_w2.weight": as_f32(matrix[ids])}
        t |= {"conf_proj.weight": 0.3 * r.matrix(1, 2 * width), "conf_proj.bias": np.full(1, 0.4, np.float32)}
    keys: Keys = {"target_layers": read, "block_size": block.size, "tokenizer.ggml.mask_token_id": v.size - 1}
    if not block.fills_anchor:
        keys["sample_from_anchor"] = False
    if block.causal:
        keys["attention.causal"] = True
    if block.windowed:
        keys |= {"attention.sliding_window": 6, "attention.sliding_window_pattern": [True, False]}
    if block.sections:
        keys["rope.dimension_sections"] = [s.head // 2, 0, 0, 0]
    keys |= common_keys(Recipe("dflash"), s)
    return Model("dflash", s, keys, t, v)


OUTPUTS = ("attn_output.weight", "ssm_out.weight", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight")


def damped(model: Model, outputs: tuple[str, ...] = OUTPUTS) -> Model:
    """With layers that change their input little, so that a head can predict it."""
    return model.with_tensors({name: as_f32(0.08 * t) for name, t in model.tensors.items() if name.endswith(outputs)})


def idle_gemma4(target: Model) -> Model:
    """Whose layers add nothing, so that what its assistant attends to decides about every other draft."""
    norms = ("post_attention_norm.weight", "post_ffw_norm.weight", ".post_norm.weight")
    changes = {name: 0 * tensor for name, tensor in target.tensors.items() if name.endswith(norms)}
    changes |= {f"blk.{i}.layer_output_scale.weight": np.ones(1, np.float32) for i in range(2)}
    return target.with_tensors(changes)


def random_tokens(model: Model, count: int, seed: int = 0) -> list[int]:
    """BOS and then ordinary tokens."""
    ordinary = 2 + 256 + len(model.vocabulary.merges)
    others = np.random.default_rng(seed).integers(2, ordinary, count - 1)
    return [model.vocabulary.bos, *map(int, others)]
