"""bench.cycle.cycle_profile finds the cycles of the program as it is."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from bench.cycle import cycle_profile

ROOT = pathlib.Path(__file__).parents[2]
PERF = ["perf", "record", "-q", "-o", "-", "true"]


def test_layers_of_a_cycle() -> None:
    """A frame counts for the innermost layer; compute threads and what is outside of cycles do not count."""
    inside = ["specdec::Decoder::cycle", "specdec::Scheduler::cycle", "specdec::Executor::work"]
    assert cycle_profile.classify(inside) == ("the loop", "target")
    drafting = ["llama_decode", "specdec::DraftModelProposer::extend", *inside]
    assert cycle_profile.classify(drafting) == ("batches and cells", "draft")
    assert cycle_profile.classify(["ggml_barrier", "ggml_graph_compute_thread"]) is None
    assert cycle_profile.classify(["llama_decode", "specdec::Executor::work"]) is None


def test_the_shortest_run(specdec: pathlib.Path) -> None:
    try:
        subprocess.run(PERF, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("perf is not there or may not sample")
    command = [sys.executable, "-m", "bench.cycle.cycle_profile", "--build", str(specdec.parent), "--temperatures", "0"]
    command += ["--tokens", "40", "--runs", "1", "--frequency", "400"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "truncated stacks" in finished.stderr:
        pytest.skip(finished.stderr)
    assert finished.returncode == 0, finished.stderr
    assert re.search(r"ms and \d+\.\d\d tokens per cycle; [1-9]\d* samples", finished.stdout)
    rows = dict(re.findall(r"^\| ([^|]+) \|.* (\d+\.\d\d) % \|$", finished.stdout, re.MULTILINE))
    assert set(cycle_profile.LAYERS) <= set(rows)
    assert abs(sum(float(rows[layer]) for layer in cycle_profile.LAYERS) - 100) < 0.1
