"""The MXFP6 matmul against float64 numpy, and bit-equality across instruction sets, threads and batch sizes."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_native import mxfp6

pytestmark = pytest.mark.quick

UNIT = 1 / 8  # weights are multiplied as integers of this unit
every_isa = pytest.mark.parametrize("isa", mxfp6.isas())


def make(rows, cols, n, seed=0, spread=0.0):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((rows, cols)) * np.exp(spread * rng.standard_normal((rows, cols)))
    codes, scales = mxfp6.quantize(w.astype(np.float32))
    x = (rng.standard_normal((n, cols)) * np.exp(spread * rng.standard_normal((n, cols)))).astype(np.float32)
    return mxfp6.pack(codes, scales), mxfp6.dequantize(codes, scales).astype(np.float64), x


def rounded_activations(x):
    """The specified rounding in float32 steps: codes int8 [n, blocks, 32], scales float32 [n, blocks]."""
    blocks = x.reshape(len(x), -1, 32)
    amax = np.abs(blocks).max(-1)
    unit = np.float32(UNIT)
    live = amax >= np.float32(2.0**-110)
    safe = np.where(live, amax, np.float32(1))
    codes = np.rint(blocks * (np.float32(127) / safe)[..., None]) * live[..., None]
    scales = np.where(live, safe / np.float32(127) * unit, unit)
    return codes.astype(np.int8), scales


@every_isa
def test_the_rounding_of_the_activations_explains_all_but_float_noise(isa):
    tiles, w, x = make(64, 1024, 9, seed=1)
    codes, scales = rounded_activations(x)
    rounded = (codes * (scales.astype(np.float64) / UNIT)[..., None]).reshape(x.shape)
    y = mxfp6.matmul(tiles, x, 64, 1024, isa)
    noise = (1024 / 32 + 4) * 2.0**-24 * (np.abs(rounded) @ np.abs(w).T)
    assert (np.abs(y - rounded @ w.T) <= noise).all()


@settings(deadline=None, max_examples=40)
@given(
    bands=st.integers(1, 7),
    blocks=st.integers(1, 20),
    n=st.integers(1, 40),
    threads=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_same_bits_for_every_isa_and_any_threads(bands, blocks, n, threads, seed):
    rows, cols = 16 * bands, 32 * blocks
    tiles, _, x = make(rows, cols, n, seed, spread=1.0)
    expected = mxfp6.matmul(tiles, x, rows, cols, "scalar")
    for isa in mxfp6.isas():
        y = mxfp6.matmul(tiles, x, rows, cols, isa, threads)
        np.testing.assert_array_equal(y.view(np.uint32), expected.view(np.uint32))


def test_isas():
    names = mxfp6.isas()
    assert names[-1] == "scalar"
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones((2, 64))}, "dtype float64: must be float32"),
        ({"x": np.ones((2, 32), np.float32)}, r"x has shape \(2, 32\)"),
        ({"x": np.ones(64, np.float32)}, "2 dimensions"),
        ({"rows": 17}, "17: must be a positive multiple of 16"),
        ({"rows": 32}, "tiles has shape"),
        ({"cols": 32}, "tiles has shape"),
        ({"tiles": np.zeros((1, 2, 400), np.int8)}, "dtype int8: must be uint8"),
        ({"isa": "avx9000"}, 'unknown instruction set "avx9000"; supported here: .*scalar'),
        ({"isa": ""}, "isa"),
        ({"threads": 0}, "threads = 0"),
        ({"threads": -1}, "threads = -1"),
    ],
)
def test_bad_arguments_are_value_errors(change, message):
    tiles, _, x = make(16, 64, 2)
    arguments = {"tiles": tiles, "x": x, "rows": 16, "cols": 64} | change
    with pytest.raises(ValueError, match=message):
        mxfp6.matmul(**arguments)


@pytest.mark.parametrize("forced", ["nonesuch", "neon_dotprod" if "neon_dotprod" not in mxfp6.isas() else "avx2"])
def test_a_forced_isa_this_cpu_lacks_is_an_error(forced):
    script = (
        "import numpy as np; from specdec_native import mxfp6\n"
        "try: mxfp6.matmul(np.zeros((1, 1, 400), np.uint8), np.zeros((1, 32), np.float32), 16, 32)\n"
        "except ValueError as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"SPECDEC_ISA": forced},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "SPECDEC_ISA" in run.stdout and forced in run.stdout
