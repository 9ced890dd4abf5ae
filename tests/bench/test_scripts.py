"""The scripts and programs of bench/ in their shortest form: each runs to its end and prints its table.

Figures of so few tokens mean nothing, so only rows and columns are compared. Scripts with tests of their own:
bench.cycle.cycle_profile (test_cycle_profile.py), bench.serve.serve_load (tests/server/test_load.py) and
bench.device.measure (tests/gpu/test_measure.py).
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from bench.common.real_models import PAIR
from bench.peers import peers_plot
from tests.models.tiny_models import Shape, make

ROOT = pathlib.Path(__file__).parents[2]
NUMBER = r"\d+(?:\.\d+)?"

# Script: options, programs of bench/ that it starts, the first cells of its rows, the columns of its table.
Script = tuple[str, list[str], list[str], int]
SCRIPTS: dict[str, Script] = {
    "bench.acceptance.acceptance": ("--strengths 0.1 0 --seeds 1 --tokens 4", [], ["0.1", "0"], 2),
    "bench.batch.batch": (
        "--target same-target --draft same-draft --sequences 1 2 --lengths 1 --tokens 4 --rounds 1 --models {folder}",
        [],
        ["1", "2"],
        13,
    ),
    "bench.constraints.masks": (
        "--build {build} --pair {target} {draft} --tokens 4 --rounds 1",
        ["bench_masks"],
        ["0", "3", "7"],
        5,
    ),
    "bench.copies.editing": (
        "--pair {target} {draft} --prompts code --only bisect queue --tokens 8",
        [],
        ["bisect", "queue", "median"],
        6,
    ),
    "bench.cycle.cycles": (
        "--build {build} --tokens 4 --k 3 --rounds 1 --models {folder}",
        [],
        ["F16", "MXFP6", "F16", "MXFP6"],
        11,
    ),
    "bench.cycle.python_overhead": ("--build {build} --tokens 8 --rounds 1", [], ["0.0", "0.8"], 6),
    "bench.serve.keystrokes": (
        "--build {build} --target {target} --draft {draft} --tokens 150 --keys 3 --per-second 20 --rounds 1",
        [],
        ["1"],
        7,
    ),
    "bench.draft_length.draft_length": (
        "--build {build} --pairs bundled --texts novel:0.8 --tokens 4 --rounds 1 --k 0 1 "
        "--results {folder}/lines --models {folder}",
        [],
        ["bundled", "bundled"],
        10,
    ),
    "bench.loading.loading": (
        "{folder}/{pair[0]}.gguf {folder}/{pair[1]}.gguf --specdec {build}/specdec --rounds 1",
        [],
        [],
        4,
    ),
    "bench.long_text.times": (
        "--build {build} {target} {draft} --prompts 32 --windows 64 --rounds 1",
        [],
        ["32"],
        11,
    ),
    "bench.memory.memory": (
        "--build {build} --target {target} --draft {draft} --megabytes 85 --prompts story --rounds 1 --tokens 4 "
        "--no-limit",
        [],
        ["85"],
        6,
    ),
    "bench.passes.passes": (
        "--build {build} --types Q8_0 --small --rows ours --tokens 1 2 --rounds 2 --models {folder}",
        ["bench_passes", "bench_llama_quantize"],
        ["0.35b-Q8_0, ours", "0.35b-Q8_0, ours, as a draft", "0.35b-Q8_0, ours, --no-repack"],
        4,
    ),
    "bench.pictures.pictures": (
        "--build {build} --target {target} --draft {draft} --encoders tiny --rounds 1",
        [],
        ["tiny"],
        7,
    ),
    "bench.products.stock_types": (
        "--build {build} --types Q4_K --k 256 --rounds 1 --threads 1",
        ["bench_matmul"],
        ["Q4_K"],
        9,
    ),
    "bench.quality.quality": (
        "--specdec {build}/specdec --llama-quantize {build}/bench/bench_llama_quantize --model {tiny} --share 0.005 "
        "--calibration 1",
        ["bench_llama_quantize"],
        ["F16", "Q8_0", "Q6_K", "MXFP6 E2M3 ocp", "MXFP6 E2M3 mse", "MXFP6 E2M3 calibrated"],
        9,
    ),
    "bench.trees.simulated": (
        "--build {build} --target {target} --draft {draft} --worlds disk --prompts story --temperatures 0 --tokens 6",
        ["bench_trees"],
        ["story, 0"],
        4,
    ),
    "bench.trees.children": (
        "--target {target} --draft {draft} --prompts story --tokens 6 --seeds 1 --most 2 --weights 0 1",
        [],
        ["prose (6 places), 0", "prose (6 places), 1"],
        5,
    ),
    "bench.trees.together": (
        "--target {target} --draft {draft} --sizes 0 8 --prompts story letter --temperatures 0 --rounds 1 --tokens 4",
        [],
        ["0"],
        3,
    ),
    "bench.trees.trees": (
        "--build {build} --target {target} --draft {draft} --sizes 0 8 --prompts story --temperatures 0 --tokens 4 "
        "--megabytes 85",
        [],
        ["story, 0"],
        3,
    ),
    "bench.real_pair.real_pair": (
        "--build {build} --models {folder} --results {folder}/lines --prompts merge --rows plain default --tokens 4 "
        "--temperatures 0 --rounds 1 --threads 1",
        [],
        ["ours, plain", "ours, draft (default)"],
        3,
    ),
}


def run(*command: str | pathlib.Path) -> str:
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def built_program(specdec: pathlib.Path, name: str) -> pathlib.Path:
    path = specdec.parent / "bench" / name
    if not path.exists():
        pytest.skip("bench is not built (-DSPECDEC_BENCH=ON)")
    return path


@pytest.fixture
def folder(tmp_path: pathlib.Path, target_path: pathlib.Path, draft_path: pathlib.Path) -> pathlib.Path:
    """For what a script writes; with the bundled pair under the names of the real one."""
    for name, path in zip(PAIR, (target_path, draft_path), strict=True):
        (tmp_path / f"{name}.gguf").symlink_to(path)
    return tmp_path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model whose matrices have whole blocks of any type."""
    model = make("llama", shape=Shape(width=256, head=64, ffn=512, context=1024))
    return model.write(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(
    name: str,
    specdec: pathlib.Path,
    target_path: pathlib.Path,
    draft_path: pathlib.Path,
    folder: pathlib.Path,
    tiny: pathlib.Path,
) -> None:
    options, programs, rows, columns = SCRIPTS[name]
    for program in programs:
        built_program(specdec, program)
    places = {"build": specdec.parent, "target": target_path, "draft": draft_path, "tiny": tiny}
    places |= {"folder": folder, "pair": PAIR}
    out = run(sys.executable, "-m", name, *(option.format(**places) for option in options.split()))
    tables = [line.strip("|").split("|") for line in out.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in cells] for cells in tables if len(cells) == columns]
    heads = [i + 1 for i, cells in enumerate(table) if all(set(cell) <= set("-") and cell for cell in cells)]
    assert heads, out
    body = table[heads[-1] :]  # of the last one of that width
    assert body and all(re.search(NUMBER, cells[-1]) or re.search(NUMBER, cells[1]) for cells in body), out
    ours = [cells[0] for cells in body if not cells[0].startswith("llama.cpp")]  # its rows are there if it is built
    assert ours[: len(rows)] == rows, out


# Program: options, lines that it prints.
PROGRAMS = {
    "bench_attention": (
        "--shape 1.5b --threads 1 --cached 64 --n 1,2 --rounds 1 --stock 0",
        [r"^ +1 +\d", r"^ +2 +\d"],
    ),
    "bench_auto_constants": ("300 1 memory", [r"^\| memory = 0\.9 ( ?\| -?\d+\.\d, -?\d+){6} \|$"]),
    "bench_matmul": (
        "--threads 1 --k 256 --n 1,8 --mib 1 --rounds 1",
        [r"e2m3 int8, k = 256, 1 thread\(s\): read [\d.]+ GB/s", r"^ +1 +[\d.]+ ", r"^ +8 +[\d.]+ "],
    ),
    "bench_sampling": ("1000 2", [r"^\| greedy \| [\d.]+ \|$", r"^\| log_softmax of one token \| [\d.]+ \|$"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, specdec: pathlib.Path) -> None:
    options, lines = PROGRAMS[name]
    out = run(built_program(specdec, name), *options.split())
    for line in lines:
        assert re.search(line, out, re.MULTILINE), out


def test_peers_without_peers(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """bench.peers.peers with our own row; then bench.peers.peers_plot of what it wrote and a peer made up."""
    options = ["--build", specdec.parent, "--models", tmp_path, "--results", tmp_path / "lines"]
    options += ["--report", tmp_path / "report.md", "--rows", "ours F16", "--tokens", "8", "--prompts", "1"]
    run(sys.executable, "-m", "bench.peers.peers", "--quick", *options)
    report = (tmp_path / "report.md").read_text()
    assert "## bundled, temperature 0.8" in report and re.search(r"^\| ours F16, draft \|", report, re.MULTILINE)
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    drafts = [line for line in lines if line["row"].endswith(", draft")]
    for row in ("llama.cpp F16", "llama.cpp F16, draft"):
        lines += [line | {"row": row} for line in drafts]
    (point,) = peers_plot.points(lines, "bundled", ours=True)
    assert point.rate == peers_plot.DEFAULT_RATE and point.speedup == pytest.approx(1.0)  # the peer is our own row
    few, many = peers_plot.predicted(point, np.array([0.0, 1.0]))
    assert few < many
    pytest.importorskip("matplotlib")
    (tmp_path / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    plot = ["--size", "bundled", "--results", tmp_path / "lines", "--out", tmp_path / "peers.svg"]
    run(sys.executable, "-m", "bench.peers.peers_plot", *plot)
    assert (tmp_path / "peers.svg").read_text().count("</svg>") == 1


def test_recording_of_a_race(specdec: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    picture = tmp_path / "race.svg"
    command = ["bench.race.record_race", "--runs", "1", "--output", picture, "--specdec", specdec]
    out = run(sys.executable, "-m", *command, "-md", draft_path, "-p", "import", "-n", "16", "--temp", "0")
    assert " wins" in out
    assert "import" in picture.read_text(encoding="utf-8")


def test_models_that_scripts_share(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = ["--build", specdec.parent, "--models", tmp_path, "--types", "f16", "mxfp6"]
    out = run(sys.executable, "-m", "bench.common.wide_models", "same-accept0.8", *options)
    assert out.split() == [str(tmp_path / f"same-accept0.8-{type}.gguf") for type in ("f16", "mxfp6")]
    run(sys.executable, "-m", "bench.common.shapes", "tiny", tmp_path / "tiny.gguf")
    assert (tmp_path / "tiny.gguf").read_bytes().startswith(b"GGUF")
