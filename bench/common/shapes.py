"""Random-weight GGUF models of real sizes: python shapes.py 1.1b OUT.gguf [--type f16].

For measuring speed only. Every matrix repeats one random tile of rows, so that writing takes seconds; kernels do not
care.
"""

from __future__ import annotations

import argparse
import pathlib
from dataclasses import dataclass

import gguf
import numpy as np


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    vocabulary: int = 32000


SHAPES = {
    "1.1b": Shape(layers=22, width=2048, ffn=5632, heads=32, kv_heads=4),
    "7b": Shape(layers=32, width=4096, ffn=11008, heads=32, kv_heads=32),
    "115m": Shape(layers=12, width=768, ffn=2048, heads=12, kv_heads=12),
    "tiny": Shape(layers=2, width=256, ffn=512, heads=4, kv_heads=2, vocabulary=512),
}


def weights(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """F16 [rows, columns], normal with the scale of trained weights."""
    period = min(rows, 256)
    tile = (rng.standard_normal((period, columns), dtype=np.float32) * columns**-0.5).astype(np.float16)
    return np.resize(tile, (rows, columns))


def write(shape: Shape, path: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    w = gguf.GGUFWriter(str(path), "llama", use_temp_file=False)
    w.add_context_length(32768)
    w.add_embedding_length(shape.width)
    w.add_block_count(shape.layers)
    w.add_feed_forward_length(shape.ffn)
    w.add_head_count(shape.heads)
    w.add_head_count_kv(shape.kv_heads)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(shape.width // shape.heads)
    w.add_vocab_size(shape.vocabulary)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_tokenizer_model("llama")
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    rest = [f"t{i}" for i in range(shape.vocabulary - 259)]
    types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    types += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(rest)
    w.add_token_list(["<unk>", "<s>", "</s>", *bytes_, *rest])
    w.add_token_scores([0.0] * shape.vocabulary)
    w.add_token_types(types)
    kv_width = shape.width // shape.heads * shape.kv_heads
    norm = np.ones(shape.width, np.float32)
    w.add_tensor("token_embd.weight", weights(rng, shape.vocabulary, shape.width))
    w.add_tensor("output.weight", weights(rng, shape.vocabulary, shape.width))
    w.add_tensor("output_norm.weight", norm)
    matrices = {
        "attn_q": (shape.width, shape.width),
        "attn_k": (kv_width, shape.width),
        "attn_v": (kv_width, shape.width),
        "attn_output": (shape.width, shape.width),
        "ffn_gate": (shape.ffn, shape.width),
        "ffn_up": (shape.ffn, shape.width),
        "ffn_down": (shape.width, shape.ffn),
    }
    for layer in range(shape.layers):
        w.add_tensor(f"blk.{layer}.attn_norm.weight", norm)
        w.add_tensor(f"blk.{layer}.ffn_norm.weight", norm)
        for name, (rows, columns) in matrices.items():
            w.add_tensor(f"blk.{layer}.{name}.weight", weights(rng, rows, columns))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    write(SHAPES[arguments.shape], arguments.out)
