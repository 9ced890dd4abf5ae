"""Every target of the Makefile has rules for all that it needs, also in a fresh clone, and builds no more than it
runs."""

import json
import os
import pathlib
import re
import subprocess
import sysconfig

import pytest

pytestmark = pytest.mark.quick

ROOT = pathlib.Path(__file__).parents[1]
MADE = (".cache", ".venv", "build", "dist")
PHONY = re.compile(r"^\.PHONY: (.*)$", re.MULTILINE)


def targets() -> list[str]:
    found = PHONY.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    return " ".join(found).split()


def planned(target: str, tmp_path: pathlib.Path) -> str:
    """The commands that `make` would run in a fresh clone."""
    for entry in ROOT.iterdir():
        if entry.name not in MADE:
            (tmp_path / entry.name).symlink_to(entry)
    made = subprocess.run(["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.mark.parametrize("target", targets())
def test_make_has_the_rules_of(target: str, tmp_path: pathlib.Path) -> None:
    planned(target, tmp_path)


BUILDS = [
    ("demo", [" --target specdec"]),
    ("build", [""]),
    ("check", [" --target all test_programs"]),
    ("test", [" --target all test_programs"]),
    ("lint", []),
]


@pytest.mark.parametrize(("target", "built"), BUILDS)
def test_make_builds_no_more_than_needed(target: str, built: list[str], tmp_path: pathlib.Path) -> None:
    assert re.findall(r"^cmake --build build/default(.*)$", planned(target, tmp_path), re.MULTILINE) == built


def inputs(specdec: pathlib.Path, target: str) -> str:
    ninja = pathlib.Path(sysconfig.get_path("scripts")) / "ninja"
    if not ninja.exists() or not (specdec.parent / "build.ninja").exists():
        pytest.skip("no build tree of Ninja")
    command = [ninja, "-C", specdec.parent, "-t", "inputs", target]
    return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True).stdout


def test_the_program_and_all_are_built_without_tests(specdec: pathlib.Path) -> None:
    """`make demo` and `make`; `make test` builds test_programs, too."""
    program, everything, tests = (inputs(specdec, target) for target in ("specdec", "all", "test_programs"))
    assert "cpp/cli/" in program and "cpp/cli/" in everything
    assert "cpp/bindings/" not in program
    assert not re.search(r"^tests/", program + everything, re.MULTILINE)
    # Every folder with programs, and what tests load or start.
    for name in (
        "base/test_isa",
        "weights/mxfp6/test_mxfp6",
        "engine/test_interrupted_passes",
        "fuzz/test_fuzz_models",
    ):
        assert re.search(rf"^tests/{name}", tests, re.MULTILINE), name


def test_what_passes_run_is_optimized(specdec: pathlib.Path) -> None:
    """
    Loops over weights and rows have -O3. Less, which compiles faster, is for targets like the command line and for
    those that leave such loops to others (cmake/ThirdParty.cmake).
    """
    database, cache = specdec.parent / "compile_commands.json", specdec.parent / "CMakeCache.txt"
    if not database.exists() or "CMAKE_BUILD_TYPE:STRING=Release" not in cache.read_text(encoding="utf-8"):
        pytest.skip("no build tree of that type")
    levels: dict[str, set[str]] = {}
    for entry in json.loads(database.read_text(encoding="utf-8")):
        folder = "/".join(
            (pathlib.Path(entry["directory"]) / entry["output"]).relative_to(entry["directory"]).parts[:2]
        )
        levels.setdefault(folder, set()).add(re.findall(r" (-O\w)\b", entry["command"])[-1])
    for level, folders in {
        "-O3": ["base", "weights", "attention", "graph", "sampling", "quantize", "pictures"],
        "-O2": ["constraints", "speculative", "llama"],
        "-O1": ["engine", "cli"],
    }.items():
        for folder in folders:
            assert levels[f"cpp/{folder}"] == {level}, folder
