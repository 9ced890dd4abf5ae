"""cmake/BuildOnce.cmake, which builds llama.cpp in a folder that several build trees share: on a project of one
file."""

import os
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

pytestmark = pytest.mark.quick

SCRIPT = pathlib.Path(__file__).parents[1] / "cmake" / "BuildOnce.cmake"
PATH = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
PROJECT = """\
cmake_minimum_required(VERSION 3.21)
project(small LANGUAGES C)
add_library(small STATIC small.c)
"""


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT)
    (source / "small.c").write_text("int one(void) { return 1; }\n")
    return source


def build_once(source: pathlib.Path, *options: str) -> tuple[pathlib.Path, str]:
    """The library and what the script printed."""
    cmake = shutil.which("cmake", path=PATH)
    assert cmake, "cmake is missing: run `make build` first"
    build = source.parent / "build"
    library = build / "libsmall.a"
    command = [cmake, "-P", SCRIPT, source, build, "small", library, "-G", "Ninja", *options]
    ran = subprocess.run(
        command, env=os.environ | {"PATH": PATH}, capture_output=True, text=True, timeout=120, check=True
    )
    return library, ran.stdout


def test_a_complete_build_is_not_touched(source: pathlib.Path) -> None:
    library, shown = build_once(source)
    assert library.is_file() and shown
    made = library.stat().st_mtime_ns
    assert build_once(source) == (library, "")
    assert library.stat().st_mtime_ns == made


def test_a_deleted_library_is_built_again(source: pathlib.Path) -> None:
    library, _ = build_once(source)
    content = library.read_bytes()
    library.unlink()
    build_once(source)
    assert library.read_bytes() == content


def test_other_options_build_it_again(source: pathlib.Path) -> None:
    build_once(source)
    assert build_once(source, "-DCMAKE_BUILD_TYPE=Release")[1]
