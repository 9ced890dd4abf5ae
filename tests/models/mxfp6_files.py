"""MXFP6 GGUF files in tests: written by the real command, read by the gguf package extended with the type."""

from __future__ import annotations

import enum
import pathlib
import subprocess
from unittest import mock

import gguf
import gguf.gguf_reader
import numpy as np
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import Model, Tensors

from specdec_native import mxfp6

MXFP6 = 96


def quantize(specdec: pathlib.Path, source: pathlib.Path, *options: str, name: str = "mxfp6") -> pathlib.Path:
    result = source.with_name(f"{source.stem}.{name}.gguf")
    command: list[str | pathlib.Path] = [specdec, "quantize", "--force", "--threads", "1", *options, source, result]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return result


def decoded_tensors(path: pathlib.Path) -> Tensors:
    """The MXFP6 tensors of a file as F32, in numpy's order of dimensions."""
    names = {member.name: member.value for member in GgmlType} | {"MXFP6_E2M3": MXFP6}
    with (
        mock.patch.object(gguf.gguf_reader, "GGMLQuantizationType", enum.IntEnum("GgmlType", names)),
        mock.patch.dict(gguf.constants.GGML_QUANT_SIZES, {MXFP6: (32, 25)}),
    ):
        tensors = gguf.GGUFReader(path).tensors
    decoded = {}
    for tensor in tensors:
        if int(tensor.tensor_type) == MXFP6:
            shape = [int(size) for size in reversed(tensor.shape)]
            rows, cols = shape[-2:]
            tiles = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(-1, rows // 16, cols // 32, 400)
            matrices = [mxfp6.dequantize(*mxfp6.unpack(matrix, rows, cols)) for matrix in tiles]
            decoded[tensor.name] = np.stack(matrices).reshape(shape)
    return decoded


def decoded_copy(model: Model, quantized: pathlib.Path) -> pathlib.Path:
    """The same weights in F32: the model with the tensors of a quantized file of it."""
    decoded = decoded_tensors(quantized)
    assert decoded and all(model.tensors[name].shape == tensor.shape for name, tensor in decoded.items())
    return model.with_tensors(decoded).write(quantized.with_name(f"{quantized.stem}.decoded.gguf"))
