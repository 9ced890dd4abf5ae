"""Heads as GGUF files of architecture eagle3, which stock llama.cpp loads, too."""

from __future__ import annotations

import pathlib
import shutil
from dataclasses import replace
from typing import Any

import gguf
import numpy as np
import torch

from .._core import Error, ModelError, OutputFile
from .head import Head
from .shape import Shape
from .target_weights import F32Array, TargetWeights

IN_LAYER = (
    *("attn_norm", "attn_norm_2", "ffn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
    *("ffn_gate", "ffn_up", "ffn_down"),
)
MARGIN = 1 << 24  #: bytes of a file besides its weights: the vocabulary


def file_bytes(shape: Shape) -> int:
    return 2 * shape.num_weights + MARGIN


def check_space(path: pathlib.Path, shape: Shape) -> None:
    folder = path.parent
    free, needed = shutil.disk_usage(folder).free, file_bytes(shape)
    if free < needed:
        raise Error(f"{path} needs {needed >> 20} MB, and {folder} has {free >> 20} MB free")


def copy_tokenizer(writer: gguf.GGUFWriter, target: TargetWeights) -> None:
    for key, field in target.fields.items():
        if not key.startswith("tokenizer.ggml."):
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), field.types[0], sub_type)


def add_shape(writer: gguf.GGUFWriter, target: TargetWeights, s: Shape) -> None:
    writer.add_name(f"{target.value('general.name', target.path.stem)} EAGLE-3 head")
    writer.add_description(f"A drafting head for {target.path.name}, trained by specdec-train")
    if licence := target.value("general.license", ""):
        writer.add_license(licence)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(s.vocabulary)
    writer.add_context_length(s.context_length)
    writer.add_embedding_length(s.width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(s.feed_forward)
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(s.kv_heads)
    writer.add_layer_norm_rms_eps(s.epsilon)
    writer.add_rope_freq_base(s.rope_base)
    writer.add_rope_dimension_count(s.head_width)
    writer.add_array("eagle3.target_layers", list(s.layers))
    writer.add_uint32("eagle3.target_hidden_size", s.width)


def tensors_of(head: Head, target: TargetWeights) -> dict[str, Any]:
    def array(tensor: torch.Tensor) -> F32Array:
        result: F32Array = tensor.detach().float().cpu().numpy()
        return result

    tensors: dict[str, Any] = {f"blk.0.{name}.weight": array(getattr(head, name)) for name in IN_LAYER}
    tensors["fc.weight"] = array(head.fc * head.row_scale)
    tensors["output_norm.weight"] = array(head.output_norm)
    if head.shape.tokens is not None:
        tensors["d2t"] = head.shape.tokens
        tensors["output.weight"] = target.output(head.shape.tokens)
    return tensors


def write_head(head: Head, target: TargetWeights, path: pathlib.Path) -> None:
    """The file appears when it is complete, and replaces that of the last report."""
    try:
        with OutputFile(path, True) as output:
            writer = gguf.GGUFWriter(output.partial, "eagle3")
            add_shape(writer, target, head.shape)
            copy_tokenizer(writer, target)
            for name, tensor in tensors_of(head, target).items():
                is_matrix = tensor.ndim == 2
                writer.add_tensor(name, np.clip(tensor, -65504, 65504).astype(np.float16) if is_matrix else tensor)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
    except OSError as error:
        raise Error(f"cannot write {path}: {error.strerror or error}") from None


def read_head(path: pathlib.Path, target: TargetWeights, shape: Shape) -> Head:
    """Reads a head that write_head() wrote. shape: that of a new head for the target."""
    if not path.is_file():
        raise Error(f"there is no file {path}")
    try:
        reader = gguf.GGUFReader(path)
    except ValueError as error:
        raise ModelError(f"{path}: not a GGUF file ({error})") from None
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def value(key: str) -> Any:
        field = reader.fields.get(key)
        return None if field is None else field.contents()

    if value("general.architecture") != "eagle3":
        raise ModelError(f"{path}: not an EAGLE-3 head; give one that specdec-train made")
    if value("eagle3.target_hidden_size") != target.width or value("tokenizer.ggml.tokens") != target.texts:
        raise ModelError(f"{path}: a head for another target than {target.path}")
    ids = tensors.get("d2t")
    shape = replace(
        shape,
        heads=value("eagle3.attention.head_count"),
        kv_heads=value("eagle3.attention.head_count_kv"),
        feed_forward=value("eagle3.feed_forward_length"),
        layers=tuple(value("eagle3.target_layers")),
        tokens=None if ids is None else np.array(ids.data, np.int64),
        rope_base=value("eagle3.rope.freq_base") or shape.rope_base,
    )
    head = Head(shape)
    names = {f"blk.0.{name}.weight": name for name in IN_LAYER}
    names |= {"fc.weight": "fc", "output_norm.weight": "output_norm"}
    with torch.no_grad():
        for name, attribute in names.items():
            parameter = getattr(head, attribute)
            if name not in tensors or "token_embd.weight" in tensors:
                raise ModelError(f"{path}: not a head that specdec-train made, which alone it can go on with")
            found = torch.from_numpy(
                gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type).astype(np.float32)
            )
            if found.shape != parameter.shape:
                raise ModelError(f"{path}: tensor {name} has another shape than its metadata says")
            parameter.copy_(found)
    return head
