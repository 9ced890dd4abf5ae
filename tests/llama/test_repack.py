"""Stock weights repacked at load: the same bits, also for experts and tied embeddings, and a reason if it is not
done."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from gguf import GGMLQuantizationType as GgmlType
from gguf.quants import dequantize
from tests.models.mxfp6_files import decoded_tensors, quantize
from tests.models.tiny_models import SHAPES, Model, Shape, Vocabulary, encoded, is_weight, make, random_tokens

import specdec_native as sd
from specdec_native import _core


def tiny(name: str) -> Model:
    """Rows that K-quants divide into blocks, and a number of rows that fills no tile."""
    return make(name, shape=dataclasses.replace(SHAPES.get(name, Shape()), width=256, ffn=256, head=64))


@pytest.mark.parametrize("name", ["llama", "llama_tied", "mixtral"])
@pytest.mark.parametrize("type", ["Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K"])
def test_logits_are_the_same_bits(name: str, type: str, tmp_path: pathlib.Path) -> None:
    model = tiny(name)
    path = str(model.write(tmp_path / "m.gguf", GgmlType[type]))
    tokens = random_tokens(model, 90)
    for passes in [[8, 1, 3], [90]]:
        as_in_file, repacked = (_core.evaluate(path, tokens, passes, 2, repack=repack) for repack in ("", "file"))
        assert (as_in_file == repacked).all()


@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_four_bits_are_q4_0(name: str, tmp_path: pathlib.Path) -> None:
    """Products are those of the file's weights rounded to Q4_0; embeddings are looked up in the file."""
    model = tiny(name)
    path = str(model.write(tmp_path / "8.gguf", GgmlType.Q8_0))
    values = {
        name: dequantize(encoded(tensor, GgmlType.Q8_0), GgmlType.Q8_0) if is_weight(name, tensor) else tensor
        for name, tensor in model.tensors.items()
    }
    rounded = dataclasses.replace(model, tensors=values).write(
        tmp_path / "4.gguf", GgmlType.Q4_0, kept={"token_embd.weight"}
    )
    tokens = random_tokens(model, 90)
    expected = _core.evaluate(str(rounded), tokens, [90])
    for passes in [[8, 1, 3], [90]]:
        assert (_core.evaluate(path, tokens, passes, 2, repack="4-bit") == expected).all()
    assert (_core.evaluate(path, tokens, [90], repack="file") != expected).any()


@pytest.mark.parametrize("type", ["F16", "BF16", "MXFP6"])
def test_four_bits_of_floats_and_mxfp6(type: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In models of more than 64 MiB; smaller ones lie in the processor's caches."""
    for ffn, is_rounded in [((224 if type == "MXFP6" else 96) * 256, True), (256, False)]:
        model = make("llama", shape=dataclasses.replace(Shape(), width=256, ffn=ffn, head=64))
        if type == "MXFP6":
            path = quantize(specdec, model.write(tmp_path / "16.gguf", GgmlType.F16))
            values = decoded_tensors(path)
        else:
            path = model.write(tmp_path / "16.gguf", GgmlType[type])
            values = {
                name: dequantize(encoded(tensor, GgmlType[type]), GgmlType[type])
                for name, tensor in model.tensors.items()
                if is_weight(name, tensor)
            }
        rounded = model.with_tensors(values).write(tmp_path / "4.gguf", GgmlType.Q4_0, kept={"token_embd.weight"})
        tokens = random_tokens(model, 20)
        if is_rounded:
            expected = _core.evaluate(str(rounded), tokens, [20])
            assert (_core.evaluate(str(path), tokens, [8, 1], 2, repack="4-bit") == expected).all()
            continue
        with pytest.raises(sd.ModelError, match="no weights that can be repacked"):
            _core.evaluate(str(path), tokens, [20], repack="4-bit")


def test_small_drafts_are_rounded_in_8_bits_if_at_all(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """ "auto": quantized weights of a model of less than 200 million stay, floats become Q8_0."""
    model = make("llama", shape=dataclasses.replace(Shape(), width=256, ffn=224 * 256, head=64))
    tokens = random_tokens(model, 20)
    half = model.write(tmp_path / "16.gguf", GgmlType.F16)
    names = [name for name, tensor in model.tensors.items() if is_weight(name, tensor)]
    values = {name: dequantize(encoded(model.tensors[name], GgmlType.F16), GgmlType.F16) for name in names}
    rounded = model.with_tensors(values).write(tmp_path / "8.gguf", GgmlType.Q8_0, kept={"token_embd.weight"})
    expected = _core.evaluate(str(rounded), tokens, [20], 2)
    for path in (half, rounded):
        assert (_core.evaluate(str(path), tokens, [20], 2, repack="auto") == expected).all()
    with pytest.raises(sd.ModelError, match="no weights that can be repacked"):
        _core.evaluate(str(quantize(specdec, half)), tokens, [20], repack="auto")


def test_large_drafts_are_rounded_in_4_bits(tmp_path: pathlib.Path) -> None:
    """ "auto": of 200 million weights and more as with "4-bit"."""
    model = make("llama", shape=dataclasses.replace(Shape(), width=256, ffn=512 * 256, head=64))
    assert sum(tensor.size for name, tensor in model.tensors.items() if name.startswith("blk.")) > 200_000_000
    path = str(model.write(tmp_path / "16.gguf", GgmlType.F16))
    tokens = random_tokens(model, 20)
    automatic, four_bits, exact = (_core.evaluate(path, tokens, [20], 2, repack=how) for how in ("auto", "4-bit", ""))
    assert (automatic == four_bits).all()
    assert (automatic != exact).any()


def test_likely_logits_are_those_of_the_output_matrix_in_the_file(tmp_path: pathlib.Path) -> None:
    """The layers are rounded; of the output matrix only the signs have a copy."""
    shape = dataclasses.replace(Shape(), width=256, ffn=96 * 256, head=64)
    model = make("llama", shape=shape, vocabulary=Vocabulary(size=33_000))
    tokens = random_tokens(model, 20)
    path = str(model.write(tmp_path / "16.gguf", GgmlType.F16))
    names = [name for name, tensor in model.tensors.items() if is_weight(name, tensor)]
    values = {name: dequantize(encoded(model.tensors[name], GgmlType.F16), GgmlType.F16) for name in names}
    kept = {"token_embd.weight", "output.weight"}
    rounded = model.with_tensors(values).write(tmp_path / "4.gguf", GgmlType.Q4_0, kept=kept)
    expected, logits = (
        _core.evaluate(str(rounded), tokens, [20], 2),
        _core.evaluate(path, tokens, [20], 2, repack="4-bit"),
    )
    is_same = logits == expected
    assert (is_same.sum(1) >= 256 * 16).all() and not is_same.all()
    likeliest = is_same[range(len(tokens)), expected.argmax(1)]
    assert likeliest.sum() > 0.7 * len(tokens), likeliest  # random matrices' signs say less than real ones'


def test_four_bits_leave_narrow_types_alone(tmp_path: pathlib.Path) -> None:
    model = tiny("llama")
    path = str(model.write(tmp_path / "m.gguf", GgmlType.Q4_K))
    tokens = random_tokens(model, 20)
    assert (_core.evaluate(path, tokens, [20], repack="4-bit") == _core.evaluate(path, tokens, [20])).all()


def test_what_has_no_tiles_stays_as_it_is(tmp_path: pathlib.Path, target_path: pathlib.Path) -> None:
    model = tiny("llama")
    path = str(model.write(tmp_path / "m.gguf", GgmlType.Q8_0))
    with pytest.raises(sd.ModelError, match="no weights that can be repacked"):
        _core.evaluate(str(target_path), [1, 2], [2], repack="file")  # F16
    with pytest.raises(sd.ModelError, match="no weights that can be repacked"):
        _core.evaluate(path, [1, 2], [2], mmap=False, repack="file")


def test_memory_that_is_needed_for_other_things_is_left(tmp_path: pathlib.Path) -> None:
    path = str(tiny("llama").write(tmp_path / "m.gguf", GgmlType.Q8_0))
    message = (
        r"m\.gguf: the weights are not repacked, .*: \d+ MiB needed and 4398046511104 MiB to be left, \d+ MiB available"
    )
    with pytest.raises(sd.ModelError, match=message):
        _core.evaluate(path, [1, 2], [2], repack="file", memory_to_leave=1 << 62)


def test_generators_write_the_same_text(tmp_path: pathlib.Path) -> None:
    path = tiny("llama").write(tmp_path / "m.gguf", GgmlType.Q4_K)
    results = []
    for repack in (True, False):
        gen = sd.Generator(path, draft="ngram", repack=repack, n_ctx=128)
        results.append(gen.generate([1, 2, 3], max_tokens=60, seed=3))
    assert results[0].tokens == results[1].tokens
    assert len(results[0].tokens) > 5


def test_a_draft_in_four_bits_changes_no_text(tmp_path: pathlib.Path) -> None:
    """Acceptance is what it was; with the file's weights a draft that equals its target is always right."""
    path = tiny("llama").write(tmp_path / "m.gguf", GgmlType.Q8_0)
    options = {"max_tokens": 60, "temperature": 0.7, "seed": 3, "num_draft_tokens": 3, "verification": "invariant"}
    results = [
        sd.Generator(path, draft=path, draft_weights=weights, n_ctx=128).generate([1, 2, 3], **options)
        for weights in ("file", "4-bit")
    ]
    plain = sd.Generator(path, n_ctx=128).generate([1, 2, 3], **options)
    assert [result.tokens for result in results] == [plain.tokens] * 2
    assert results[0].stats.acceptance_rate == 1.0
    assert 0.0 < results[1].stats.acceptance_rate < 1.0  # rounded weights


def test_draft_weights_of_no_kind(target_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match='draft_weights is "1-bit"; it must be auto, 4-bit, 3-bit, 2-bit or file'):
        sd.Generator(target_path, draft_weights="1-bit")
