"""Mesa's drivers for GPUs that are not there (unpack_drivers.sh): they compile every shader and take every call, but
nothing is computed. What can be tested is which shaders a pass runs."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tests.gpu.layers import layer_environment
from tests.models.tiny_models import RECIPES, GgmlType, Shape, make, random_tokens

# argv: folder for records, a file with models, each [name, path, tokens, exact]
PROCESS = """
import json, os, pathlib, sys
from specdec_native import _core
folder, models = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
for name, path, tokens, exact in models:
    how = {"width": 8, "pads": False} if exact else {"width": 0, "pads": True}
    for width in WIDTHS:
        record = folder / f"{name}-{width}"
        record.touch()
        os.environ["RECORD_FILE"] = str(record)
        before = len(tokens) - 8
        _core.evaluate(path, tokens[:before + width], [before, width][:1 + (width > 0)], devices=["Vulkan0"], **how)
"""
WIDTHS = [0, 1, 2, 3, 5, 8]  # 0: what precedes the pass

# With how a driver is asked for one of its GPUs.
PROCESSORS = {
    "amdgpu": ("radeon_icd.json", "AMDGPU_GPU_ID"),
    "intel": ("intel_icd.json", "INTEL_STUB_GPU_PLATFORM"),
    "nouveau": ("nouveau_icd.json", "NOUVEAU_CHIPSET"),
}
GPUS = {
    "renoir": "amdgpu",  # GCN
    "navi21": "amdgpu",  # RDNA 2
    "navi31": "amdgpu",  # RDNA 3
    "gfx1150": "amdgpu",  # RDNA 3.5
    "0x172": "nouveau",  # Ampere
    "tgl": "intel",  # Iris Xe
    "dg2": "intel",  # Arc
    "lnl": "intel",  # Xe 2
}
TYPES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4"]
SLOW_IN_NOUVEAU = "F16", "BF16"  # it takes a minute to compile their products

# Shaders that add numbers up. The others compute every number by itself, and may be fused in other ways.
SUMS = re.compile(
    "mul_mat|matmul|quantize|flash_attn|fa_split|soft_max|topk|sum_rows|norm|rms_norm|l2_norm|ssm|gated|rwkv"
)


@dataclass(frozen=True)
class Dispatch:
    name: str
    constants: tuple[int, ...]
    groups: tuple[int, ...]


def dispatches(record: pathlib.Path) -> list[Dispatch]:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(number) for number in text.split(",") if number)

    fields = (line.split(" ") for line in record.read_text().splitlines())
    return [Dispatch(name, numbers(constants), numbers(groups)) for name, constants, groups in fields]


def last_pass(folder: pathlib.Path, name: str, width: int) -> list[Dispatch]:
    before, found = (dispatches(folder / f"{name}-{n}") for n in (0, width))
    assert found[: len(before)] == before
    return found[len(before) :]


def sums(found: list[Dispatch], width: int) -> collections.Counter[tuple[str, tuple[int, ...]]]:
    """How often each of them runs for a token, times the tokens, by what its order depends on: of products with vectors
    not the numbers of columns and of rows in a group. One with a choice of experts runs once per token."""
    counted: collections.Counter[tuple[str, tuple[int, ...]]] = collections.Counter()
    for dispatch in found:
        if not SUMS.match(dispatch.name):
            continue
        vector = dispatch.name.startswith("mul_mat_vec")
        experts = dispatch.name.startswith("mul_mat_vec_id")
        assert not vector or experts or dispatch.constants[2] == width
        counted[dispatch.name, dispatch.constants[:1] if vector else dispatch.constants] += 1 if experts else width
    return counted


def is_attention_divided_alike(single: list[Dispatch], found: list[Dispatch], width: int) -> bool:
    """Whether the cells are in as many parts: a group is for one of them and a tile of the tokens, or, where heads that
    share keys are computed together, one token."""
    shaders, of_single = (
        [dispatch for dispatch in run if dispatch.name.startswith("flash_attn")] for run in (found, single)
    )
    parts = [one.groups[0] for one in of_single]
    tiles = [-(-width // shader.constants[1]) for shader in shaders]
    return [shader.groups[0] for shader in shaders] in (
        [width * count for count in parts],
        [count * tile for count, tile in zip(parts, tiles, strict=False)],
    )


def in_one_order(single: list[Dispatch], found: list[Dispatch], width: int) -> bool:
    """Whether a pass of this width adds as one over a single token does."""
    expected = collections.Counter({shader: width * runs for shader, runs in sums(single, 1).items()})
    return sums(found, width) == expected and is_attention_divided_alike(single, found, width)


@pytest.fixture(scope="session")
def drivers() -> pathlib.Path:
    folder = os.environ.get("SPECDEC_TEST_DRIVERS")
    if folder is None:
        pytest.skip("SPECDEC_TEST_DRIVERS names no folder with drivers (make test-drivers)")
    return pathlib.Path(folder)


def tiny_models(folder: pathlib.Path, types: list[str]) -> Iterator[tuple[str, pathlib.Path, list[int]]]:
    """By name, with a text that ends with 8 tokens that the passes are over."""
    for name in RECIPES:
        model = make(name, seed=1)
        yield name, model.write(folder / f"{name}.gguf", GgmlType["Q8_0"]), random_tokens(model, 48)
    for weights in types:
        model = make("llama", seed=1, shape=Shape(width=256, ffn=256, heads=4, head=64))
        yield weights, model.write(folder / f"{weights}.gguf", GgmlType[weights]), random_tokens(model, 48)
    for kv_heads in (1, 2, 8):  # attention over many cells, which it divides
        model = make("llama", seed=1, shape=Shape(heads=8, kv_heads=kv_heads, head=64, layers=1, context=4096))
        yield f"{kv_heads} heads", model.write(folder / f"{kv_heads}.gguf"), random_tokens(model, 2100)


@pytest.mark.parametrize("gpu", GPUS)
def test_passes_of_all_widths_add_in_one_order(
    gpu: str, drivers: pathlib.Path, built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """The control: without exactness they do not."""
    processor = GPUS[gpu]
    driver, chip = PROCESSORS[processor]
    if not (drivers / "lib" / f"lib{processor}_noop_drm_shim.so").exists():
        pytest.skip(f"nothing answers the driver for {processor} (INTEL=1: that is built)")
    types = [name for name in TYPES if processor != "nouveau" or name not in SLOW_IN_NOUVEAU]
    models = [
        [f"{name} {exact}", str(path), tokens, exact]
        for name, path, tokens in tiny_models(tmp_path, types)
        for exact in ([True, False] if name == "Q8_0" else [True])
    ]
    (tmp_path / "models.json").write_text(json.dumps(models))
    records = tmp_path / "records"
    records.mkdir()
    environment = {
        **layer_environment(built("gpu/recording_vulkan.so"), tmp_path),
        "VK_DRIVER_FILES": str(drivers / "drivers" / driver),
        chip: gpu,
        "GGML_VK_DEBUG_MARKERS": "1",
    }
    process = [sys.executable, "-c", PROCESS.replace("WIDTHS", str(WIDTHS)), records, tmp_path / "models.json"]
    subprocess.run([drivers / "run", processor, *process], env=os.environ | environment, check=True, timeout=600)
    for name, _, _, exact in models:
        single, *others = [last_pass(records, name, width) for width in WIDTHS[1:]]
        alike = [in_one_order(single, found, width) for found, width in zip(others, WIDTHS[2:], strict=True)]
        assert all(alike) if exact else not any(alike), (name, alike)
