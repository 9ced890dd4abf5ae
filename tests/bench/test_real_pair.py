"""bench/real_pair/real_pair.py: the table of what was measured in pieces."""

from __future__ import annotations

import json
import pathlib

import pytest
from bench.real_pair import real_pair

pytestmark = pytest.mark.quick

# Row, prompt, tokens per second of each round.
MEASURED = [
    ("llama.cpp, plain", "merge", [19.0, 20.0, 90.0]),
    ("llama.cpp, plain", "bug", [30.0]),
    ("ours, plain", "merge", [25.0]),
    ("ours, draft (default)", "merge", [40.0, 50.0]),
    ("ours, draft (default)", "bug", [60.0]),
]


def test_tables_of_all_that_was_measured(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    lines = [
        {"row": row, "temperature": 0.7, "prompt": prompt, "tokens_per_second": speed}
        for row, prompt, speeds in MEASURED
        for speed in speeds
    ]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr("sys.argv", ["real_pair.py", "--report", "--results", str(results), "--temperatures", "0.7"])
    real_pair.main()
    shown = capsys.readouterr().out.splitlines()
    assert shown[3:8] == [
        "| | merge | bug | median |",
        "|---|---|---|---|",
        "| llama.cpp, plain | 20.0 | 30.0 | 25.0 |",
        "| ours, plain | 25.0 |  | 25.0 |",
        "| ours, draft (default) | 45.0 | 60.0 | 52.5 |",
    ]
    assert shown[9:] == [
        "The default is 2.12 times the best row of llama.cpp in the median, 2.00 to 2.25.",
        "The default is 1.80 times plain in the median, 1.80 to 1.80.",
    ]
