"""Projectors of many families: their rows, places, marks and positions are those of llama.cpp's own mtmd."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.models.projectors import FAMILIES, FAMILIES_WITHOUT_CAUSALITY, Projector, make_pair, make_projector
from tests.models.tiny_models import make

SIZES = [(32, 32), (50, 40), (7, 90), (1, 1)]
Parts = list[tuple[str, list[str]]]  # "tokens" and ids, or "rows", their number, positions, kind and first number


def parts(
    built: Callable[[str], pathlib.Path], target: pathlib.Path, projector: pathlib.Path, width: int, height: int
) -> Parts:
    program = built("llama/test_projector_rows")
    command = [program, target, projector, str(width), str(height), "3"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return [(line.split()[0], line.split()[1:]) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_are_those_of_mtmd(name: str, built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> None:
    pair = make_pair(name)
    target, projector = pair.write(tmp_path)
    marks = {str(i) for i in pair.target.vocabulary.control}
    for width, height in SIZES:
        found = parts(built, target, projector, width, height)
        rows = [values for kind, values in found if kind == "rows"]
        assert rows and {values[2] for values in rows} == {"whole" if name in FAMILIES_WITHOUT_CAUSALITY else "causal"}
        tokens = {token for kind, values in found if kind == "tokens" for token in values}
        assert bool(tokens & marks) == bool(marks)


def test_a_picture_in_tiles(built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> None:
    """An overview and a grid of two by one, each with marks before it."""
    found = parts(built, *make_pair("idefics3").write(tmp_path), 64, 32)
    assert [kind for kind, _ in found].count("rows") == 3
    assert [values[0] for kind, values in found if kind == "rows"] == ["16"] * 3


def test_fewer_positions_than_rows(built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> None:
    for name in ("qwen2vl", "qwen25vl", "qwen3vl", "qwen35"):
        (values,) = (
            values for kind, values in parts(built, *make_pair(name).write(tmp_path), 64, 32) if kind == "rows"
        )
        assert (values[0], values[1]) == ("32", "8")


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.marks])
def test_a_target_without_the_marks(name: str, built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> None:
    """They are read as text, or are an error where mtmd would give the model a token -1."""
    target, projector = make_pair(name, marks=False).write(tmp_path)
    if name not in ("idefics3", "lfm2"):
        parts(built, target, projector, 64, 32)
        return
    program = built("llama/test_projector_rows")
    command = [program, target, projector, "700", "700", "3"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "lacks the marks" in result.stderr


SIZES_OF_ENCODERS = ("image", "patch", "width", "heads", "ffn", "layers")
KEYS = ("projector.scale_factor", "spatial_merge_size", "n_wa_pattern", "preproc_image_size", "preproc_max_tiles")


def damaged(projector: Projector, random: np.random.Generator) -> Projector:
    """With one thing changed: a tensor missing, or of another shape, or another number in the metadata."""
    tensors, names = dict(projector.tensors), list(projector.tensors)
    name, number = names[random.integers(len(names))], int(random.choice([0, 1, 3, 7, 64, 1000, 2**31 - 1, 2**32 - 1]))
    kind = random.integers(4)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        shape = list(tensors[name].shape)
        axis = random.integers(len(shape))
        shape[axis] = random.choice([max(1, shape[axis] // 2), 2 * shape[axis], 1])
        tensors[name] = np.resize(tensors[name], shape)
    elif kind == 2:
        return replace(projector, encoder=replace(projector.encoder, **{str(random.choice(SIZES_OF_ENCODERS)): number}))
    else:
        keys = [key for key, value in projector.keys.items() if isinstance(value, int)]
        return replace(projector, keys={**projector.keys, str(random.choice([*keys, *KEYS])): number})
    return replace(projector, tensors=tensors)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_damaged_projector_ends_no_process(
    name: str, built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    pair, random = make_pair(name), np.random.default_rng(1)
    target, program = pair.target.write(tmp_path / "target.gguf"), built("llama/test_projector_rows")
    results = set()
    for _ in range(16):
        file = damaged(pair.projector, random).write(tmp_path / "mmproj.gguf")
        command = [program, target, file, "64", "40", "1"]
        results.add(subprocess.run(command, capture_output=True, check=False, timeout=60).returncode)
    assert results <= {0, 1} and 1 in results


def test_a_projector_of_another_model(built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> None:
    target = make("llama").write(tmp_path / "target.gguf")
    projector = make_projector("llava", width=96).write(tmp_path / "mmproj.gguf")
    program = built("llama/test_projector_rows")
    result = subprocess.run([program, target, projector, "8", "8", "0"], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "rows are 96 wide" in result.stderr and "rows of 64" in result.stderr
