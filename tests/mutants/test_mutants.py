"""tests/mutants/run.py chooses the same changes every time, undoes each, and tries the tests that run the line."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from tests.mutants.run import Copy, Mutant, explanations, in_random_order
from tests.mutants.which_tests import OneTest, Places, Recording

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


def test_a_program_ends_at_its_first_failure(tmp_path: pathlib.Path) -> None:
    def run(script: str, seconds: float = 60) -> tuple[bool, str]:
        return Copy(tmp_path, 1).program(OneTest("a/all", ["sh", "-c", script]), seconds)

    assert run("echo ok a; echo FAILED b; sleep 600") == (False, "FAILED b\n")
    assert run("echo ok a; echo ok b") == (True, "ok b\n")
    assert run("exit 77")[0] and not run("exit 3")[0]
    assert run("sleep 600", 1) == (False, "took more than 1 s")


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


SOURCE = """\
int limit = 3;
int f(int x) {
  int y = x;
  y += 2;
  if (x > limit) y = 0;
  return y;
}
"""


def recorded(folder: pathlib.Path) -> Recording:
    source = folder / "cpp" / "a" / "slot.cpp"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE, encoding="utf-8")
    recording = Recording(folder / "recording.json", folder)
    recording.add(OneTest("a/all", ["test_all"], 1, {"cpp/a/slot.cpp": [2, 5, 6]}))
    recording.add(OneTest("tests/a/test_slot.py", [], 9, {"cpp/a/slot.cpp": [2, 6]}))
    recording.add(OneTest("a/other", ["test_other"], 0.5, {"cpp/a/other.cpp": [1]}))
    return Recording(folder / "recording.json", folder)


def test_only_tests_that_may_run_the_line_are_tried(tmp_path: pathlib.Path) -> None:
    recording = recorded(tmp_path)

    def chosen(line: int, path: str = "cpp/a/slot.cpp") -> list[str]:
        return [test.name for test in recording.tests_of(path, line, recording.tests)]

    both = ["tests/a/test_slot.py", "a/all"]  # the one named like the file is first
    assert chosen(4) == both
    assert chosen(1) == both  # in no function
    recording.tests["tests/a/test_slot.py"].lines["cpp/a/slot.cpp"] = [6]
    assert chosen(4) == ["a/all"]
    assert chosen(6) == both
    assert chosen(1, "cpp/a/unknown.h") == ["a/other", "a/all", "tests/a/test_slot.py"]
    (tmp_path / "cpp" / "a" / "slot.cpp").write_text("\n" + SOURCE, encoding="utf-8")  # the numbers are others now
    assert chosen(4) == both


def test_blocks_that_ran_are_recorded(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "cpp" / "a" / "slot.cpp"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE + "int main(int n, char**) {\n  return f(n);\n}\n", encoding="utf-8")
    trace, program, traces = tmp_path / "trace.o", tmp_path / "program", tmp_path / "traces"
    traces.mkdir()
    subprocess.run(["gcc", "-c", pathlib.Path(__file__).parent / "trace.c", "-o", trace], check=True)
    command: list[str | pathlib.Path] = [
        "g++",
        "-g1",
        "-fsanitize-coverage=trace-pc",
        "-x",
        "c++",
        source,
        "-x",
        "none",
        trace,
        "-o",
        program,
    ]
    subprocess.run(command, check=True)
    lines = []
    for arguments in ("", "1 2 3"):
        subprocess.run([str(program), *arguments.split()], env={"SPECDEC_TRACE": str(traces)}, check=False)
        lines.append(Places().of_traces(traces, [program])["cpp/a/slot.cpp"])
    assert 5 not in lines[0] and set(lines[0]) < {5, *lines[0]} <= set(lines[1])
    assert not list(traces.iterdir())
