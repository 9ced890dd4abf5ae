"""Rows on a device that poses as a vendor's GPU (posing_vulkan.cpp), for which llama.cpp takes other ways."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from tests.gpu.layers import layer_environment
from tests.gpu.listed import listed_devices
from tests.models.tiny_models import F32Array, GgmlType, Shape, make, random_tokens

# argv: model, device, tokens, file for [cuts][tokens][vocabulary]
PROCESS = """
import json, sys
import numpy as np
from specdec_native import _core
path, device, tokens, rows = sys.argv[1:]
cuts = [8], [1], [2, 5, 3]
np.save(rows, [_core.evaluate(path, json.loads(tokens), cut, devices=[device], width=8, pads=False) for cut in cuts])
"""
INTEL = 0x8086


def test_rows_as_for_a_vendor(
    device: str, specdec: pathlib.Path, built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """The control is that products of integers, which only the posing device has, give other bits. The model also has
    products with a matrix for each head."""
    if "llvmpipe" not in listed_devices(specdec)[1]:
        pytest.skip("only a software device can pose as any other")
    model = make("deepseek2", seed=1, shape=Shape(width=256, ffn=256, heads=4, head=64))
    path = model.write(tmp_path / "tiny.gguf", GgmlType["Q8_0"])
    posing = {**layer_environment(built("gpu/posing_vulkan.so"), tmp_path), "POSE_VENDOR": hex(INTEL)}

    def rows(environment: dict[str, str]) -> F32Array:
        file = tmp_path / "rows.npy"
        command = [sys.executable, "-c", PROCESS, path, device, str(random_tokens(model, 40)), file]
        subprocess.run(command, env=os.environ | environment, check=True, timeout=600)
        found: F32Array = np.load(file)
        return found

    plain, posed = rows({}), rows(posing)
    for found in (plain, posed):
        assert all(np.array_equal(cut, found[0]) for cut in found)
    assert not np.array_equal(posed, plain)
    assert np.allclose(posed, plain, atol=0.05 * np.abs(plain).max())
