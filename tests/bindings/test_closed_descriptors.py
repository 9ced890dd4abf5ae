"""The extension in a process whose standard descriptors were closed: what it writes never reaches a file of the
user's."""

import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.quick

SCRIPT = """
import pathlib, sys
before = open("before.txt", "w")  # has the number of a standard stream
import specdec_native as sd
after = open("after.txt", "w")
report = pathlib.Path("report.txt")
try:
    assert before.fileno() <= 2 < after.fileno(), (before.fileno(), after.fileno())
    before.write("mine")
    after.write("mine")
    gen = sd.Generator(num_draft_tokens=2)
    text = gen.generate("def f(", max_tokens=4, seed=1).text
    try:
        gen.generate("x " * 10000, max_tokens=4)
    except sd.ContextFull:
        report.write_text(text)
except BaseException as error:
    report.write_text(repr(error))
"""


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-", ">&- 2>&-"])
def test_closed_descriptors(closed: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    shell = f'"{sys.executable}" script.py {closed}'
    assert subprocess.run(["sh", "-c", shell], cwd=tmp_path, timeout=120, check=False).returncode == 0
    import specdec_native as sd

    expected = sd.Generator(num_draft_tokens=2).generate("def f(", max_tokens=4, seed=1).text
    assert (tmp_path / "report.txt").read_text() == expected
    assert (tmp_path / "before.txt").read_text() == (tmp_path / "after.txt").read_text() == "mine"
