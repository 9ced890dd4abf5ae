"""A disk that fails from any read on: the command gives its text, or ends with a message that names the file."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from tests.cli.failing_disk import mounted

COMMANDS = ["info", "generate -p import -n 4 --seed 1 -m", "generate --no-mmap -p import -n 4 --seed 1 -m"]


@pytest.mark.parametrize("command", COMMANDS)
def test_reads_fail(specdec: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path, command: str) -> None:
    def run(fails_at: int) -> tuple[subprocess.CompletedProcess[str], int]:
        with mounted(content, tmp_path) as disk:  # a new mount: the system has read nothing yet
            disk.fails_at = fails_at
            arguments = [str(specdec), *command.split(), str(disk.path)]
            return subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=False), disk.reads

    content = draft_path.read_bytes()
    sound, num_reads = run(-1)
    assert sound.returncode == 0, sound.stderr
    num_failed = 0
    for fails_at in range(num_reads):
        ended, _ = run(fails_at)
        if ended.returncode == 1:
            num_failed += 1
            assert str(tmp_path / "m.gguf") in ended.stderr.splitlines()[-1], ended
        else:
            assert (ended.returncode, ended.stdout) == (0, sound.stdout), ended
    assert num_failed > 0
