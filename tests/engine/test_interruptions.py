"""Passes that are interrupted at the points where models ask for it, of 1 to 4 requests together, for everything that
has more than cells of a cache to roll back: recurrent targets and drafts, drafting heads.
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.engine.test_head_files import PAIRS, pair_of
from tests.models.tiny_models import RECURRENT, WITH_HEADS, WITH_LONG_HEADS, make, with_head


@pytest.fixture(scope="session")
def program(built: Callable[[str], pathlib.Path]) -> pathlib.Path:
    return built("engine/test_interrupted_passes")


def check(program: pathlib.Path, target: pathlib.Path, draft: pathlib.Path | str) -> None:
    """Every point with one request, every second one with four, every fifth with two and three."""
    for count, step in {1: 1, 2: 5, 3: 5, 4: 2}.items():
        result = subprocess.run(
            [program, target, draft, str(count), str(step)], capture_output=True, text=True, timeout=300
        )
        assert result.returncode == 0, (count, result.stderr)
        assert int(result.stdout) >= 20 / step


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_models(name: str, program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = make(name)
    draft = model.near(0.1).write(tmp_path / "draft.gguf", GgmlType.F16)
    check(program, model.write(tmp_path / "target.gguf", GgmlType.F16), draft)


@pytest.mark.parametrize("name", WITH_HEADS)
def test_own_heads(name: str, program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = with_head(name, layers=2 if name in WITH_LONG_HEADS else 1)
    check(program, model.write(tmp_path / "target.gguf", GgmlType.F16), "mtp")


@pytest.mark.parametrize("name", PAIRS)
def test_heads_in_files(name: str, program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target, head = (model.write(tmp_path / f"{i}.gguf", GgmlType.F16) for i, model in enumerate(pair_of(name)))
    check(program, target, head)
