"""bench/README.md: its commands resolve, no script or result is missing from it, and a test starts every script.
bench/CLOSED.md: what it names is in git."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.quick

ROOT = pathlib.Path(__file__).parents[2]
BENCH = ROOT / "bench"
README = (BENCH / "README.md").read_text(encoding="utf-8")
CLOSED = (BENCH / "CLOSED.md").read_text(encoding="utf-8")
MODULE = re.compile(r"-m (bench(?:\.\w+)+)")


def scripts() -> set[str]:
    paths = [path for path in BENCH.glob("*/*.py") if "__main__" in path.read_text(encoding="utf-8")]
    return {f"bench.{path.parent.name}.{path.stem}" for path in paths}


def programs() -> set[str]:
    return set(re.findall(r"add_executable\((bench_\w+)", (BENCH / "CMakeLists.txt").read_text(encoding="utf-8")))


def test_named_scripts_exist() -> None:
    folders = [path for name in ("bench", "docs", "models", "tests", "release") for path in (ROOT / name).rglob("*")]
    texts = [path for path in [*ROOT.glob("*.md"), ROOT / "Makefile", *folders] if path.suffix in (".md", ".py", "")]
    found = {module for path in texts if path.is_file() for module in MODULE.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 15
    assert [module for module in found if not ROOT.joinpath(*module.split(".")).with_suffix(".py").exists()] == []


def test_every_script_and_result_is_in_the_table() -> None:
    named = {*MODULE.findall(README), *MODULE.findall((ROOT / "Makefile").read_text(encoding="utf-8"))}
    wanted = {name for name in scripts() if not name.startswith("bench.common.")}
    assert len(wanted) > 15 and wanted - named == set()
    results = [path.relative_to(BENCH).as_posix() for path in BENCH.glob("*/*.md")]
    assert len(results) > 10 and [path for path in results if f"({path}" not in README] == []


def test_programs_exist() -> None:
    assert set(re.findall(r"`(bench_\w+)", README)) <= programs()


def test_a_test_starts_every_script_and_program() -> None:
    """As far as its name in a test file shows. What needs another engine or the network is started by hand."""
    others = [path for path in (ROOT / "tests").rglob("test_*.py") if path.name != pathlib.Path(__file__).name]
    text = "\n".join(path.read_text(encoding="utf-8") for path in others)
    engines = {f"bench.common.peer_{name}" for name in ("llama_cpp_python", "openvino", "transformers")}
    by_hand = {"bench.common.real_models", "bench_passes_stock", *engines}
    started = {*re.findall(r"\bbench(?:\.\w+)+", text), *re.findall(r"\bbench_\w+", text)}
    assert {*scripts(), *programs()} - started - by_hand == set()


def test_every_row_has_a_result() -> None:
    rows = [
        line.split("|")[1:-1]
        for line in README.splitlines()
        if line.startswith("| ") and not line.startswith("| question")
    ]
    assert len(rows) > 20
    assert all(len(row) == 5 and row[1].strip() and "](" in row[2] and row[4].strip() for row in rows)


def test_what_is_closed_is_in_git() -> None:
    rows = [line.split("|")[1:-1] for line in CLOSED.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15 and all(len(row) == 4 and all(cell.strip() for cell in row) for row in rows)
    (commit,) = set(re.findall(r"git (?:show|checkout) (\w+)", CLOSED))
    listed = ["git", "ls-tree", "-r", "--name-only", commit, "bench"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"no history: {found.stderr.strip()}")
    tables = {f"bench/{row[3].strip().split(';')[0]}/RESULTS.md" for row in rows}
    assert tables - set(found.stdout.split()) == set()
