"""The parts of a target's file that a head shares or is initialised with."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from .._core import ModelError

F32Array = npt.NDArray[np.float32]
OUTPUT_NORMS = ("output_norm.weight", "token_embd_norm.weight")  # the latter: lfm2
FEED_FORWARD_NORMS = ("ffn_norm", "post_attention_norm")  # the latter: qwen35


@dataclass(frozen=True, slots=True)
class FeedForward:
    """down @ (silu(gate @ x) * (up @ x)) of the normalised x."""

    gate: F32Array  #: [neurons, width]
    up: F32Array  #: [neurons, width]
    down: F32Array  #: [width, neurons]
    norm: F32Array  #: [width]


def read_file(path: pathlib.Path) -> gguf.GGUFReader:
    try:
        return gguf.GGUFReader(path)
    except ValueError as error:  # MXFP6 of this project, for example
        raise ModelError(
            f"{path}: has weights that cannot be read for training ({error}); train with the file that it was made"
            " from: the head serves both"
        ) from None


class TargetWeights:
    """Decodes rows on demand, because whole matrices are as large as the model."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        first = read_file(path)
        self.fields = first.fields
        self._tensors = {tensor.name: tensor for reader in (first, *self._other_parts()) for tensor in reader.tensors}
        self.architecture = str(self.value("general.architecture"))
        self.width = int(self.value(f"{self.architecture}.embedding_length"))
        self.epsilon = float(self.value(f"{self.architecture}.attention.layer_norm_rms_epsilon", 1e-5))
        self.context_length = int(self.value(f"{self.architecture}.context_length", 4096))
        self.num_bytes = sum(int(tensor.n_bytes) for tensor in self._tensors.values())
        self.vocabulary = int(self._tensors["token_embd.weight"].shape[1])
        self.texts: list[str] = list(self.value("tokenizer.ggml.tokens"))

    def _other_parts(self) -> Iterable[gguf.GGUFReader]:
        """The other files of a split one, "name-00001-of-00003.gguf"."""
        count = int(self.value("split.count", 1))
        stem = self.path.name.removesuffix(f"-00001-of-{count:05}.gguf")
        return [read_file(self.path.with_name(f"{stem}-{i:05}-of-{count:05}.gguf")) for i in range(2, count + 1)]

    def value(self, key: str, default: Any = None) -> Any:
        if key in self.fields:
            return self.fields[key].contents()
        if default is None:
            raise ModelError(f'{self.path}: no metadata "{key}"; convert it again')
        return default

    def _rows(self, name: str, ids: npt.NDArray[np.integer]) -> F32Array:
        tensor = self._tensors[name]
        try:
            return gguf.quants.dequantize(tensor.data[ids], tensor.tensor_type).astype(np.float32)
        except NotImplementedError:
            raise ModelError(
                f"{self.path}: weights of type {tensor.tensor_type.name} cannot be read for training; use a file of"
                " another type, such as Q4_K_M"
            ) from None

    def embeddings(self, ids: npt.NDArray[np.integer]) -> F32Array:
        """[ids, width]"""
        return self._rows("token_embd.weight", ids)

    def output(self, ids: npt.NDArray[np.integer]) -> F32Array:
        """[ids, width]: rows of the output matrix, or of the embeddings where a model uses them for both."""
        return self._rows("output.weight" if "output.weight" in self._tensors else "token_embd.weight", ids)

    def output_norm(self) -> F32Array:
        name = next((name for name in OUTPUT_NORMS if name in self._tensors), None)
        return np.ones(self.width, np.float32) if name is None else np.array(self._tensors[name].data, np.float32)

    def feed_forward(self, layer: int) -> FeedForward | None:
        """None: the layer has none of this form (experts, fused matrices, another norm), or it cannot be decoded."""
        names = [f"blk.{layer}.{name}.weight" for name in ("ffn_gate", "ffn_up", "ffn_down")]
        norms = [f"blk.{layer}.{name}.weight" for name in FEED_FORWARD_NORMS]
        norm = next((name for name in norms if name in self._tensors), None)
        if norm is None or any(name not in self._tensors for name in names):
            return None
        try:
            gate, up, down = (self._rows(name, np.arange(int(self._tensors[name].shape[1]))) for name in names)
        except ModelError:
            return None
        found = FeedForward(gate, up, down, np.array(self._tensors[norm].data, np.float32))
        fits = gate.shape == up.shape == down.T.shape and gate.shape[1] == self.width
        return found if fits else None

    def ends(self) -> list[int]:
        """Ids that end a text or a turn, and other control tokens."""
        types = self.value("tokenizer.ggml.token_type", [])
        control = [i for i, kind in enumerate(types) if kind == gguf.TokenType.CONTROL]
        keys = ("eos_token_id", "eot_token_id", "bos_token_id")
        named = [int(self.value(f"tokenizer.ggml.{key}", -1)) for key in keys]
        return sorted({i for i in [*named, *control[:64]] if 0 <= i < self.vocabulary})
