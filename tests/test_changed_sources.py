""".ci/changed_sources.py, which says what clang-tidy checks of a change: on a repository of a few files."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.quick

SCRIPT = pathlib.Path(__file__).parents[1] / ".ci" / "changed_sources.py"
FILES = {
    "cpp/base/number.h": "int one();\n",
    "cpp/base/number.cpp": '#include "base/number.h"\n#include "jinja/lexer.h"\n',
    "cpp/engine/engine.h": '#include "base/number.h"\n',
    "cpp/engine/engine.cpp": '#include "engine/engine.h"\n#include "llama-model.h"\n',
    "tests/check.h": "\n",
    "tests/base/test_number.cpp": '#include "check.h"\n',
    "requirements/test.txt": "clang-tidy==1\nmypy==1\n",
    ".clang-tidy": "Checks: -*\n",
}


class Repository:
    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        (root / ".ci").mkdir(parents=True)
        shutil.copy(SCRIPT, root / ".ci")
        for name, text in FILES.items():
            self.write(name, text)
        self.git("init", "-q")
        self.first = self.commit()

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        done = subprocess.run(
            ["git", "-C", self.root, *identity, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def printed(self, *base: str) -> set[str]:
        sources = [str(path) for path in self.root.rglob("*.cpp") if path.is_file()]
        database = self.root / "compile_commands.json"
        database.write_text(json.dumps([{"file": file} for file in sources]))
        command = [sys.executable, self.root / ".ci" / SCRIPT.name, database, *base]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        database.unlink()
        return {pathlib.Path(line).name for line in lines}


ALL = {"number.cpp", "engine.cpp", "test_number.cpp"}


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_nothing_changed(repository: Repository) -> None:
    assert repository.printed(repository.first) == set()


def test_sources_and_what_includes_a_header(repository: Repository) -> None:
    repository.write("cpp/engine/engine.cpp", '#include "engine/engine.h"\nint two();\n')
    assert repository.printed(repository.first) == {"engine.cpp"}, "not committed yet"
    repository.write("cpp/base/number.h", "int one();\nint two();\n")
    repository.commit()
    assert repository.printed(repository.first) == {"number.cpp", "engine.cpp"}, "one of them through another header"
    repository.write("tests/check.h", "\n\n")
    assert repository.printed(repository.first) == ALL


def test_a_new_file(repository: Repository) -> None:
    repository.write("cpp/base/new.cpp", "\n")
    assert repository.printed(repository.first) == {"new.cpp"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (".clang-tidy", "Checks: -*,bugprone-*\n", ALL),
        (".clang-tidy", "# None.\nChecks:\n  -*\n", set()),
        ("requirements/test.txt", "clang-tidy==2\nmypy==1\n", ALL),
        ("requirements/test.txt", "clang-tidy==1\nmypy==2\n", set()),
        ("third_party/llama.cpp/fetch.py", "\n", ALL),
        ("third_party/llama.cpp/device_module/CMakeLists.txt", "\n", set()),
        ("third_party/llama.cpp/patches/1.patch", "--- a/src/llama-model.h\n+++ b/src/llama-model.h\n", {"engine.cpp"}),
        (
            "third_party/llama.cpp/patches/1.patch",
            "--- a/common/jinja/lexer.h\n+++ b/common/jinja/lexer.h\n",
            {"number.cpp"},
        ),
        ("third_party/llama.cpp/patches/1.patch", "--- a/src/llama-model.cpp\n+++ b/src/llama-model.cpp\n", set()),
    ],
)
def test_what_matters_for_other_files(repository: Repository, name: str, text: str, expected: set[str]) -> None:
    repository.write(name, text)
    assert repository.printed(repository.first) == expected


def test_a_patch_that_is_gone(repository: Repository) -> None:
    repository.write("third_party/llama.cpp/patches/1.patch", "--- a/src/llama-model.h\n+++ b/src/llama-model.h\n")
    base = repository.commit()
    (repository.root / "third_party/llama.cpp/patches/1.patch").unlink()
    assert repository.printed(base) == {"engine.cpp"}


def test_the_base(repository: Repository) -> None:
    """The recorded commit, then the last tag; without either, or in a history without that commit, everything."""
    assert repository.printed() == ALL
    repository.write(".ci/tidy-base", f"{repository.first}\n")
    assert repository.printed() == set()
    repository.write("cpp/base/number.cpp", "\n")
    repository.commit()
    assert repository.printed() == {"number.cpp"}
    repository.git("tag", "v1")
    assert repository.printed() == set()
    assert repository.printed("0" * 40) == ALL
