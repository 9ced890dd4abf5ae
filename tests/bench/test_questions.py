"""bench/README.md: its commands resolve, and no script or result is missing from it."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
BENCH = ROOT / "bench"
README = (BENCH / "README.md").read_text(encoding="utf-8")
MODULE = re.compile(r"-m (bench(?:\.\w+)+)")


def test_named_scripts_exist() -> None:
    folders = [path for name in ("bench", "docs", "models", "tests", "release") for path in (ROOT / name).rglob("*")]
    texts = [path for path in [*ROOT.glob("*.md"), ROOT / "Makefile", *folders] if path.suffix in (".md", ".py", "")]
    found = {module for path in texts if path.is_file() for module in MODULE.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 20
    assert [module for module in found if not ROOT.joinpath(*module.split(".")).with_suffix(".py").exists()] == []


def test_every_script_and_result_is_in_the_table() -> None:
    scripts = [path for path in BENCH.glob("*/*.py") if "__main__" in path.read_text(encoding="utf-8")]
    named = {*MODULE.findall(README), *MODULE.findall((ROOT / "Makefile").read_text(encoding="utf-8"))}
    wanted = {f"bench.{path.parent.name}.{path.stem}" for path in scripts if path.parent.name != "common"}
    assert len(wanted) > 20 and wanted - named == set()
    results = [path.relative_to(BENCH).as_posix() for path in BENCH.glob("*/*.md")]
    assert len(results) > 15 and [path for path in results if f"({path}" not in README] == []


def test_programs_exist() -> None:
    built = set(re.findall(r"add_executable\((bench_\w+)", (BENCH / "CMakeLists.txt").read_text(encoding="utf-8")))
    assert set(re.findall(r"`(bench_\w+)", README)) <= built


def test_every_row_has_a_result() -> None:
    rows = [
        line.split("|")[1:-1]
        for line in README.splitlines()
        if line.startswith("| ") and not line.startswith("| question")
    ]
    assert len(rows) > 25
    assert all(len(row) == 5 and row[1].strip() and "](" in row[2] and row[4].strip() for row in rows)
