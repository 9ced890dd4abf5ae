"""A short run of bench/serve/serve_load.py: clients that leave, are slow or break off; no wrong text, no lost slot."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_load(specdec: pathlib.Path) -> None:
    options = ["--clients", "16", "--slots", "4", "--seconds", "10", "--threads", "1", "--only", "specdec, draft"]
    script = [sys.executable, "-m", "bench.serve.serve_load", "--specdec", str(specdec)]
    result = subprocess.run([*script, *options], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "specdec, draft" in result.stdout
