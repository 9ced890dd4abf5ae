"""An assertion of llama.cpp's that fails while a pass is prepared is an error of the file, not the end of the
process."""

from __future__ import annotations

import pathlib

import pytest
from gguf_bytes import STRING, string
from parsed_gguf import Parsed
from tests.models.tiny_models import make

import specdec_native as sd


def test_a_hybrid_without_a_recurrent_layer(tmp_path: pathlib.Path) -> None:
    """llama.cpp fills the inputs of recurrent layers, which the graph does not have."""
    path = tmp_path / "m.gguf"
    attention, hybrid = (Parsed.of(make(name).write(path).read_bytes()) for name in ("llama", "jamba"))
    entries = {key.replace("llama.", "jamba.", 1): value for key, value in attention.entries.items()}
    entries |= {key: value for key, value in hybrid.entries.items() if ".ssm." in key or "norm" in key}
    entries["jamba.ssm.inner_size"] = (4, (2 * make("llama").shape.width).to_bytes(4, "little"))
    entries["general.architecture"] = (STRING, string("jamba"))
    path.write_bytes(Parsed(entries, attention.tensors, attention.data).build())
    with sd.Generator(path, draft=None, n_ctx=64) as generator:
        for _ in range(2):
            with pytest.raises(
                sd.ModelError, match=r"m\.gguf: llama\.cpp cannot run this model: .*ggml-backend.*buffer"
            ):
                generator.generate("ab", max_tokens=2)
