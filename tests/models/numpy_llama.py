"""The llama architecture's forward pass in numpy, float64 except for the F16 cache: what the engine must compute.

The multiplication with weights is a parameter, so that a test can say which rounding is in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from tests.models.tiny_models import Block, F32Array, Model

F64Array = npt.NDArray[np.float64]
MatMul = Callable[[F32Array, F64Array], F64Array]  # weights [rows, columns], x [tokens, columns] -> [tokens, rows]


def exact(weights: F32Array, x: F64Array) -> F64Array:
    y: F64Array = x @ weights.T.astype(np.float64)
    return y


def rounded_activations(weights: F32Array, x: F64Array) -> F64Array:
    """The rounding of MXFP6's kernels: 32 columns share the scale (largest magnitude) / 127
    (cpp/weights/mxfp6/matmul.h)."""
    blocks = x.astype(np.float32).reshape(len(x), -1, 32)
    step = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    return exact(weights, (np.rint(blocks / step) * step.astype(np.float64)).reshape(x.shape))


def half(x: F64Array) -> F64Array:
    return x.astype(np.float16).astype(np.float64)


def rms_norm(x: F64Array, weight: F32Array) -> F64Array:
    y: F64Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight
    return y


def rope(x: F64Array) -> F64Array:
    """RoPE: x [tokens, heads, columns]; pairs of columns are rotated by position * 10000^(-column / columns)."""
    columns = x.shape[-1]
    angles = np.arange(len(x))[:, None, None] * 10000.0 ** (-np.arange(0, columns, 2) / columns)
    turned = np.empty_like(x)
    turned[..., ::2] = x[..., ::2] * np.cos(angles) - x[..., 1::2] * np.sin(angles)
    turned[..., 1::2] = x[..., ::2] * np.sin(angles) + x[..., 1::2] * np.cos(angles)
    return turned


def attention(q: F64Array, k: F64Array, v: F64Array) -> F64Array:
    """q [tokens, heads, columns], k and v [tokens, kv heads, columns] -> [tokens, heads * columns]; causal, or one
    query."""
    share = q.shape[1] // k.shape[1]  # heads per key and value head
    k, v = (np.repeat(half(a), share, axis=1) for a in (k, v))
    scores = np.einsum("qhd,khd->hqk", half(q), k) / np.sqrt(q.shape[-1])
    if len(q) > 1:
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out: F64Array = np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)
    return out.reshape(len(q), -1)


def layer(model: Model, i: int, x: F64Array, y: F64Array, matmul: MatMul) -> F64Array:
    """x [tokens, width] with what a layer adds to it; y: what its attention reads, normalised."""
    t, head = model.tensors, model.shape.head
    q, k, v = (matmul(t[f"blk.{i}.attn_{name}.weight"], y).reshape(len(x), -1, head) for name in "qkv")
    x = x + matmul(t[f"blk.{i}.attn_output.weight"], attention(rope(q), rope(k), v))
    y = rms_norm(x, t[f"blk.{i}.ffn_norm.weight"])
    gate, up = (matmul(t[f"blk.{i}.ffn_{name}.weight"], y) for name in ("gate", "up"))
    return x + matmul(t[f"blk.{i}.ffn_down.weight"], gate / (1 + np.exp(-gate)) * up)


def layer_inputs(model: Model, tokens: list[int], matmul: MatMul) -> list[F64Array]:
    """[tokens, width] for every layer, and the output of the last."""
    xs: list[F64Array] = [model.tensors["token_embd.weight"][tokens].astype(np.float64)]
    for i in range(model.shape.layers):
        xs.append(layer(model, i, xs[-1], rms_norm(xs[-1], model.tensors[f"blk.{i}.attn_norm.weight"]), matmul))
    return xs


def logits(model: Model, tokens: list[int], matmul: MatMul) -> F64Array:
    """[tokens, vocabulary]"""
    t = model.tensors
    return matmul(t["output.weight"], rms_norm(layer_inputs(model, tokens, matmul)[-1], t["output_norm.weight"]))


def eagle3_drafts(head: Model, target: Model, tokens: list[int], count: int, banned: list[int]) -> list[int]:
    """What an EAGLE-3 head drafts greedily as llama.cpp uses it (common/speculative.cpp). The head has the target's
    vocabulary.

    It reads every token but the first, each with the target's row of the token before it; drafts with its own.
    """
    t, read = head.tensors, head.keys["target_layers"]
    assert isinstance(read, list)
    inputs = layer_inputs(target, tokens, exact)
    hidden = exact(t["fc.weight"], np.hstack([inputs[i] for i in read]))[:-1]
    drafts: list[int] = []
    for _ in range(count):
        embedded = target.tensors["token_embd.weight"][(tokens + drafts)[1:]].astype(np.float64)
        norms = (rms_norm(embedded, t["blk.0.attn_norm.weight"]), rms_norm(hidden, t["blk.0.attn_norm_2.weight"]))
        state = layer(head, 0, hidden, np.hstack(norms), exact)[-1:]
        row = exact(target.tensors["output.weight"], rms_norm(state, t["output_norm.weight"]))[0]
        row[banned] = -np.inf
        drafts.append(int(row.argmax()))
        hidden = np.vstack([hidden, state])
    return drafts


def half_rope(x: F64Array, positions: npt.NDArray[np.int64], factors: F32Array | None) -> F64Array:
    """RoPE as Gemma has it: x [tokens, heads, columns]; column i turns with column i + columns / 2, by angle /
    factors[i]."""
    columns = x.shape[-1]
    angles = (
        positions[:, None, None]
        * 10000.0 ** (-np.arange(0, columns, 2) / columns)
        / (1 if factors is None else factors)
    )
    first, second = x[..., : columns // 2], x[..., columns // 2 :]
    return np.concatenate(
        [first * np.cos(angles) - second * np.sin(angles), first * np.sin(angles) + second * np.cos(angles)], -1
    )


def gemma4_assistant_drafts(head: Model, target: Model, tokens: list[int], count: int, banned: list[int]) -> list[int]:
    """What a Gemma 4 assistant drafts greedily as llama.cpp uses it (common/speculative.cpp), for a target of two
    layers that add nothing to their input. All drafts attend to the tokens before the last, from the last one's
    position.
    """
    t, own, s = target.tensors, head.tensors, target.shape
    embedded = t["token_embd.weight"].astype(np.float64) * np.sqrt(s.width)
    position, before = len(tokens) - 1, np.arange(len(tokens) - 1)
    hidden = rms_norm(embedded[tokens[-2:-1]], t["output_norm.weight"])
    drafts: list[int] = []
    for _ in range(count):
        x = exact(own["nextn.pre_projection.weight"], np.hstack([embedded[[(tokens + drafts)[-1]]], hidden]))
        for i, seen in enumerate((before[position - before < s.window], before)):
            name, factors = f"blk.{i}.", None if i == 0 else t["rope_freqs.weight"]
            read = rms_norm(embedded[np.array(tokens)[seen]], t[name + "attn_norm.weight"])
            k, v = (exact(t[f"{name}attn_{part}.weight"], read).reshape(len(seen), -1, s.head) for part in "kv")
            k = half_rope(rms_norm(k, t[name + "attn_k_norm.weight"]), seen, factors)
            q = exact(own[name + "attn_q.weight"], rms_norm(x, own[name + "attn_norm.weight"])).reshape(1, -1, s.head)
            q = half_rope(rms_norm(q, own[name + "attn_q_norm.weight"]), np.array([position]), factors)
            y = attention(q * np.sqrt(s.head), k, rms_norm(v, np.ones(s.head, np.float32)))  # no other scale
            x = x + rms_norm(exact(own[name + "attn_output.weight"], y), own[name + "post_attention_norm.weight"])
            y = rms_norm(x, own[name + "ffn_norm.weight"])
            gate, up = (exact(own[f"{name}ffn_{part}.weight"], y) for part in ("gate", "up"))
            gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
            x = x + rms_norm(exact(own[name + "ffn_down.weight"], gate * up), own[name + "post_ffw_norm.weight"])
            x = x * own[name + "layer_output_scale.weight"]
        row = rms_norm(x, own["output_norm.weight"])
        logits_row = exact(own["token_embd.weight"], row)[0]
        logits_row[banned] = -np.inf
        drafts.append(int(logits_row.argmax()))
        hidden = exact(own["nextn.post_projection.weight"], row)
    return drafts


def block_drafts(
    drafter: Model,
    block: Block,
    target: Model,
    tokens: list[int],
    num_places: int,
    banned: list[int],
    confidences: list[float] | None = None,
) -> list[int]:
    """What a block drafter drafts greedily as llama.cpp uses it (common/speculative.cpp): its layers attend to keys and
    values made of the target's rows of all tokens but the last, and to the block's own. With a bias, each draft's is
    that of the draft before it. confidences: where those of a DSpark drafter go.
    """
    t, s, read = drafter.tensors, drafter.shape, drafter.keys["target_layers"]
    assert isinstance(read, list)
    inputs = layer_inputs(target, tokens, exact)
    features = rms_norm(exact(t["fc.weight"], np.hstack([inputs[i] for i in read])[:-1]), t["enc.output_norm.weight"])
    first = 0 if block.biased and block.fills_anchor else 1  # the row that predicts the first draft
    mask = drafter.vocabulary.size - 1
    x = target.tensors["token_embd.weight"][[tokens[-1], *[mask] * (num_places + first - 1)]].astype(np.float64)
    before = len(tokens) - 1
    positions = np.arange(before + len(x))
    distance = positions[before:, None] - positions
    for i in range(s.layers):
        name = f"blk.{i}."
        y = rms_norm(x, t[name + "attn_norm.weight"])
        both = np.vstack([features, y])
        q = exact(t[name + "attn_q.weight"], y).reshape(len(x), -1, s.head)
        k, v = (exact(t[f"{name}attn_{part}.weight"], both).reshape(len(both), -1, s.head) for part in "kv")
        q = half(half_rope(rms_norm(q, t[name + "attn_q_norm.weight"]), positions[before:], None))
        k = half(half_rope(rms_norm(k, t[name + "attn_k_norm.weight"]), positions, None))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(s.head)
        if block.causal:
            scores[:, distance < 0] = -np.inf
        if block.windowed and i == 0:
            scores[:, distance >= 6] = -np.inf
        sinks = t[name + "attn_sinks.weight"] if block.sinks else np.full(s.heads, -np.inf)
        most = np.maximum(scores.max(-1), sinks[:, None])
        weights = np.exp(scores - most[..., None])
        sums = weights.sum(-1) + np.exp(sinks[:, None] - most)
        y = np.einsum("hqk,khd->qhd", weights / sums[..., None], half(v)).reshape(len(x), -1)
        x = x + exact(t[name + "attn_output.weight"], y)
        y = rms_norm(x, t[name + "ffn_norm.weight"])
        gate, up = (exact(t[f"{name}ffn_{part}.weight"], y) for part in ("gate", "up"))
        x = x + exact(t[name + "ffn_down.weight"], gate / (1 + np.exp(-gate)) * up)
    matrix = t.get("output.weight", target.tensors["output.weight"])
    ids = t["d2t"].astype(np.int64) if "d2t" in t else np.arange(len(matrix))
    logits_rows = np.full((num_places, drafter.vocabulary.size), -np.inf)
    hidden = rms_norm(x, t["output_norm.weight"])[first:]
    logits_rows[:, ids] = exact(matrix, hidden)
    drafts: list[int] = []
    for row, state in zip(logits_rows, hidden, strict=True):
        if block.biased:
            before = t["markov_w1.weight"][(tokens + drafts)[-1]]
            row[ids] += t["markov_w2.weight"].astype(np.float64) @ before
            if confidences is not None:
                log_odds = t["conf_proj.weight"][0] @ np.hstack([state, before]) + t["conf_proj.bias"][0]
                confidences.append(1 / (1 + np.exp(-log_odds)))
        row[banned] = -np.inf
        drafts.append(int(row.argmax()))
    return drafts
