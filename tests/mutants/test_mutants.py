"""tests/mutants/run.py chooses the same changes every time, and undoes each."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from tests.mutants.run import Copy, Mutant, explanations, in_random_order

pytestmark = pytest.mark.quick

MUTANTS = [Mutant("cpp/a.cpp", line, f"old {line}\n", f"new {line}, {i}\n") for line in range(1, 21) for i in range(3)]


def test_the_order_depends_on_the_seed_alone() -> None:
    order = in_random_order(MUTANTS, 1)
    assert order == in_random_order(list(MUTANTS), 1) != in_random_order(MUTANTS, 2)
    assert sorted(order, key=MUTANTS.index) == MUTANTS
    for begin in (0, 20, 40):  # a line is not chosen again before all were
        assert len({mutant.line for mutant in order[begin : begin + 20]}) == 20


def test_a_change_is_undone_whatever_happens(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "cpp" / "a.cpp"
    source.parent.mkdir()
    source.write_text("one\ntwo\nthree\n", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt), Copy(tmp_path, 1).changed(Mutant("cpp/a.cpp", 2, "two\n", "2\n")):
        assert source.read_text(encoding="utf-8") == "one\n2\nthree\n"
        raise KeyboardInterrupt
    assert source.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_what_a_command_started_ends_with_it(tmp_path: pathlib.Path) -> None:
    copy = Copy(tmp_path, 1)
    assert copy.run(["sh", "-c", "echo said; exit 3"], 60) == (False, "said\n")
    ok, text = copy.run(["sh", "-c", "sleep 600 & echo $! > child; wait"], 1)
    assert not ok and "more than 1 s" in text
    child = int((tmp_path / "child").read_text())
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True, check=False).stdout
    assert state.strip()[:1] in ("", "Z"), os.listdir(tmp_path)


def test_a_copy_that_cannot_be_configured(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.run.ROOT", tmp_path)
    (tmp_path / "copy").mkdir()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    with pytest.raises(SystemExit, match=r"(?s)the copy cannot be configured:\n.*CMakePresets\.json"):
        Copy(tmp_path / "copy", 1).update()


def test_explanations_are_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# About\n\ncpp/a.cpp\n- int x = 1;\n+ int x = 2;\nNothing reads it,\nsee b.\n"
    monkeypatch.setattr("tests.mutants.run.__file__", str(tmp_path / "run.py"))
    (tmp_path / "explained.txt").write_text(text, encoding="utf-8")
    assert explanations() == {("cpp/a.cpp", "int x = 1;", "int x = 2;"): "Nothing reads it, see b."}
