"""Every target of the Makefile has rules for all that it needs, also where nothing was built yet."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
MADE = (".cache", ".venv", "build", "dist")
PHONY = re.compile(r"^\.PHONY: (.*)$", re.MULTILINE)


def targets() -> list[str]:
    found = PHONY.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    return " ".join(found).split()


@pytest.mark.parametrize("target", targets())
def test_make_has_the_rules_of(target: str, tmp_path: pathlib.Path) -> None:
    for entry in ROOT.iterdir():
        if entry.name not in MADE:
            (tmp_path / entry.name).symlink_to(entry)
    planned = subprocess.run(["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert planned.returncode == 0, planned.stderr
