"""`specdec bench`: consistent numbers, checks of files and memory before the start, no temporary files left."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.cli.test_quantize import zeros
from tests.models.mxfp6_files import quantize
from tests.models.tiny_models import Vocabulary, make

import specdec_native as sd

QUICK = ["-p", "def bfs(graph, start):", "-n", "24", "-t", "1", "-s", "7", "-k", "3"]
FILE_ONLY = ["F16", "F16 + speculation"]
WITH_MXFP6 = [*FILE_ONLY, "MXFP6", "MXFP6 + speculation"]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder for temporary files, which must be empty at the end."""
    path = tmp_path / "temporary"
    path.mkdir()
    return path


def run(
    specdec: pathlib.Path, folder: pathlib.Path, *arguments: object, code: int = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [str(specdec), "bench", *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(folder), **(env or {})}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert result.returncode == code, result.stderr
    assert list(folder.iterdir()) == []
    return result


def run_json(specdec: pathlib.Path, folder: pathlib.Path, *arguments: object) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run(specdec, folder, *arguments, "--json").stdout)
    return result


def names(result: dict[str, Any]) -> list[str]:
    return [mode["name"] for mode in result["modes"]]


# ---- Numbers


def check_consistent(result: dict[str, Any]) -> None:
    first = result["modes"][0]["tokens_per_second"]["median"]
    speeds = {mode["name"]: mode["tokens_per_second"]["median"] for mode in result["modes"]}
    passes = {file["name"]: file["pass_seconds"] for file in result["files"]}
    for mode in result["modes"]:
        speed = mode["tokens_per_second"]
        assert speed["median"] == pytest.approx(sorted(speed["rounds"])[len(speed["rounds"]) // 2])
        assert (speed["low"], speed["high"]) == (min(speed["rounds"]), max(speed["rounds"]))
        assert mode["speedup"] == pytest.approx(speed["median"] / first)
        stats = mode["stats"]
        assert stats["tokens"] > 0 and (stats["drafted"] > 0) == mode["speculation"]
        assert (stats["draft_calls"] > 0) == (mode["speculation"] and result["draft"]["path"] != "ngram")
        if not mode["speculation"]:
            assert mode["prediction"] is None and stats["tokens_per_target_call"] == 1.0
            continue
        prediction = mode["prediction"]
        assert prediction["measured_speedup"] == pytest.approx(speed["median"] / speeds[prediction["over"]])
        drafts = stats["drafted"] / stats["target_calls"]
        assert prediction["num_draft_tokens"] == pytest.approx(drafts)
        cycle, plain = prediction["predicted_cycle"], prediction["predicted_cycle_without"]
        assert cycle["draft"] == pytest.approx(drafts * result["draft"]["pass_seconds"])
        assert min(passes[mode["file"]]) <= cycle["target"] <= max(passes[mode["file"]])
        assert plain["target"] == passes[mode["file"]][0]
        by_hand = stats["tokens_per_target_call"] * plain["total"] / cycle["total"]
        assert prediction["predicted_speedup"] == pytest.approx(by_hand)
        measured = prediction["measured_cycle"]
        assert measured["total"] * stats["target_calls"] == pytest.approx(stats["seconds"])
        assert measured["total"] == pytest.approx(
            sum(measured[part] for part in ("draft", "target", "sampling", "rest"))
        )


def test_the_bundled_pair(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    result = run_json(specdec, folder, *QUICK, "-k", 3, "--repeat", 3, "--mxfp6", "auto")
    assert names(result) == WITH_MXFP6
    assert [len(file["pass_seconds"]) for file in result["files"]] == [4, 4]
    assert all(seconds > 0 for file in result["files"] for seconds in file["pass_seconds"])
    assert (result["interleaved"], result["rounds"], result["seed"], result["threads"]) == (True, 3, 7, 1)
    check_consistent(result)


def test_the_weights_that_the_target_has(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    """Nothing is quantized unless asked for: the pair as it is, e.g. as downloaded."""
    result = run_json(specdec, folder, *QUICK, "--repeat", 1)
    assert names(result) == FILE_ONLY
    assert len(result["files"]) == 1
    check_consistent(result)


def test_rounds_do_not_copy_from_each_other(
    specdec: pathlib.Path, folder: pathlib.Path, target_path: pathlib.Path
) -> None:
    options = [*QUICK, "--temp", 0, "-m", target_path, "-md", "suffix"]
    measured = run_json(specdec, folder, *options, "--repeat", 2)["modes"][1]["stats"]
    command = [str(specdec), "generate", *map(str, options), "--json"]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    alone = json.loads(lines[-1])["stats"]
    assert measured["tokens_per_target_call"] == pytest.approx(alone["tokens_per_target_call"])


def test_predicted_speedup_is_the_formula(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    result = run_json(specdec, folder, *QUICK[:4], "-t", 1, "--temp", 0, "-n", 25, "-k", 1, "--repeat", 1)
    mode = result["modes"][1]
    stats, seconds = mode["stats"], result["files"][0]["pass_seconds"]
    if stats["drafted"] == stats["target_calls"]:  # else the end of the text cut a draft
        rate = stats["tokens_per_target_call"] / 2
        expected = sd.sampling.predicted_speedup(rate, 1, result["draft"]["pass_seconds"], seconds[0], seconds[1])
        assert mode["prediction"]["predicted_speedup"] == pytest.approx(expected)
    assert stats["drafted"] >= stats["target_calls"] - 1


def test_other_files_one_after_another(specdec: pathlib.Path, folder: pathlib.Path, target_path: pathlib.Path) -> None:
    result = run_json(
        specdec, folder, *QUICK, "-k", 2, "--repeat", 1, "--also", target_path, "--sequential", "-md", "ngram"
    )
    other = "stdlib-target-f16"
    assert names(result) == [*FILE_ONLY, other, f"{other} + speculation"]
    assert not result["interleaved"]
    assert [len(file["pass_seconds"]) for file in result["files"]] == [3, 3]
    assert result["draft"] == {"path": "ngram", "pass_seconds": 0.0}
    check_consistent(result)


def test_a_file_in_mxfp6(
    specdec: pathlib.Path, folder: pathlib.Path, target_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    source = tmp_path / "model.gguf"
    shutil.copy(target_path, source)
    quantized = quantize(specdec, source)
    given = run_json(specdec, folder, *QUICK, "-k", 2, "--repeat", 1, "--mxfp6", quantized)
    assert names(given) == WITH_MXFP6
    assert given["files"][1]["path"] == str(quantized)
    alone = run_json(specdec, folder, *QUICK, "-k", 2, "--repeat", 1, "-m", quantized, "-md", "ngram")
    assert names(alone) == ["MXFP6", "MXFP6 + speculation"]
    rejected = run(specdec, folder, *QUICK, "-m", quantized, "-md", "ngram", "--mxfp6", quantized, code=2)
    assert "is MXFP6 already; leave --mxfp6 out" in rejected.stderr


def test_table(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    text = run(specdec, folder, *QUICK, "-k", 3, "--repeat", 2, "--mxfp6", "auto").stdout
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    verdict = (
        r"(Use this draft|This draft makes no difference|Do without this draft|No clear gain or loss): "
        r"\d+\.\d\d times the speed without it(, but the rounds overlap)?"
    )
    mode = r"^model +\S+\.gguf, 14\.\d MiB\nmodel .*\ndraft .*\nmachine +\S.*, kernels \w+\nprogram +specdec \d"
    assert re.search(mode, text, re.MULTILINE)
    assert re.fullmatch(verdict, lines[0]) and re.fullmatch(r"Fastest: .+, \d+\.\d\d times F16", lines[1])
    assert all(
        term in text
        for term in ("tokens/s", "speedup", "accepted", "tokens/call", "ms per pass of", "predicted", "measured")
    )
    rows = {}
    for name in WITH_MXFP6:
        row = re.compile(re.escape(name) + r" +([\d.]+) +([\d.]+) - ([\d.]+) +([\d.]+) +(-|0\.\d+) +([\d.]+)")
        (rows[name],) = [match for match in map(row.fullmatch, lines) if match]
    first = float(rows["F16"][1])
    for name, row in rows.items():
        assert float(row[2]) <= float(row[1]) <= float(row[3])
        assert float(row[4]) == pytest.approx(float(row[1]) / first, abs=0.02)
        assert (row[5] == "-") == ("speculation" not in name)
    assert re.search(r"^MXFP6: 0\.40 times the size of F16 \(5\.\d\d MiB, 14\.\d MiB\)$", text, re.MULTILINE)
    over = r"MXFP6 \+ speculation over MXFP6: speed predicted [\d.]+, measured [\d.]+ \(K [23][.,]"
    assert re.search(over, text) and not re.search(r"\dx\b", text)


# ---- Errors before the start


def test_too_little_memory(specdec: pathlib.Path, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    huge = zeros(tmp_path / "huge.gguf", 4096, 2**29)
    message = run(specdec, folder, *QUICK, "--also", huge, code=1).stderr
    assert re.search(r"huge \(.*huge.gguf\) needs 8.00 TiB of memory: weights 8.00 TiB, .*; .* are available", message)


def test_too_little_memory_for_the_context(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    meminfo = pathlib.Path("/proc/meminfo")
    if not meminfo.exists() or int(meminfo.read_text().split("MemAvailable:")[1].split()[0]) > 60 << 20:
        pytest.skip("this machine has room for it, or does not tell")
    message = run(specdec, folder, *QUICK, "-c", 16 << 20, code=1).stderr
    assert "needs 64.0 GiB of memory: weights 15.8 MiB, caches 64.0 GiB" in message and "-c" in message


def test_too_little_disk(specdec: pathlib.Path, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    huge = zeros(tmp_path / "huge.gguf", 4096, 2**29)
    if shutil.disk_usage(tmp_path).free > 1.5 * 2**40:
        pytest.skip("this disk is large enough")
    message = run(specdec, folder, *QUICK, "-m", huge, "-md", "ngram", "--mxfp6", "auto", code=1).stderr
    assert f"needs 1.56 TiB in {folder}, which has " in message
    assert "--mxfp6 FILE" in message and "leave --mxfp6 out" in message and "TMPDIR" in message


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-k", "0"], "nothing to compare with: -k 0 turns drafts off"),
        (["-md", "none"], "nothing to compare with: give a draft"),
        (["--repeat", "0"], "--repeat: expected a whole number from 1"),
        (["-n", "0"], "-n: expected a whole number from 1"),
        (["-p", ""], "the prompt is empty"),
        (["--sequental"], "did you mean --sequential?"),
    ],
)
def test_usage(specdec: pathlib.Path, folder: pathlib.Path, arguments: list[str], message: str) -> None:
    rejected = run(specdec, folder, *arguments, code=2)
    assert message in rejected.stderr and rejected.stdout == ""


def test_few_tokens_are_not_timed(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    rejected = run(specdec, folder, *QUICK, "-n", 7, code=2)
    assert "too few tokens to time; give a larger -n or more prompts, for at least 8 in all" in rejected.stderr
    ended = run(specdec, folder, *QUICK, "-n", -1, "-l", "0+1000", code=1)  # by the end-of-text token, at once
    assert "F16 generated only 1 token in a round: too few tokens to time; give more prompts" in ended.stderr
    assert rejected.stdout == ended.stdout == ""
    table = run(specdec, folder, "-p", "a =", "-p", "b =", "-n", 4, *QUICK[4:], "-l", "0-inf", "--repeat", 1).stdout
    assert "2 prompts of at most 4 tokens" in table
    assert "1 prompt without a token limit, " in run(specdec, folder, *QUICK, "-n", -1, "-c", 64, "--repeat", 1).stdout


def test_a_target_without_a_draft(
    specdec: pathlib.Path, folder: pathlib.Path, target_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert "give a draft (-md FILE" in run(specdec, folder, "-m", target_path, "-md", "none", code=2).stderr
    alone = shutil.copy(target_path, tmp_path / "target.gguf")
    assert run_json(specdec, folder, *QUICK, "-k", 2, "--repeat", 1, "-m", alone)["draft"]["path"] == "suffix"


def test_a_draft_larger_than_its_target(
    specdec: pathlib.Path, folder: pathlib.Path, target_path: pathlib.Path, draft_path: pathlib.Path
) -> None:
    warning = f"note: the draft {target_path} (15 MiB) is larger than the target {draft_path} (2 MiB)"
    swapped = ["-m", draft_path, "-md", target_path, *QUICK[2:]]
    assert run(specdec, folder, *swapped, "--repeat", 1).stderr.startswith(warning)
    command = [str(specdec), "generate", *map(str, swapped), "-p", "import"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr.startswith(warning)
    assert "larger than" not in run(specdec, folder, *QUICK, "--repeat", 1).stderr


# ---- Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interruption_leaves_nothing(specdec: pathlib.Path, folder: pathlib.Path, number: signal.Signals) -> None:
    command = [str(specdec), "bench", "-t", "1", "-n", "2000", "-l", "0-inf", "--mxfp6", "auto"]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        end = time.monotonic() + 60
        while not list(folder.glob("*/*")):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(number)
        process.send_signal(number)  # does not kill
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, b"")
    assert errors.endswith(b"specdec bench: interrupted\n")
    assert list(folder.iterdir()) == []


# ---- Plots


def plot_environment(*python_path: pathlib.Path) -> dict[str, str]:
    python = pathlib.Path(sys.executable)
    names = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    package = pathlib.Path(sd.__file__).parents[1]
    return {**names, "PYTHONPATH": os.pathsep.join(map(str, [*python_path, package]))}


def test_plot(specdec: pathlib.Path, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "a plot.png"
    run(specdec, folder, *QUICK, "-k", 2, "--repeat", 1, "--plot", path, env=plot_environment())
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert path.stat().st_size > 10_000
    rejected = run(specdec, folder, *QUICK, "--plot", tmp_path / "none" / "plot.png", env=plot_environment(), code=1)
    assert "none/plot.png: there is no folder" in rejected.stderr and rejected.stdout == ""
    rejected = run(specdec, folder, *QUICK, "--plot", path, env=plot_environment(), code=1)
    assert "a plot.png: exists already; name another file, or use --force" in rejected.stderr and rejected.stdout == ""


def test_a_plot_needs_matplotlib(specdec: pathlib.Path, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')")
    path = tmp_path / "plot.png"
    rejected = run(specdec, folder, *QUICK, "--plot", path, env=plot_environment(tmp_path), code=1)
    line = 'specdec bench: no plot: python3 needs matplotlib and specdec_native; pip install "specdec_native[plot]"\n'
    assert (rejected.stdout, rejected.stderr) == ("", line) and not path.exists()


def test_one_statistic_with_its_labels_inside(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    """However long the names are and however different the speeds."""
    pytest.importorskip("matplotlib")
    from specdec_native import plot

    result = run_json(specdec, folder, *QUICK, "-k", 2, "--repeat", 1)
    for fastest, slowest, name in ((100.0, 1.0, "F16 + speculation"), (1.0, 1.0, "a-name-of-twenty-let + speculation")):
        for mode, speed in zip(result["modes"], (slowest, fastest), strict=True):
            mode["tokens_per_second"] |= {"median": speed, "low": 0.9 * speed, "high": 1.1 * speed}
        result["modes"][1]["name"] = name
        figure = plot.figure_of(result)
        (axes,) = figure.axes
        figure.draw_without_rendering()
        area, labels = axes.get_window_extent(), [text.get_window_extent() for text in axes.texts]
        assert len(labels) == 2
        assert all(area.x0 <= label.x0 and label.x1 <= area.x1 + 1 for label in labels)
        assert axes.get_title(loc="left") == result["verdict"]
    (axes,) = plot.figure_of(result, times=True).axes
    assert axes.get_xlabel() == "milliseconds per token"


def test_questions_for_a_chat_model(specdec: pathlib.Path, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    draft = make("llama", seed=1).write(tmp_path / "draft.gguf")
    with_template = make("llama", seed=1, vocabulary=Vocabulary(chat_template=template))
    options = ["-md", draft, "-n", 40, "--repeat", 1, "-l", "0-inf", "-k", 2]
    plain = run(specdec, folder, "-m", draft, *options)
    assert "\n4 prompts of at most 40 tokens" in plain.stdout
    chat = run(specdec, folder, "-m", with_template.write(tmp_path / "chat.gguf"), *options)
    assert re.match(r"(Use|This|Do|No) .*\n\n(.+\n)+\n4 questions of at most 40 tokens", chat.stdout)
    given = run(specdec, folder, "-m", tmp_path / "chat.gguf", *options, "-p", "x", "-p", "y")
    assert "\n2 prompts of at most 40 tokens" in given.stdout
