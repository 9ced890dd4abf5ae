"""A model file that shrinks while it is mapped, or whose disk fails: the error names it. (SIGBUS alone says
nothing.)"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from tests.cli.failing_disk import mounted

pytestmark = pytest.mark.skipif(
    not pathlib.Path("/proc/self/maps").exists(), reason="only Linux tells which file is mapped"
)

GONE = (
    "cannot be read any more: it was truncated while in use, or its disk fails; do not change model files "
    "while they are in use"
)
OPTIONS = ["-p", "def bfs(graph, start):", "-n", "4000", "-c", "4096", "-t", "2", "--json", "-l", "0-inf"]


@pytest.fixture
def pair(
    target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    target, draft = tmp_path / "t.gguf", tmp_path / "d\x1b[2J.gguf"
    shutil.copyfile(target_path, target)
    shutil.copyfile(draft_path, draft)
    return target, draft


def start(specdec: pathlib.Path, target: pathlib.Path, *options: object) -> subprocess.Popen[str]:
    """Returns once it generates."""
    command = [str(specdec), "generate", "-m", str(target), *OPTIONS, *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "token" in json.loads(process.stdout.readline())
    return process


def wait(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Its output and errors, except for the first note: the context is longer than what the bundled target was
    trained for."""
    output, errors = process.communicate(timeout=60)
    note, _, others = errors.partition("\n")
    assert note.startswith("note: a context of 4096 tokens is longer than") and note.isprintable()
    return output, others


def test_a_disk_that_fails(specdec: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with mounted(draft_path.read_bytes(), tmp_path) as disk, start(specdec, disk.path, "-k", 0) as process:
        disk.fail()
        _, errors = wait(process)
    assert (process.returncode, errors) == (1, f"specdec: {disk.path}: {GONE}\n")


@pytest.mark.parametrize("size", [0, 100_000])
def test_a_truncated_target(specdec: pathlib.Path, pair: tuple[pathlib.Path, pathlib.Path], size: int) -> None:
    with start(specdec, pair[0], "-k", 0) as process:
        os.truncate(pair[0], size)
        output, errors = wait(process)
    assert process.returncode == 1
    assert errors == f"specdec: {pair[0]}: {GONE}\n"
    for line in output.splitlines():  # what was written is whole
        assert "token" in json.loads(line)


def test_a_truncated_draft(specdec: pathlib.Path, pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    """Control characters of the path do not reach the terminal."""
    with start(specdec, pair[0], "-md", pair[1], "-k", 4) as process:
        os.truncate(pair[1], 0)
        _, errors = wait(process)
    assert process.returncode == 1
    assert errors == f"specdec: {pair[1].parent}/d?[2J.gguf: {GONE}\n"


def test_other_bus_errors_end_it_as_ever(specdec: pathlib.Path, pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    with start(specdec, pair[0], "-k", 0) as process:
        process.send_signal(signal.SIGBUS)
        _, errors = wait(process)
    assert (process.returncode, errors) == (-signal.SIGBUS, "")


def test_weights_that_were_read_need_no_file(specdec: pathlib.Path, pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    with start(specdec, pair[0], "-k", 0, "--no-mmap", "-n", 200) as process:
        os.truncate(pair[0], 0)
        _, errors = wait(process)
    assert (process.returncode, errors) == (0, "")


def test_python_keeps_its_own_handlers(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    """The signal belongs to the host: nothing is installed, and faulthandler shows the call. With one thread: a second
    one's signal would end the process while it writes."""
    script = f"""
import faulthandler, os
import specdec_native as sd
faulthandler.enable()
gen = sd.Generator({str(pair[0])!r}, draft=None, n_ctx=256, n_threads=1)
for i, piece in enumerate(gen.stream("def", max_tokens=200)):
    if i == 3:
        os.truncate({str(pair[0])!r}, 0)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in result.stderr
