"""MXFP6 in the graphs of many architectures, against the same weights decoded to F32.

The one difference allowed is that MXFP6's kernels round activations to int8 in blocks of 32.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from tests.models.mxfp6_files import decoded_copy, decoded_tensors, quantize
from tests.models.numpy_llama import exact, rounded_activations
from tests.models.numpy_llama import logits as numpy_logits
from tests.models.tiny_models import RECIPES, F32Array, Model, make, random_tokens

import specdec_native as sd
from specdec_native import _core, mxfp6

ROOT = pathlib.Path(__file__).parents[2]

every_architecture = pytest.mark.parametrize("name", RECIPES)


def logits(path: pathlib.Path, tokens: list[int], pass_sizes: int | list[int] = 8, n_threads: int = 1) -> F32Array:
    sizes = [pass_sizes] if isinstance(pass_sizes, int) else pass_sizes
    rows: F32Array = _core.evaluate(str(path), tokens, sizes, n_threads)
    return rows


def differences(x: F32Array, reference: F32Array) -> F32Array:
    """Per position: the norm of x - reference over that of reference without its mean."""
    centred = reference - reference.mean(-1, keepdims=True)
    ratios: F32Array = np.linalg.norm(x - reference, axis=-1) / np.linalg.norm(centred, axis=-1)
    return ratios


def flat(model: Model) -> Model:
    """Embeddings of -1, 0 and 1 with mean 0, layers that add nothing, a final norm of ones."""
    rng = np.random.default_rng(0)
    row = np.repeat(np.array([-1, 0, 1, 0], np.float32), model.shape.width // 4)
    embeddings = np.stack([rng.permutation(row) for _ in range(model.vocabulary.size)])
    added = r"attn_output\.|ffn_down|_out\.|out_proj|time_mix_output|channel_mix_value|\.proj\."
    added += r"|output_norm\.bias|token_embd_norm\.bias"
    zeros = {name: np.zeros_like(tensor) for name, tensor in model.tensors.items() if re.search(added, name)}
    norms = {name: np.ones_like(tensor) for name, tensor in model.tensors.items() if name.endswith("_norm.weight")}
    return model.with_tensors(zeros | norms | {"token_embd.weight": embeddings})


# ---- The activation rounding is the only difference


@every_architecture
def test_logits_are_those_of_the_decoded_weights(name: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Measured: 0.010 to 0.030. Median, because rounding may choose another expert where two are nearly equal."""
    model = make(name)
    quantized = quantize(specdec, model.write(tmp_path / "m.gguf"))
    tokens = random_tokens(model, 40)
    y = logits(quantized, tokens)
    assert np.isfinite(y).all() and (y.std(-1) > 0.1).all() and len(np.unique(y.argmax(-1))) > 5
    assert 0.005 < np.median(differences(y, logits(decoded_copy(model, quantized), tokens))) < 0.04


def test_numpy_with_the_same_rounding_computes_the_same(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A numpy llama equals the engine's F32 without rounding of activations, and its MXFP6 with it.

    Sequences of one token: with more, F16 rounding in attention moves some activations to the next integer.
    """
    model = make("llama")
    quantized = quantize(specdec, model.write(tmp_path / "m.gguf"))
    copy, decoded = decoded_copy(model, quantized), model.with_tensors(decoded_tensors(quantized))
    texts = [[token] for token in range(2, 66)]
    y, reference = (np.concatenate([logits(path, text) for text in texts]) for path in (quantized, copy))
    plain, rounded = (
        np.concatenate([numpy_logits(decoded, text, f) for text in texts]) for f in (exact, rounded_activations)
    )
    assert 0.01 < np.median(differences(y, reference)) < 0.02
    assert np.median(differences(plain, reference)) < 1e-6
    assert np.median(differences(rounded, y)) < 1e-6
    assert np.mean(differences(rounded, y) < 1e-6) > 0.9  # in the others, one activation is near a tie


@pytest.mark.parametrize(
    "name", [name for name in RECIPES if name != "gemma3n"]
)  # which mixes its streams before the output
def test_activations_that_int8_holds_give_no_difference(
    name: str, specdec: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The output matrix multiplies -a, 0 and a."""
    model = flat(make(name))
    quantized = quantize(specdec, model.write(tmp_path / "m.gguf"))
    tokens = random_tokens(model, 40)
    y = logits(quantized, tokens)
    assert (differences(y, logits(decoded_copy(model, quantized), tokens)) < 1e-6).all()


def test_embedding_rows_are_decoded_exactly(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With everything else in F32, the whole model has the same bits as with decoded embeddings."""
    model = make("llama")
    quantized = quantize(specdec, model.write(tmp_path / "m.gguf"), "--keep", r"^(blk\.|output)")
    assert list(decoded_tensors(quantized)) == ["token_embd.weight"]
    tokens = list(range(model.vocabulary.size))
    assert (logits(quantized, tokens) == logits(decoded_copy(model, quantized), tokens)).all()


# ---- Passes and threads do not change a bit


@every_architecture
def test_same_bits_for_any_pass_and_threads(name: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = make(name)
    quantized = quantize(specdec, model.write(tmp_path / "m.gguf"))
    tokens = random_tokens(model, 600)
    expected = logits(quantized, tokens, 600)
    assert np.isfinite(expected).all()
    sizes: list[int | list[int]] = [512, 33, [5, 1, 64, 3]]
    for pass_sizes in sizes:
        check_same(expected, logits(quantized, tokens, pass_sizes), pass_sizes)
    for pass_sizes in (1, 2, 7, 8, 9):
        check_same(expected[:280], logits(quantized, tokens[:280], pass_sizes), pass_sizes)
    # Few passes: with more threads than cores, every operation waits for the operating system's scheduler.
    for n_threads in (2, 3):
        check_same(expected, logits(quantized, tokens, [560, 1, 2, 7, 8, 9, 13], n_threads), n_threads)


def test_same_bits_on_every_instruction_set(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    models = [make(name) for name in ("llama", "qwen3moe", "deepseek2")]
    paths = [model.write(tmp_path / f"{i}.gguf") for i, model in enumerate(models)]
    quantized = [str(quantize(specdec, path)) for path in paths]
    tokens = random_tokens(models[0], 40)
    code = "import sys; from specdec_native import _core; tokens = list(map(int, sys.argv[1].split()))"
    code += "; [sys.stdout.buffer.write(_core.evaluate(path, tokens, [9, 1], 1).tobytes()) for path in sys.argv[2:]]"
    command = [sys.executable, "-c", code, " ".join(map(str, tokens)), *quantized]
    expected = b"".join(logits(pathlib.Path(path), tokens).tobytes() for path in quantized)
    for isa in mxfp6.isas():
        environment = {**os.environ, "SPECDEC_ISA": isa}
        assert (
            subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60).stdout == expected
        ), isa


def check_same(expected: F32Array, y: F32Array, what: object) -> None:
    assert (y == expected).all(), (what, "first at position", int((y != expected).any(-1).argmax()))


@pytest.mark.parametrize(("change", "message"), [
    ({"tokens": []}, "tokens is empty"),
    ({"tokens": [0, 288]}, "tokens contain 288; ids must be between 0 and 287"),
    ({"tokens": [-1]}, "tokens contain -1"),
    ({"pass_sizes": []}, "pass_sizes must be"),
    ({"pass_sizes": [2, 0]}, "pass_sizes must be"),
    ({"n_threads": 0}, "n_threads is 0"),
])  # fmt: skip
def test_evaluate_rejects(change: dict[str, object], message: str, tmp_path: pathlib.Path) -> None:
    arguments = {
        "path": str(make("llama").write(tmp_path / "m.gguf")),
        "tokens": [0],
        "pass_sizes": [1],
        "n_threads": 1,
    }
    with pytest.raises(ValueError, match=message):
        _core.evaluate(**{**arguments, **change})


# ---- Models that do not make one token after another


def test_a_diffusion_model_is_rejected(tmp_path: pathlib.Path) -> None:
    """It would load, but each pass would only attend to its own tokens. Uses the bundled target under that name."""
    header, tensors = (ROOT / "models" / "stdlib-target-f16.gguf").read_bytes().split(b"tokenizer.ggml.model", 1)
    path = tmp_path / "llada.gguf"
    path.write_bytes(header.replace(b"llama", b"llada") + b"tokenizer.ggml.model" + tensors)
    with pytest.raises(sd.ModelError, match="architecture llada is not a decoder-only language model"):
        sd.Generator(path, draft=None)
