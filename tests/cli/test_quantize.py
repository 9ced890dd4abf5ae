"""`specdec quantize` as a command: usage, output paths, interruption, full disks, progress, the table."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import make

F32, Q8_0 = 0, 8


def run(specdec: pathlib.Path, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [specdec, "quantize", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, **options
    )


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def zeros(path: pathlib.Path, cols: int, rows: int, type: int = F32) -> pathlib.Path:
    """A model of one tensor of zeros; a sparse file, which takes no disk space on most file systems."""
    size = cols * rows * 4 if type == F32 else cols * rows // 32 * 34
    header = (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("general.architecture") + struct.pack("<I", 8) + text("llama")
    )
    header += text("a.weight") + struct.pack("<IQQIQ", 2, cols, rows, type, 0)
    try:
        with path.open("wb") as file:
            file.write(header)
            file.truncate(-(-len(header) // 32) * 32 + size)
    except OSError as error:
        pytest.skip(f"no sparse file of {size} bytes here: {error}")
    return path


@pytest.fixture
def small(tmp_path: pathlib.Path) -> pathlib.Path:
    return zeros(tmp_path / "in.gguf", 64, 32)


@pytest.fixture
def long(tmp_path: pathlib.Path) -> pathlib.Path:
    """Takes many seconds: 2^32 weights."""
    path = zeros(tmp_path / "in.gguf", 4096, 2**20)
    if shutil.disk_usage(tmp_path).free < 4 << 30:
        pytest.skip("needs 4 GB of free disk")
    return path


def files(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- Usage


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "give the model and the file to write"),
        (["in.gguf"], "give the model and the file to write"),
        (["in.gguf", "out.gguf", "more"], 'unexpected argument "more"'),
        (["in.gguf", "out.gguf", "--keep", "("], '--keep: "(" is not a regular expression'),
        (["in.gguf", "out.gguf", "--scale", "best"], "expected mse or ocp"),
        (["in.gguf", "out.gguf", "--threads", "0"], "expected a whole number from 1"),
        (["in.gguf", "out.gguf", "--forse"], "did you mean --force?"),
        (["in.gguf", "in.gguf", "--force"], "in.gguf is the input"),
        (["in.gguf", "same.gguf", "--force"], "same.gguf is the input"),
    ],
)
def test_usage(specdec, small, arguments, message):
    small.with_name("same.gguf").symlink_to(small)
    before = small.read_bytes()
    finished = run(specdec, *arguments, cwd=small.parent)
    assert finished.returncode == 2 and finished.stdout == ""
    assert message in finished.stderr and "Try 'specdec quantize --help'." in finished.stderr
    assert small.read_bytes() == before and files(small.parent) == ["in.gguf", "same.gguf"]


def test_help(specdec):
    finished = run(specdec, "--help")
    assert finished.returncode == 0 and finished.stderr == ""
    assert all(len(line) <= 80 for line in finished.stdout.splitlines())
    for option in ("--scale", "--keep", "--threads", "--force", "--allow-requantize", "--json"):
        assert option in finished.stdout


# ---- Paths


def test_an_existing_file_is_replaced_only_with_force(specdec, small):
    out = small.with_name("out.gguf")
    out.write_text("precious")
    finished = run(specdec, small, out)
    assert finished.returncode == 1 and "exists already" in finished.stderr and "--force" in finished.stderr
    assert out.read_text() == "precious"
    assert run(specdec, "--force", small, out).returncode == 0
    assert out.read_bytes()[:4] == b"GGUF"
    assert files(small.parent) == ["in.gguf", "out.gguf"]


def test_a_failure_keeps_the_file_that_was_to_be_replaced(specdec, small):
    out = small.with_name("out.gguf")
    out.write_text("precious")
    with small.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(struct.pack("<f", float("nan")))
    finished = run(specdec, "--force", small, out)
    assert finished.returncode == 1 and "has NaN at row 31, column 63" in finished.stderr
    assert out.read_text() == "precious" and files(small.parent) == ["in.gguf", "out.gguf"]


def test_a_symbolic_link_is_followed(specdec, small, tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.gguf", tmp_path / "link.gguf"
    real.write_text("old")
    link.symlink_to(real)
    assert run(specdec, "--force", small, link).returncode == 0
    assert link.is_symlink() and real.read_bytes()[:4] == b"GGUF"


def test_permissions_follow_the_umask(specdec, small):
    out = small.with_name("out.gguf")
    assert run(specdec, small, out, preexec_fn=lambda: os.umask(0o027)).returncode == 0
    assert out.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "out, message",
    [
        (".", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("none/out.gguf", "folder"),
        ("", "has no name"),
    ],
)
def test_impossible_outputs(specdec, small, out, message):
    finished = run(specdec, "--force", small, out, cwd=small.parent)
    assert (
        finished.returncode in (1, 2)
        and message in finished.stderr
        and finished.stderr.startswith("specdec quantize: ")
    )
    assert files(small.parent) == ["in.gguf"]


@pytest.mark.parametrize(
    "name, message", [("none.gguf", "no such file"), (".", "is a directory"), ("cut.gguf", "truncated")]
)
def test_impossible_inputs(specdec, small, name, message):
    small.with_name("cut.gguf").write_bytes(small.read_bytes()[:-1])
    finished = run(specdec, name, "out.gguf", cwd=small.parent)
    assert finished.returncode == 1 and message in finished.stderr
    assert files(small.parent) == ["cut.gguf", "in.gguf"]


# ---- Disk space


def test_a_disk_that_cannot_hold_the_result(specdec, tmp_path):
    needed = int(shutil.disk_usage(tmp_path).free * 1.1)
    rows = needed // (4096 * 25 // 32) // 16 * 16
    source = zeros(tmp_path / "in.gguf", 4096, rows, Q8_0)
    finished = run(specdec, source, tmp_path / "out.gguf")
    assert finished.returncode == 1
    assert re.search(r"the disk has \d+ bytes free, the result needs \d+", finished.stderr)
    assert files(tmp_path) == ["in.gguf"]


def test_a_file_size_limit(specdec, tmp_path):
    source = zeros(tmp_path / "in.gguf", 1024, 1024)
    limit = (100_000, 100_000)
    finished = run(
        specdec, source, tmp_path / "out.gguf", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    assert finished.returncode == 1 and "File too large" in finished.stderr
    assert files(tmp_path) == ["in.gguf"]


# ---- Interruption and progress


def wait_for(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interruption_leaves_nothing(specdec, long, number):
    out = long.with_name("out.gguf")
    process = subprocess.Popen(
        [specdec, "quantize", long, out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: list(long.parent.glob("out.gguf.partial-*")))
    assert not out.exists(), "the result appears when it is complete"
    time.sleep(0.2)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stdout == "" and stderr == "specdec quantize: interrupted, nothing was written\n"
    assert files(long.parent) == ["in.gguf"]


def test_a_killed_run_leaves_nothing_to_the_next(specdec, long):
    """Nor does a stopped one: its temporary file belongs to a process that lives."""
    out, small = long.with_name("out.gguf"), zeros(long.with_name("small.gguf"), 64, 64)

    def start():
        process = subprocess.Popen([specdec, "quantize", long, out], stdout=subprocess.DEVNULL)
        name = f"out.gguf.partial-{process.pid}"
        wait_for(lambda: name in files(long.parent))
        return process, name

    killed, left = start()
    killed.kill()
    killed.wait()
    assert left in files(long.parent)
    stopped, alive = start()
    stopped.send_signal(signal.SIGSTOP)
    assert files(long.parent) == ["in.gguf", alive, "small.gguf"]
    subprocess.run([specdec, "quantize", small, out], stdout=subprocess.DEVNULL, check=True)
    assert files(long.parent) == ["in.gguf", "out.gguf", alive, "small.gguf"]
    stopped.kill()
    stopped.wait()
    subprocess.run([specdec, "quantize", "--force", small, out], stdout=subprocess.DEVNULL, check=True)
    assert files(long.parent) == ["in.gguf", "out.gguf", "small.gguf"]


def test_an_ignored_hangup_stays_ignored(specdec, long):
    command = ["nohup", specdec, "quantize", long, long.with_name("out.gguf")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: list(long.parent.glob("out.gguf.partial-*")))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130


def test_progress_on_a_terminal(specdec, long):
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [specdec, "quantize", long, long.with_name("out.gguf")], stdout=subprocess.PIPE, stderr=terminal
    )
    os.close(terminal)
    seen = b""
    while seen.count(b"left") < 3:
        seen += os.read(controller, 4096)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    os.close(controller)
    shown = seen.decode().split("\r")[1:-1]
    for line in shown:  # without an estimate at first
        assert re.match(r" +\d+ %(, (\d+ min )?\d+ s left)?, tensor 1 of 1: a.weight\x1b\[K", line)


# ---- The table


def test_table(specdec, target_path, tmp_path):
    finished = run(specdec, target_path, tmp_path / "a.gguf")
    assert finished.returncode == 0 and finished.stderr == ""
    lines = finished.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert re.fullmatch(r"token_embd.weight +F16 +MXFP6_E2M3 +819200  \d\.\d\d %", lines[1])
    assert re.fullmatch(r"output_norm.weight +F32 +kept +1024  1 dimension", lines[2])
    assert lines[-3] == "total  14697472 -> 5751808 bytes, 0.39 times the size, 6.27 bits per weight"
    assert re.fullmatch(r"error  2\.\d\d % of the quantized weights \(RMS\)", lines[-2])
    assert lines[-1] == "reader only specdec_native; keep IN for llama.cpp, Ollama and other programs"


def test_weights_that_were_quantized_before(specdec, tmp_path):
    path = make("llama").write(tmp_path / "m.gguf", GgmlType.Q4_0)
    last = run(specdec, "--allow-requantize", path, tmp_path / "a.gguf").stdout.splitlines()[-2]
    assert re.fullmatch(
        r"note   requantized from Q4_0: costs 1\.31 times the size and the error above, on top of that of Q4_0; "
        r"gains passes over several tokens that take little longer than one, which drafts need "
        r"\(`specdec bench -m IN -md DRAFT --mxfp6 OUT` measures it\)",
        last,
    )


def test_json_agrees_with_info(specdec, target_path, tmp_path):
    out = tmp_path / "a.gguf"
    report = json.loads(run(specdec, "--json", target_path, out).stdout)
    info = json.loads(subprocess.run([specdec, "info", "--json", out], capture_output=True, check=True).stdout)
    assert report["input_bytes"] == target_path.stat().st_size and report["output_bytes"] == out.stat().st_size
    assert report["parameters"] == info["parameters"]
    assert report["relative_size"] == pytest.approx(0.39, abs=0.01)
    assert report["bits_per_weight"] == pytest.approx(info["bits_per_weight"])
    columns = [(row["name"], row["to"], row["shape"], row["bytes"]) for row in report["tensors"]]
    assert columns == [(row["name"], row["type"], row["shape"], row["bytes"]) for row in info["tensors"]]
