"""`specdec quantize`: its files, read by the gguf package and compared with numpy and ml_dtypes."""

from __future__ import annotations

import enum
import json
import pathlib
import struct
import subprocess

import gguf
import gguf.gguf_reader
import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from gguf_bytes import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    Gguf,
    array,
    entry,
    string,
    u32,
    u64,
)
from gguf_bytes import tensor as raw_tensor
from tests.models.tiny_models import Shape, make

import specdec_native as sd

MXFP6 = 96
ELEMENT = ml_dtypes.float6_e2m3fn
MAX_EXPONENT = 2
SOURCES = {"F32": GgmlType.F32, "F16": GgmlType.F16, "BF16": GgmlType.BF16, "Q8_0": GgmlType.Q8_0}


# ---- Running and reading


def run(specdec: pathlib.Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([specdec, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def quantize(specdec: pathlib.Path, source: pathlib.Path, *options: object) -> pathlib.Path:
    result = source.with_name(f"{source.stem}.out.gguf")
    finished = run(specdec, "quantize", "--force", *options, source, result)
    assert finished.returncode == 0, finished.stderr
    return result


def table(specdec: pathlib.Path, source: pathlib.Path, *options: object) -> dict:
    finished = run(specdec, "quantize", "--json", *options, source, source.with_name(f"{source.stem}.json.gguf"))
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def rejection(specdec: pathlib.Path, source: pathlib.Path, *options: object) -> str:
    result = source.with_name("rejected.gguf")
    finished = run(specdec, "quantize", *options, source, result)
    assert finished.returncode == 1
    assert finished.stderr.startswith("specdec quantize: ") and finished.stdout == ""
    assert not list(source.parent.glob("rejected*")), "nothing is left of a run that failed"
    return finished.stderr


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> type[gguf.GGUFReader]:
    """The gguf package's reader, extended with the type."""
    names = {member.name: member.value for member in GgmlType} | {"MXFP6_E2M3": MXFP6}
    monkeypatch.setattr(gguf.gguf_reader, "GGMLQuantizationType", enum.IntEnum("GgmlType", names))
    monkeypatch.setitem(gguf.constants.GGML_QUANT_SIZES, MXFP6, (32, 25))
    return gguf.GGUFReader


def tensors(reader: type[gguf.GGUFReader], path: pathlib.Path) -> dict[str, gguf.ReaderTensor]:
    return {tensor.name: tensor for tensor in reader(path).tensors}


def write(
    path: pathlib.Path, weights: dict[str, np.ndarray | tuple[np.ndarray, GgmlType]], **options: object
) -> pathlib.Path:
    """A value is an f32 or f16 array, or an f32 array and the type to store it as."""
    writer = gguf.GGUFWriter(path, "llama", **options)
    writer.add_block_count(1)
    for name, value in weights.items():
        if isinstance(value, tuple):
            writer.add_tensor(name, gguf.quants.quantize(*value), raw_dtype=value[1])
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensor_entry(rows: int, cols: int = 32, type: int = 0, name: str = "a.weight") -> bytes:
    return raw_tensor(name, [cols, rows], type)


def gaussian(rows: int, cols: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, cols)).astype(np.float32) / 50


def stored(x: np.ndarray, type: GgmlType) -> np.ndarray:
    """The values of x after it is stored as this type."""
    return gguf.quants.dequantize(gguf.quants.quantize(x, type), type)


# ---- An independent decoder of the format


def unpack(data: np.ndarray, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """codes [rows, cols] and scales [rows, cols / 32] of tiled bytes."""
    tiles = data.reshape(rows // 16, cols // 32, 400)
    planes = tiles[..., :384].reshape(rows // 16, cols // 32, 2, 3, 16, 4)  # half, plane, row, i
    top = planes >> 6
    fourth = top[:, :, :, 0] | top[:, :, :, 1] << 2 | top[:, :, :, 2] << 4
    groups = np.concatenate([planes & 63, fourth[:, :, :, None]], axis=3)  # band, block, half, group, row, i
    codes = groups.transpose(0, 4, 1, 2, 3, 5).reshape(rows, cols)
    return codes, tiles[..., 384:].transpose(0, 2, 1).reshape(rows, cols // 32)


def round_to(x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Codes of x under the scales, rounded by ml_dtypes, saturated."""
    largest = float(ml_dtypes.finfo(ELEMENT).max)
    scaled = np.ldexp(x.astype(np.float64), 127 - np.repeat(scales.astype(int), 32, axis=1))
    return np.clip(scaled, -largest, largest).astype(np.float32).astype(ELEMENT).view(np.uint8)


def values(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    elements = codes.view(ELEMENT).astype(np.float64)
    return elements * np.repeat(scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64), 32, axis=1)


def block_errors(x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    error = (x.astype(np.float64) - values(round_to(x, scales), scales)) ** 2
    return error.reshape(x.shape[0], -1, 32).sum(-1)


def ocp_scales(x: np.ndarray) -> np.ndarray:
    largest = np.abs(x.astype(np.float64)).reshape(x.shape[0], -1, 32).max(-1)
    exponents = np.where(largest > 0, np.frexp(largest)[1] - 1 - MAX_EXPONENT, 0)
    return (np.clip(exponents, -126, 126) + 127).astype(np.uint8)


def decoded(tensor: gguf.ReaderTensor) -> np.ndarray:
    """float64 [matrices, rows, cols]"""
    cols, rows, *matrices = (int(size) for size in tensor.shape)
    parts = np.asarray(tensor.data).reshape(int(np.prod(matrices)), -1)
    return np.stack([values(*unpack(part, rows, cols)) for part in parts])


# ---- Weights


@pytest.mark.parametrize("source", SOURCES)
def test_codes_are_those_of_ml_dtypes(specdec, tmp_path, reader, source):
    x = gaussian(48, 96)
    x[:16] *= np.geomspace(1e-4, 1e4, 16, dtype=np.float32)[:, None]
    x[16] = 0
    path = write(tmp_path / "m.gguf", {"blk.0.ffn_up.weight": (x, SOURCES[source])})
    written = tensors(reader, quantize(specdec, path, "--scale", "ocp"))["blk.0.ffn_up.weight"]
    assert int(written.tensor_type) == MXFP6
    codes, scales = unpack(written.data, 48, 96)
    x = stored(x, SOURCES[source])
    np.testing.assert_array_equal(scales, ocp_scales(x))
    np.testing.assert_array_equal(codes, round_to(x, scales))


def test_mse_takes_the_best_of_three_scales(specdec, tmp_path, reader):
    x = gaussian(64, 256)
    written = tensors(reader, quantize(specdec, write(tmp_path / "m.gguf", {"a.weight": x})))["a.weight"]
    codes, scales = unpack(written.data, 64, 256)
    ocp = ocp_scales(x)
    candidates = np.stack([ocp, ocp + 1, ocp - 1]).astype(np.uint8)
    errors = np.stack([block_errors(x, candidate) for candidate in candidates])
    best = np.take_along_axis(candidates, errors.argmin(0)[None], 0)[0]
    np.testing.assert_array_equal(scales, best)
    np.testing.assert_array_equal(codes, round_to(x, scales))
    assert (scales != ocp).any()


def test_every_expert_is_a_matrix_of_its_own(specdec, tmp_path, reader):
    x = np.stack([gaussian(32, 64, seed) * 4.0**seed for seed in range(5)]).astype(np.float16)
    written = tensors(reader, quantize(specdec, write(tmp_path / "m.gguf", {"blk.0.ffn_up_exps.weight": x})))
    matrices = decoded(written["blk.0.ffn_up_exps.weight"])
    assert matrices.shape == (5, 32, 64)
    for matrix, expected in zip(matrices, x, strict=True):
        assert np.abs(matrix - expected).max() < np.abs(expected).max() / 20


@pytest.mark.parametrize("shape", [(16, 32), (16, 64), (32, 32), (16, 8192), (4096, 32), (2, 16, 32), (1, 16, 32)])
def test_smallest_and_long_shapes(specdec, tmp_path, reader, shape):
    x = gaussian(int(np.prod(shape[:-1])), shape[-1]).reshape(shape)
    written = tensors(reader, quantize(specdec, write(tmp_path / "m.gguf", {"a.weight": x}), "--threads", 3))[
        "a.weight"
    ]
    relative = np.linalg.norm(decoded(written).ravel() - x.ravel()) / np.linalg.norm(x)
    assert 0.02 < relative < 0.04


def test_errors_in_the_table(specdec, tmp_path, reader):
    weights = {"a.weight": gaussian(64, 128), "zero.weight": np.zeros((16, 32), np.float32)}
    path = write(tmp_path / "m.gguf", weights)
    report = table(specdec, path)
    x = weights["a.weight"].astype(np.float64)
    error = decoded(tensors(reader, quantize(specdec, path))["a.weight"])[0] - x
    expected = np.sqrt((error**2).sum() / (x**2).sum())
    assert report["tensors"][0]["relative_error"] == pytest.approx(expected, rel=1e-12)
    assert report["tensors"][1]["relative_error"] == 0
    assert report["relative_error"] == pytest.approx(expected, rel=1e-12)


def test_threads_do_not_matter(specdec, tmp_path):
    path = write(tmp_path / "m.gguf", {"a.weight": gaussian(1024, 1024), "b.weight": gaussian(48, 32)})
    files, tables = set(), set()
    for threads in (1, 2, 7):
        files.add(quantize(specdec, path, "--threads", threads).read_bytes())
        tables.add(json.dumps(table(specdec, path, "--threads", threads, "--force")))
    assert len(files) == len(tables) == 1


# ---- Tensors that are kept


ODD = {
    "norm.weight": ((64,), "1 dimension"),
    "one_row.weight": ((1, 64), "1 dimension"),
    "columns.weight": ((16, 48), "columns % 32 != 0"),
    "rows.weight": ((24, 64), "rows % 16 != 0"),
    "expert_rows.weight": ((4, 8, 64), "rows % 16 != 0"),
    "four.weight": ((2, 2, 16, 32), "4 dimensions"),
    "blk.0.attn_q.bias": ((16, 64), "not a weight"),
    "blk.0.attn_q_norm.weight": ((16, 64), "norm"),
    "blk.0.ffn_gate_inp.weight": ((16, 64), "router"),
    "blk.0.ssm_conv1d.weight": ((16, 64), "small"),
    "blk.0.time_mix_w1.weight": ((16, 64), "small"),
    "position_embd.weight": ((16, 64), "positions"),
    "blk.0.attn_rel_b.weight": ((16, 64), "positions"),
    "v.patch_embd.weight": ((16, 64), "image input"),
}


@pytest.mark.parametrize("source", [GgmlType.F32, GgmlType.F16])
def test_kept_tensors_are_copied_and_the_table_says_why(specdec, tmp_path, reader, source):
    rng = np.random.default_rng(0)
    weights = {name: (rng.standard_normal(shape).astype(np.float32), source) for name, (shape, _) in ODD.items()}
    path = write(tmp_path / "m.gguf", weights | {"output.weight": gaussian(16, 64)})
    report = {row["name"]: row for row in table(specdec, path)["tensors"]}
    assert {name: report[name]["kept_because"] for name in ODD} == {name: why for name, (_, why) in ODD.items()}
    before, after = tensors(reader, path), tensors(reader, quantize(specdec, path))
    for name in ODD:
        assert after[name].tensor_type == before[name].tensor_type
        np.testing.assert_array_equal(after[name].data.view(np.uint8), before[name].data.view(np.uint8))
    assert report["output.weight"]["kept_because"] is None and int(after["output.weight"].tensor_type) == 96


def test_integers_and_odd_q8_0_are_kept(specdec, tmp_path):
    weights = {
        "ids.weight": np.arange(1024, dtype=np.int32).reshape(16, 64),
        "odd.weight": (gaussian(8, 64), GgmlType.Q8_0),
    }
    rows = table(specdec, write(tmp_path / "m.gguf", weights | {"a.weight": gaussian(16, 32)}))["tensors"]
    assert [(row["to"], row["kept_because"]) for row in rows] == [
        ("I32", "integers"), ("Q8_0", "rows % 16 != 0"), ("MXFP6_E2M3", None)]  # fmt: skip


def test_keep(specdec, tmp_path):
    names = ["token_embd.weight", "blk.0.ffn_up.weight", "blk.10.ffn_up.weight", "output.weight"]
    path = write(tmp_path / "m.gguf", {name: gaussian(16, 32) for name in names})
    rows = table(specdec, path, "--keep", r"^output|blk\.\d\.")["tensors"]
    assert [row["kept_because"] for row in rows] == [None, "--keep", None, "--keep"]
    assert "no tensor can be quantized" in rejection(specdec, path, "--keep", ".*")


@pytest.mark.parametrize(
    ("type", "names", "kept"),
    [
        ("Q4_0", ["token_embd.weight", "output.weight"], ["looked up", None]),
        ("Q4_0", ["token_embd.weight", "blk.0.ffn_up.weight"], [None, None]),  # it is the output matrix, too
        ("Q8_0", ["token_embd.weight", "output.weight"], [None, None]),
    ],
)
def test_an_embedding_of_fewer_bits_is_kept(specdec, tmp_path, type, names, kept):
    path = write(tmp_path / "m.gguf", {name: (gaussian(16, 64), GgmlType[type]) for name in names})
    rows = table(specdec, path, "--allow-requantize")["tensors"]
    assert [row["kept_because"] for row in rows] == kept


# ---- Metadata and layout of the file


def all_kinds() -> list[bytes]:
    numbers = {
        U8: "<B",
        I8: "<b",
        U16: "<H",
        I16: "<h",
        U32: "<I",
        I32: "<i",
        F32: "<f",
        U64: "<Q",
        I64: "<q",
        F64: "<d",
    }
    entries = [entry(f"test.number{kind}", kind, struct.pack(form, 113)) for kind, form in numbers.items()]
    entries += [
        entry(f"test.minus{kind}", kind, struct.pack(numbers[kind], -77)) for kind in (I8, I16, I32, F32, I64, F64)
    ]
    entries += [entry("test.true", BOOL, b"\1"), entry("test.false", BOOL, b"\0")]
    entries += [entry("test.text", STRING, string("naïve\n")), entry("test.none", STRING, string(""))]
    entries += [entry("test.largest", U64, u64(2**64 - 1)), entry("test.third", F32, struct.pack("<f", 1 / 3))]
    entries += [entry("test.strings", ARRAY, array(STRING, 2, string("a") + string("bc")))]
    entries += [entry("test.nested", ARRAY, array(ARRAY, 2, array(U16, 1, b"\1\2") + array(STRING, 1, string("x"))))]
    return entries


def test_metadata_is_kept_byte_for_byte_in_order(specdec, tmp_path):
    before = [entry("general.architecture", STRING, string("llama")), entry("general.file_type", U32, u32(1))]
    after = [*all_kinds(), entry("general.quantization_version", U32, u32(2))]
    path = tmp_path / "m.gguf"
    path.write_bytes(Gguf(entries=before + after, tensors=[tensor_entry(16)], data=bytes(2048)).build())
    written = quantize(specdec, path, "--scale", "ocp").read_bytes()
    before[1] = entry("general.file_type", U32, u32(MXFP6))
    after += [entry("mxfp6.layout", U32, u32(1)), entry("mxfp6.quantization", STRING, string("MXFP6_E2M3, scale ocp"))]
    zeros = bytes(384) + b"\x7f" * 16 + bytes(16)  # codes, scales, padding
    assert written == Gguf(entries=before + after, tensors=[tensor_entry(16, type=MXFP6)], data=zeros).build()


def test_file_type_is_added(specdec, tmp_path, reader):
    fields = reader(quantize(specdec, write(tmp_path / "m.gguf", {"a.weight": gaussian(16, 32)}))).fields
    assert fields["general.file_type"].contents() == 96
    assert list(fields)[-3:] == ["general.file_type", "mxfp6.layout", "mxfp6.quantization"]


@pytest.mark.parametrize("alignment", [32, 64, 4096])
def test_alignment_is_kept(specdec, tmp_path, reader, alignment):
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    for i in range(3):
        writer.add_tensor(f"{i}.norm.weight", np.full(3, i, np.float32))
        writer.add_tensor(f"{i}.weight", gaussian(16, 32, i))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    result = quantize(specdec, path)
    assert result.stat().st_size % alignment == 0
    for name, written in tensors(reader, result).items():
        assert written.data_offset % alignment == 0
        if name.endswith("norm.weight"):
            np.testing.assert_array_equal(written.data, int(name[0]))


def test_split_models_become_one_file(specdec, tmp_path, reader):
    weights = {f"blk.{i}.weight": gaussian(16, 64, i).astype(np.float16) for i in range(5)}
    weights["norm.weight"] = np.ones(7, np.float32)
    whole = quantize(specdec, write(tmp_path / "whole.gguf", weights)).read_bytes()
    write(tmp_path / "m.gguf", weights, split_max_tensors=2)
    parts = sorted(tmp_path.glob("m-0000?-of-00003.gguf"))
    assert len(parts) == 3
    for part in parts:
        assert quantize(specdec, part).read_bytes() == whole


def test_bundled_target(specdec, target_path, tmp_path):
    result = tmp_path / "target.gguf"
    assert run(specdec, "quantize", target_path, result).returncode == 0
    before, after = (
        json.loads(run(specdec, "info", "--json", "--metadata", path).stdout) for path in (target_path, result)
    )
    assert [row["name"] for row in before["tensors"]] == [row["name"] for row in after["tensors"]]
    assert after["metadata"].pop("mxfp6.layout")["value"] == 1
    assert after["metadata"].pop("mxfp6.quantization")["value"] == "MXFP6_E2M3, scale mse"
    assert after["metadata"].pop("general.file_type")["value"] == 96
    del before["metadata"]["general.file_type"]
    assert list(before["metadata"].items()) == list(after["metadata"].items())
    assert 2.5 < target_path.stat().st_size / result.stat().st_size < 2.6
    overview = run(specdec, "info", result).stdout
    assert "MXFP6_E2M3         57" in overview and "6.27 bits per weight" in overview
    text = run(specdec, "generate", "-m", result, "-k", 0, "-n", 8, "--temp", 0, "-p", "def read(self")
    assert text.returncode == 0 and text.stdout.strip()


# ---- Bad input


@pytest.mark.parametrize("source", [GgmlType.F32, GgmlType.F16, GgmlType.BF16])
@pytest.mark.parametrize(
    "value, what", [(np.nan, "NaN"), (np.inf, "an infinite weight"), (-np.inf, "an infinite weight")]
)
def test_weights_that_are_not_finite(specdec, tmp_path, source, value, what):
    x = gaussian(64, 64)
    x[37, 41] = value
    path = write(tmp_path / "m.gguf", {"good.weight": gaussian(16, 32), "bad.weight": (x, source)})
    assert f'tensor "bad.weight" has {what} at row 37, column 41;' in rejection(specdec, path)


def test_the_first_bad_weight_is_named(specdec, tmp_path):
    x = gaussian(4096, 512).reshape(2, 2048, 512)
    x[1, 700:, 3] = np.nan
    path = write(tmp_path / "m.gguf", {"bad.weight": x})
    for threads in (1, 4, 4, 4):
        assert "has NaN at row 700, column 3 of matrix 1;" in rejection(specdec, path, "--threads", threads)


def test_kept_tensors_may_hold_infinities(specdec, tmp_path):
    weights = {"rope_factors_long.weight": np.array([1, np.inf], np.float32), "a.weight": gaussian(16, 32)}
    quantize(specdec, write(tmp_path / "m.gguf", weights))


def test_models_quantized_already(specdec, tmp_path, reader):
    path = write(tmp_path / "m.gguf", {"a.weight": gaussian(16, 32), "b.weight": (gaussian(32, 64), GgmlType.Q4_0)})
    assert 'tensor "b.weight" is already quantized to Q4_0' in rejection(specdec, path)
    matrix = decoded(tensors(reader, quantize(specdec, path, "--allow-requantize"))["b.weight"])[0]
    expected = stored(gaussian(32, 64), GgmlType.Q4_0)
    assert 0 < np.linalg.norm(matrix - expected) / np.linalg.norm(expected) < 0.05
    quantize(specdec, path, "--keep", "^b")


def test_mxfp6_is_never_quantized_again(specdec, tmp_path):
    once = quantize(specdec, write(tmp_path / "m.gguf", {"a.weight": gaussian(16, 32)}))
    for options in ([], ["--allow-requantize"], ["--keep", "."]):
        assert 'tensor "a.weight" is already MXFP6' in rejection(specdec, once, *options)


def test_unreadable_type(specdec, tmp_path):
    path = write(tmp_path / "m.gguf", {"a.weight": gaussian(16, 32), "b.weight": gaussian(16, 32).astype(np.float64)})
    assert 'tensor "b.weight" has type F64, which cannot be read' in rejection(specdec, path)


def test_names_that_llama_cpp_rejects(specdec, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(Gguf(tensors=[tensor_entry(16, name="a" * 57 + ".weight")], data=bytes(2048)).build())
    assert "more than 63 bytes" in rejection(specdec, path)
    path.write_bytes(Gguf(tensors=[tensor_entry(16, name="a" * 56 + ".weight")], data=bytes(2048)).build())
    quantize(specdec, path)


# ---- The result in other programs


def test_a_stock_reader_rejects_the_file_clearly(specdec, tmp_path):
    result = quantize(specdec, write(tmp_path / "m.gguf", {"a.weight": gaussian(16, 32)}))
    with pytest.raises(ValueError, match=rf"{MXFP6}\)? is not a valid GGMLQuantizationType"):
        gguf.GGUFReader(result)


LAYOUT = [entry("mxfp6.layout", U32, u32(version)) for version in (1, 2)]
SHAPE = tensor_entry(32, type=MXFP6)
TAMPERED = {
    "layout": (lambda data: data.replace(*LAYOUT), "mxfp6.layout = 1"),
    "truncated": (lambda data: data[:-100], 'truncated: tensor "a.weight" ends'),
    "rows": (lambda data: data.replace(SHAPE, tensor_entry(24, type=MXFP6)), 'tensor "a.weight" has 24 rows'),
    "more rows": (lambda data: data.replace(SHAPE, tensor_entry(320, type=MXFP6)), 'truncated: tensor "a.weight"'),
    "columns": (lambda data: data.replace(SHAPE, tensor_entry(32, 33, type=MXFP6)), 'tensor "a.weight" has 33 columns'),
}


@pytest.mark.parametrize("command", [["info"], ["generate", "-p", "x", "-m"]])
@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_files_are_rejected(specdec, tmp_path, name, command):
    change, message = TAMPERED[name]
    path = quantize(specdec, write(tmp_path / "m.gguf", {"a.weight": gaussian(32, 32)}))
    data = path.read_bytes()
    assert change(data) != data
    path.write_bytes(change(data))
    finished = run(specdec, *command, path)
    assert finished.returncode == 1 and message in finished.stderr


# ---- Mixtures of stock types


@pytest.mark.parametrize(("type", "most"), [("q3", GgmlType.Q3_K), ("q2", GgmlType.Q2_K)])
def test_mixtures_are_what_the_gguf_package_reads(
    specdec: pathlib.Path, tmp_path: pathlib.Path, type: str, most: GgmlType
) -> None:
    shape = Shape(width=256, ffn=512, head=64)
    model = make("llama", shape=shape)
    source = model.write(tmp_path / "m.gguf", GgmlType.F16)
    read = gguf.GGUFReader(quantize(specdec, source, "--type", type))
    types = {tensor.name: GgmlType(tensor.tensor_type) for tensor in read.tensors}
    assert types["blk.0.attn_q.weight"] == most
    assert types["output.weight"] == GgmlType.Q6_K
    assert types["blk.0.attn_v.weight"] == {"q3": GgmlType.Q5_K, "q2": GgmlType.Q4_K}[type]
    assert types["blk.1.ffn_down.weight"] == {"q3": GgmlType.Q4_K, "q2": GgmlType.Q3_K}[type]
    assert types["blk.0.attn_norm.weight"] == GgmlType.F32
    assert "mxfp6.layout" not in read.fields
    errors = {row["name"]: row["relative_error"] for row in table(specdec, source, "--type", type)["tensors"]}
    for tensor in read.tensors:
        original = model.tensors[tensor.name]
        decoded = gguf.quants.dequantize(tensor.data, types[tensor.name])
        error = float(np.sqrt(np.mean((decoded - original) ** 2) / np.mean(original**2)))
        assert error < 0.4
        if errors[tensor.name] is not None:
            assert error == pytest.approx(errors[tensor.name], abs=2e-3)


def test_a_mixture_drafts_for_its_model(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = pathlib.Path("models/stdlib-target-f16.gguf").resolve()
    draft = tmp_path / "q3.gguf"
    assert run(specdec, "quantize", "--type", "q3", target, draft).returncode == 0
    with sd.Generator(target, draft, n_threads=1, suffix=False, num_draft_tokens=5) as gen:
        found = gen.generate("def bfs(graph, start):", max_tokens=60, temperature=0)
    with sd.Generator(target, n_threads=1, num_draft_tokens=0) as gen:
        assert gen.generate("def bfs(graph, start):", max_tokens=60, temperature=0).tokens == found.tokens
    assert found.stats.accepted > 30


def test_what_a_mixture_cannot_be_made_of(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    small = make("llama", shape=Shape(width=256, ffn=512, head=64)).write(tmp_path / "q4.gguf", GgmlType.Q4_0)
    assert "--allow-requantize" in rejection(specdec, small, "--type", "q3")
    text = tmp_path / "text.txt"
    text.write_text("some text " * 500)
    source = make("llama").write(tmp_path / "m.gguf", GgmlType.F16)
    finished = run(specdec, "quantize", "--type", "q3", "--calibrate", text, source, tmp_path / "out.gguf")
    assert finished.returncode == 2 and "--calibrate" in finished.stderr
    narrow = gguf.GGUFReader(quantize(specdec, source, "--type", "q2"))  # rows of 64 columns
    assert GgmlType.Q4_0 in {GgmlType(tensor.tensor_type) for tensor in narrow.tensors}
