"""Recurrent states and heads where memory is short: an error with the file and the remedy, or a slower way with a
note."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.engine.test_head_files import pair_of
from tests.models.tiny_models import make, with_head

import specdec_native as sd


@pytest.fixture(scope="session")
def program(built: Callable[[str], pathlib.Path]) -> pathlib.Path:
    return built("engine/test_little_memory")


def run(
    program: pathlib.Path, target: pathlib.Path, draft: pathlib.Path | str, num_bytes: int
) -> tuple[bool, list[str]]:
    """Whether there was text, and the lines."""
    command = [program, target, draft, "4", str(num_bytes)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode in (0, 1), result.stderr
    return result.returncode == 0, result.stdout.splitlines()


@pytest.mark.parametrize("name", ["qwen35", "nemotron_h", "lfm2", "mamba2", "mtp:qwen35", "eagle3:llama"])
def test_less_and_less_memory(name: str, program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    draft: pathlib.Path | str = tmp_path / "draft.gguf"
    if name == "mtp:qwen35":
        model, draft = with_head("qwen35"), "mtp"
    elif name == "eagle3:llama":
        model, head = pair_of(name)
        head.write(tmp_path / "draft.gguf", GgmlType.F16)
    else:
        model = make(name)
        model.near(0.1).write(tmp_path / "draft.gguf", GgmlType.F16)
    target = model.write(tmp_path / "target.gguf", GgmlType.F16)
    plain = sd.Generator(target, None, n_threads=1, n_ctx=256, num_draft_tokens=0)
    expected = " ".join(map(str, plain.generate([0, 40, 50, 60, 70], max_tokens=40, temperature=0).tokens)) + " "
    notes, errors = [], []
    for power in range(40, 9, -1):
        has_text, lines = run(program, target, draft, 1 << power)
        if has_text:
            assert not errors and lines[-1] == expected
            notes.append(lines[:-1])
        else:
            errors.append(lines)
    assert notes[0] == []
    has_snapshots = name in ("qwen35", "nemotron_h", "lfm2", "mtp:qwen35")
    (note,) = notes[-1] if has_snapshots else [""]
    if has_snapshots:
        assert note.startswith(f"{target}: there is no memory for snapshots") and "Ask for fewer sequences" in note
    else:
        assert not any(notes)
    for (error,) in errors:
        assert (
            error.startswith((f"{target}: ", f"{draft}: ")) and "not enough memory for a context of 256 tokens" in error
        )
        assert error.endswith("Ask for a shorter context (n_ctx, -c), or 0 for the longest that fits")
    assert errors
