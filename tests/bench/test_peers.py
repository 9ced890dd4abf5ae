"""bench/peers/peers.py: parsing of outputs, skipping of finished measurements, tables."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from bench.common import engines
from bench.peers import peers, peers_report

pytestmark = pytest.mark.quick

SPECULATIVE = """
decoded   49 tokens in    0.350 seconds, speed:  140.000 t/s
n_draft   = 4
n_predict = 49
n_drafted = 60
n_accept  = 33
"""


def line(row: str, round_: int, seconds: float, **changed: Any) -> dict[str, Any]:
    made = {"pair": "bundled", "row": row, "k": 4, "temperature": 0.8, "prompt": "novel", "round": round_, "tokens": 48}
    made |= {"threads": 2, "produced": 48, "seconds": seconds, "drafted": 50, "accepted": 20}
    return {**made, **changed}


def program(path: pathlib.Path, output: str, status: int = 0) -> None:
    path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}\nEND\nexit {status}\n")
    path.chmod(0o755)


def text(tmp_path: pathlib.Path) -> Any:
    return engines.Text(tmp_path / "t.gguf", tmp_path / "d.gguf", 4, tmp_path / "p.txt", 48, 0.8, 1, 2)


def test_outputs_of_llama_cpp(tmp_path: pathlib.Path) -> None:
    program(tmp_path / "llama-speculative-simple", SPECULATIVE)
    timing = engines.LlamaCpp(tmp_path).with_draft(text(tmp_path))
    assert (timing.tokens, timing.seconds, timing.drafted, timing.accepted) == (49, 0.35, 60, 33)
    program(
        tmp_path / "llama-completion",
        "x: sampling time =  30.00 ms\nx: prompt eval time =  99.00 ms /  12 tokens (\nx:  eval time =  470.00 "
        "ms /  47 runs (",
    )
    timing = engines.LlamaCpp(tmp_path).plain(text(tmp_path))
    assert timing.tokens == 47 and timing.seconds == pytest.approx(0.5)


@pytest.mark.parametrize(("output", "status", "message"), [("bad model", 1, "bad model"), ("nothing", 0, "n_predict")])
def test_a_failing_program_leaves_its_row_out(tmp_path: pathlib.Path, output: str, status: int, message: str) -> None:
    with pytest.raises(engines.Unavailable, match="is missing"):
        engines.LlamaCpp(tmp_path).with_draft(text(tmp_path))
    program(tmp_path / "llama-speculative-simple", output, status)
    with pytest.raises(engines.Unavailable, match=message):
        engines.LlamaCpp(tmp_path).with_draft(text(tmp_path))


def test_what_is_measured_is_not_measured_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "folder" / "results.jsonl"
    peers.Results(path).add(line("ours", 1, 0.5))
    again = peers.Results(path)
    assert again.has(line("ours", 1, 99.0))
    assert not any(
        again.has(line("ours", 1, 0.5, **{name: 1})) for name in ("k", "temperature", "prompt", "tokens", "threads")
    )
    assert not again.has(line("ours", 2, 0.5))


def test_tables(tmp_path: pathlib.Path) -> None:
    lines = [line("llama.cpp F16, draft", r, s) for r, s in ((0, 0.001), (1, 0.5), (2, 0.48), (3, 0.6))]
    lines += [line("llama.cpp F16", r, 0.96, k=0, drafted=0) for r in (1, 2, 3)] + [line("ours MXFP6, draft", 1, 0.24)]
    report = tmp_path / "report.md"
    report.write_text("mine\n<!-- begin: bench/peers/peers.py -->old<!-- end -->\nalso mine\n")
    peers_report.write_report(report, lines, ["bundled"], {("bundled", "ours"): "no memory"})
    written = report.read_text()
    assert written.startswith("mine\n") and written.endswith("also mine\n") and "old" not in written
    assert (
        "| llama.cpp F16, draft | 4 | 96.0 | 80.0 to 100.0 | 0.40 | 1.00 |" in written
    )  # the tuning round is not counted
    assert "| llama.cpp F16 |  | 50.0 | 50.0 to 50.0 |  | 0.52 |" in written
    assert "| ours MXFP6, draft | 4 | 200.0 | 200.0 to 200.0 | 0.40 | 2.08 |" in written
    assert "- ours: no memory" in written


def test_disk_and_memory_are_checked_first(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = peers.Models(tmp_path, tmp_path)
    monkeypatch.setattr(peers.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 20e9}))
    peers.check_space(["bundled", "1.1b", "1.1b@0.6"], models)
    with pytest.raises(SystemExit, match="31 GB more and 20 GB are free"):
        peers.check_space(["7b"], models)
    (tmp_path / "model").write_bytes(b"0" * 1000)
    peers.check_memory([tmp_path / "model"], 1.1)
    monkeypatch.setattr(peers, "available_memory", lambda: 1e9)
    with pytest.raises(engines.Unavailable, match="of memory"):
        peers.check_memory([tmp_path / "model"], 1.1)
