"""The MXFP6 codec against ml_dtypes, against an independent numpy implementation of the layout, and by properties."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from specdec_native import mxfp6

pytestmark = pytest.mark.quick

ELEMENT = ml_dtypes.float6_e2m3fn
EMAX = 2
LARGEST = 7.5


def values():
    """float64 [64]: the value of every code, by ml_dtypes."""
    return np.arange(64, dtype=np.uint8).view(ELEMENT).astype(np.float64)


def scale_values(scales):
    return scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)


def exact(codes, scales):
    """Dequantized matrix in float64."""
    return values()[codes] * np.repeat(scale_values(scales), 32, axis=1)


def reference_ocp(x):
    """OCP MX v1.0 with ml_dtypes doing the rounding; exponents by frexp."""
    blocks = x.reshape(x.shape[0], -1, 32).astype(np.float64)
    amax = np.abs(blocks).max(-1)
    exponent = np.where(amax > 0, np.frexp(amax)[1] - 1 - EMAX, 0)
    exponent = np.clip(exponent, 1 - 127, 253 - 127)
    scaled = np.clip(np.ldexp(blocks, -exponent[..., None]), -LARGEST, LARGEST)
    codes = scaled.astype(np.float32).astype(ELEMENT).view(np.uint8).reshape(x.shape)
    return codes, (exponent + 127).astype(np.uint8)


def reference_pack(codes, scales):
    """Byte 4 * row + i of plane j in half h is column 16 h + 4 j + i; the fourth group is in the top two bits."""
    rows, cols = codes.shape
    tiles = np.zeros((rows // 16, cols // 32, 400), np.uint8)
    for row in range(rows):
        for col in range(cols):
            tile = tiles[row // 16, col // 32]
            half, group, i = col % 32 // 16, col % 16 // 4, col % 4
            place = half * 192 + 4 * (row % 16) + i
            if group < 3:
                tile[place + 64 * group] |= codes[row, col]
            else:
                for j in range(3):
                    tile[place + 64 * j] |= (codes[row, col] >> (2 * j) & 3) << 6
        tiles[row // 16, :, 384 + row % 16] = scales[row]
    return tiles


def test_all_codes_under_all_scales():
    codes = np.tile(np.arange(64, dtype=np.uint8), (256, 1))
    scales = np.repeat(np.arange(256, dtype=np.uint8), 2).reshape(256, 2)
    x = mxfp6.dequantize(codes, scales)
    with np.errstate(over="ignore"):
        expected = exact(codes, scales).astype(np.float32)
    np.testing.assert_array_equal(x, expected)
    assert np.array_equal(np.signbit(x[1:255]), np.signbit(expected[1:255]))


@pytest.mark.parametrize("scale", ["ocp", "mse"])
def test_zeros_keep_their_sign(scale):
    x = np.zeros((1, 64), np.float32)
    x[0, 1::2] = -0.0
    x[0, 40] = 1.0
    codes, scales = mxfp6.quantize(x, scale)
    np.testing.assert_array_equal(codes[0, :32], np.tile([0, 32], 16))
    assert scales[0, 0] == 127
    assert np.array_equal(np.signbit(mxfp6.dequantize(codes, scales)), np.signbit(x))


@pytest.mark.parametrize("scale", ["ocp", "mse"])
def test_scales_stay_in_range(scale):
    for size in (np.float32(2.0**-149), np.finfo(np.float32).tiny, np.finfo(np.float32).max):
        codes, scales = mxfp6.quantize(np.full((1, 32), size), scale)
        assert 1 <= scales[0, 0] <= 253
        assert np.isfinite(mxfp6.dequantize(codes, scales)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_rejected(bad):
    x = np.ones((16, 96), np.float32)
    x[7, 50] = bad
    with pytest.raises(ValueError, match=r"x\[7, 50\] = .*finite"):
        mxfp6.quantize(x)


finite_matrices = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.integers(1, 3).map(lambda n: 32 * n)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@settings(deadline=None)
@given(finite_matrices)
def test_ocp_agrees_with_ml_dtypes(x):
    codes, scales = mxfp6.quantize(x, "ocp")
    expected_codes, expected_scales = reference_ocp(x)
    np.testing.assert_array_equal(scales, expected_scales)
    np.testing.assert_array_equal(codes, expected_codes)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_pack_is_the_documented_layout_and_unpack_its_inverse(bands, blocks, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 64, (16 * bands, 32 * blocks), dtype=np.uint8)
    scales = rng.integers(0, 256, (16 * bands, blocks), dtype=np.uint8)
    tiles = mxfp6.pack(codes, scales)
    np.testing.assert_array_equal(tiles, reference_pack(codes, scales))
    codes_again, scales_again = mxfp6.unpack(tiles, 16 * bands, 32 * blocks)
    np.testing.assert_array_equal(codes_again, codes)
    np.testing.assert_array_equal(scales_again, scales)


def test_any_strides_will_do():
    x = np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32)
    codes, scales = mxfp6.quantize(x.T)
    expected = mxfp6.quantize(np.ascontiguousarray(x.T))
    np.testing.assert_array_equal(codes, expected[0])
    np.testing.assert_array_equal(scales, expected[1])
    np.testing.assert_array_equal(
        mxfp6.pack(codes[::2], scales[::2]), mxfp6.pack(codes[::2].copy(), scales[::2].copy())
    )


CODES = np.zeros((16, 32), np.uint8)
SCALES = np.full((16, 1), 127, np.uint8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mxfp6.quantize(np.ones((16, 32))), "dtype float64: must be float32"),
        (lambda: mxfp6.quantize(np.ones((16, 32), ">f4")), "dtype"),
        (lambda: mxfp6.quantize(np.ones(32, np.float32)), "2 dimensions"),
        (lambda: mxfp6.quantize(np.ones((16, 33), np.float32)), "33: must be a positive multiple of 32"),
        (lambda: mxfp6.quantize(np.ones((16, 0), np.float32)), "0: must be a positive multiple of 32"),
        (lambda: mxfp6.quantize(np.ones((1, 32), np.float32), scale="max"), 'must be "mse" or "ocp"'),
        (lambda: mxfp6.dequantize(CODES.astype(np.int64), SCALES), "dtype int64: must be uint8"),
        (lambda: mxfp6.dequantize(CODES + np.uint8(64), SCALES), "codes contain 64: must be 0..63"),
        (lambda: mxfp6.dequantize(CODES, SCALES[:8]), r"scales has shape \(8, 1\)"),
        (lambda: mxfp6.pack(CODES[:15], SCALES[:15]), "15: must be a positive multiple of 16"),
        (lambda: mxfp6.pack(CODES, np.ones((16, 2), np.uint8)), r"scales has shape \(16, 2\)"),
        (lambda: mxfp6.unpack(mxfp6.pack(CODES, SCALES), 32, 32), r"tiles has shape \(1, 1, 400\)"),
        (lambda: mxfp6.unpack(mxfp6.pack(CODES, SCALES), -16, 32), "must be a positive multiple"),
        (lambda: mxfp6.unpack(np.zeros((1, 1, 399), np.uint8), 16, 32), "tiles has shape"),
    ],
)
def test_bad_arguments_are_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
