"""A tensor type that the operation using the tensor does not take is an error of the file, not the end of the
process."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from parsed_gguf import Parsed
from tests.models.tiny_models import RECIPES, make

import specdec_native as sd

F32, F16, I8, I16, I32, I64, F64, Q8_1 = 0, 1, 24, 25, 26, 27, 28, 9


CASES = [("llama", "blk.0.ffn_up.weight", kind) for kind in (I8, I16, I32, I64, F64, Q8_1)]
CASES += [("llama", "token_embd.weight", kind) for kind in (I8, I64, F64)]
CASES += [
    ("llama", "blk.1.attn_norm.weight", F16),
    ("phi2", "blk.0.attn_qkv.bias", F16),
    ("phi2", "output_norm.bias", F16),
]
CASES += [("mamba", f"blk.0.{name}", F16) for name in ("ssm_a", "ssm_d", "ssm_conv1d.weight", "ssm_dt.bias")]
CASES += [("gpt-oss", "blk.0.ffn_up_exps.bias", F16), ("gpt-oss", "blk.1.attn_sinks.weight", F16)]
CASES += [("gemma3n", "per_layer_token_embd.weight", I32)]
CASES += [("lfm2", "blk.0.shortconv.conv.weight", F16), ("mixtral", "blk.0.ffn_up_exps.weight", I8)]


@pytest.mark.parametrize(("architecture", "name", "kind"), CASES)
def test_a_type_without_a_kernel_is_an_error_of_the_file(
    architecture: str, name: str, kind: int, tmp_path: pathlib.Path
) -> None:
    path = make(architecture).write(tmp_path / "m.gguf")
    path.write_bytes(Parsed.of(path.read_bytes()).with_tensor(name, kind=kind).build())
    with pytest.raises(
        sd.ModelError, match=f'tensor "{name}" has type {GgmlType(kind).name}, expected .*convert the model'
    ):
        sd.Generator(path, draft=None, n_ctx=64)


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (np.array([[0, 3], [1, 4]], np.int32), "has 4, not one of the 4 experts"),
        (np.array([[0, 3], [-1, 2]], np.int32), "has -1, not one of the 4 experts"),
        (np.array([[0, 3], [1, 2]], np.float32), "has type F32, expected I32"),
    ],
)
def test_ids_of_experts_are_checked(ids: np.ndarray, problem: str, tmp_path: pathlib.Path) -> None:
    model = make("mixtral")
    assert model.shape.experts == 4
    path = model.with_tensors({"blk.0.ffn_gate_tid2eid.weight": ids}).write(tmp_path / "m.gguf")
    with pytest.raises(
        sd.ModelError, match=f'm.gguf: tensor "blk.0.ffn_gate_tid2eid.weight" {problem}; convert the model'
    ):
        sd.Generator(path, draft=None, n_ctx=64)


@pytest.mark.parametrize("architecture", RECIPES)
def test_sound_models_are_not_rejected(architecture: str, tmp_path: pathlib.Path) -> None:
    for weights in (GgmlType.F32, GgmlType.F16, GgmlType.Q8_0):
        path = make(architecture).write(tmp_path / "m.gguf", weights)
        logprobs = [
            piece.logprob
            for piece in sd.Generator(path, draft=None, n_ctx=64).stream("ab", max_tokens=2, temperature=0)
        ]
        assert np.isfinite(logprobs).all()
