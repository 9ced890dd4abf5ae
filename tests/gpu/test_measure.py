"""bench/device/measure.sh on the device at hand, with its shortest settings: every table is there."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.skipif("SPECDEC_REHEARSAL" not in os.environ, reason="five minutes where shaders are cold: make rehearse")
def test_the_rehearsal(device: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if not (specdec.parent / "bench" / "bench_passes").exists():
        pytest.skip("bench is not built (-DSPECDEC_BENCH=ON)")
    command = [ROOT / "bench" / "device" / "measure.sh", "--short", "--devices", device, "--to", tmp_path / "tables.md"]
    finished = subprocess.run(
        [*command, "--models", tmp_path / "models", "--minutes", "20"],
        env={**os.environ, "SPECDEC_BUILD": str(specdec.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert finished.returncode == 0 and finished.stdout == tables, finished.stdout + finished.stderr
    assert "Left out" not in tables and "Failed" not in tables, tables
    sections = dict(re.findall(r"^## (.*?), .*?\n(.*?)(?=^## |\Z)", tables, re.MULTILINE | re.DOTALL))
    assert list(sections) == ["Exactness", "Tests", "Milliseconds per pass", "Tokens per second"]
    assert "Exact at width" in sections["Exactness"] and "| 8 | 0 of 48 | 0 of 48 |" in sections["Exactness"]
    assert re.search(r"^[1-9]\d* passed, 0 failed", sections["Tests"], re.MULTILINE)
    assert re.search(rf"^\| 0.35b-Q8_0, {device}, exact \| \d+\.\d", sections["Milliseconds per pass"], re.MULTILINE)
    for row in (
        "ours, plain",
        "ours, the best K",
        "ours, auto",
        "ours, --no-exact, auto",
        "ours, draft on the CPU, auto",
    ):
        assert re.search(rf"^\| {row} \| \d+\.\d.* \| \d+\.\d", sections["Tokens per second"], re.MULTILINE), row
