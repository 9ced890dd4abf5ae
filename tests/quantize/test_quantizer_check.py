"""`specdec info --check`: scales that no quantizer writes are found and named."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from gguf_bytes import STRING, U32, Gguf, entry, string, tensor, u32

E2M3 = 96
TILE = 400
EXPERTS = "blk.0.ffn_up_exps.weight"


def check(specdec: pathlib.Path, path: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [specdec, "info", "--check", *options, path], capture_output=True, text=True, timeout=60, check=False
    )


def model(path: pathlib.Path, tiles: bytearray) -> pathlib.Path:
    """F32 of 32 x 2, then 3 matrices of 32 rows and 96 columns (6 tiles each)."""
    entries = [entry("general.architecture", STRING, string("llama")), entry("mxfp6.layout", U32, u32(1))]
    tensors = [tensor("norm.weight", [32, 2]), tensor(EXPERTS, [96, 32, 3], E2M3, 256)]
    path.write_bytes(Gguf(entries=entries, tensors=tensors, data=bytes(256) + tiles).build())
    return path


def valid_tiles(count: int) -> bytearray:
    """Random codes; scales from 1 to 253."""
    codes = bytes(7 * j % 256 for j in range(384))
    return bytearray(b"".join(codes + bytes((1 + i, 253, *[127] * 14)) for i in range(count)))


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_valid_scales(specdec, tmp_path, options):
    finished = check(specdec, model(tmp_path / "m.gguf", valid_tiles(18)), *options)
    assert finished.returncode == 0 and finished.stderr == ""
    assert options or finished.stdout.endswith("Checked: all scales are valid (1 MXFP6 tensor)\n")


@pytest.mark.parametrize("scale", [0, 254, 255])
@pytest.mark.parametrize("tile, row, place", [
    (0, 0, "row 0, columns 0 to 31 of matrix 0"),
    (5, 3, "row 19, columns 64 to 95 of matrix 0"),
    (10, 15, "row 31, columns 32 to 63 of matrix 1"),
    (17, 15, "row 31, columns 64 to 95 of matrix 2"),
])  # fmt: skip
def test_invalid_scales_are_named(specdec, tmp_path, scale, tile, row, place):
    tiles = valid_tiles(18)
    tiles[tile * TILE + 384 + row] = scale
    finished = check(specdec, model(tmp_path / "m.gguf", tiles))
    assert finished.returncode == 1 and finished.stdout == ""
    assert f'tensor "{EXPERTS}" has the scale {scale} at {place}, valid are 1 to 253' in finished.stderr


def test_large_tensors_are_read_in_pieces(specdec, tmp_path):
    tiles = bytearray((bytes(384) + b"\x7f" * 16) * 10000)
    tiles[9000 * TILE + 384 + 2] = 255
    entries = [entry("mxfp6.layout", U32, u32(1))]
    path = tmp_path / "m.gguf"
    path.write_bytes(Gguf(entries=entries, tensors=[tensor("a.weight", [3200, 1600], E2M3)], data=bytes(tiles)).build())
    assert 'tensor "a.weight" has the scale 255 at row 1442, columns 0 to 31,' in check(specdec, path).stderr


def test_what_the_quantizer_writes_is_valid(specdec, target_path, tmp_path):
    out = tmp_path / "out.gguf"
    subprocess.run([specdec, "quantize", target_path, out], check=True, stdout=subprocess.DEVNULL)
    assert check(specdec, out).stdout.endswith("Checked: all scales are valid (57 MXFP6 tensors)\n")
    assert "0 MXFP6 tensors" in check(specdec, target_path).stdout
