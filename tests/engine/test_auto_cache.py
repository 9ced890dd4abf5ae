"""What "auto" learns stays for the next run: in a small file, which decides how soon drafts pay and never what a seed
means."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import specdec_native as sd

PROMPT = ["-p", "def bfs(graph, start):", "-l", "0-inf"]
RUN = ["-t", "1", "--json"]


class Runs:
    """Runs of the program that keep what they learn in one folder."""

    def __init__(self, specdec: pathlib.Path, folder: pathlib.Path) -> None:
        self.specdec, self.folder = specdec, folder / "specdec" / "auto"
        self.environment = os.environ | {"XDG_CACHE_HOME": str(folder)}

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        command = [self.specdec, "generate", *RUN, *map(str, arguments)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        )

    def run(self, *arguments: object) -> list[dict[str, Any]]:
        """The pieces, and at the end the statistics."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def files(self) -> list[pathlib.Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []


@pytest.fixture
def runs(specdec: pathlib.Path, tmp_path: pathlib.Path) -> Runs:
    return Runs(specdec, tmp_path)


def test_a_later_run_begins_with_it(runs: Runs, target_path: pathlib.Path, draft_path: pathlib.Path) -> None:
    """The larger model drafts for the smaller one, which a first run has to find out."""
    pair = [*PROMPT, "-m", draft_path, "-md", target_path, "--no-suffix", "--temp", 0]
    assert runs.files() == []
    first = runs.run(*pair, "-n", 200)
    (file,) = runs.files()
    assert file.stat().st_size < 8192
    second = runs.run(*pair, "-n", 30)
    assert [piece["token"] for piece in first[:30]] == [piece["token"] for piece in second[:-1]]
    assert first[-1]["stats"]["drafted"] > 0 and second[-1]["stats"]["drafted"] == 0
    begins = [runs.run(*pair, "-n", 1, *more)[-1]["stats"]["drafting"] for more in ([], ["--no-auto-cache"])]
    assert begins[0].startswith("off except for trials") and begins[1].startswith("undecided")
    runs.run(*PROMPT, "-m", target_path, "-md", draft_path, "-n", 100)
    assert len(runs.files()) == 2  # another pair


def test_it_is_not_part_of_what_a_seed_means(runs: Runs) -> None:
    options: list[list[object]] = [[], [], [], ["--no-auto-cache"], ["-k", 0]]
    texts = [[piece["token"] for piece in runs.run(*PROMPT, "-n", 100, "-s", 5, *more)[:-1]] for more in options]
    assert len(texts[0]) == 100 and all(text == texts[0] for text in texts)


@pytest.mark.parametrize("options", [["--no-auto-cache"], ["-k", 0], ["-k", 4], ["-n", 1]])
def test_when_nothing_is_kept(runs: Runs, options: list[object]) -> None:
    """Turned off, nothing to learn, or too little."""
    runs.run(*PROMPT, "-n", 100, *options)
    assert runs.files() == []


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "a bit": lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:],
    "another version": lambda content: content[:8] + b"\x07" + content[9:],
    "another kind": lambda content: b"something else",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_replaced(runs: Runs, damage: str) -> None:
    runs.run(*PROMPT, "-n", 100)
    (file,) = runs.files()
    damaged = DAMAGE[damage](file.read_bytes())
    file.write_bytes(damaged)
    runs.run(*PROMPT, "-n", 100)
    assert runs.files() == [file] and file.read_bytes() != damaged
    assert file.read_bytes().startswith(b"SDAUTOKN\x02")


def test_a_folder_that_cannot_be_written(runs: Runs) -> None:
    runs.folder.parent.mkdir(parents=True)
    runs.folder.write_text("a file")
    runs.run(*PROMPT, "-n", 100)
    assert runs.folder.read_text() == "a file"


def test_several_processes(runs: Runs) -> None:
    processes = [runs.start(*PROMPT, "-n", 100) for _ in range(6)]
    for process in processes:
        _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
    (file,) = runs.files()  # nothing temporary is left
    before = file.read_bytes()
    runs.run(*PROMPT, "-n", 100)
    assert file.read_bytes() != before


def test_old_files_go(runs: Runs) -> None:
    runs.folder.mkdir(parents=True)
    for i in range(250):
        path = runs.folder / f"{i:016x}"
        path.write_text("old")
        os.utime(path, (i, i))
    runs.run(*PROMPT, "-n", 100)
    names = [file.name for file in runs.files()]
    assert len(names) == 200 and f"{0:016x}" not in names and f"{249:016x}" in names


def test_python(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "specdec" / "auto"
    with sd.Generator(auto_cache=False, n_threads=1) as gen:
        gen.generate("import os", max_tokens=100, logit_bias={0: float("-inf")})
    assert not folder.exists()
    with sd.Generator(n_threads=1) as gen:
        gen.generate("import os", max_tokens=100, logit_bias={0: float("-inf")})
        assert not folder.exists()
    assert len(list(folder.iterdir())) == 1
