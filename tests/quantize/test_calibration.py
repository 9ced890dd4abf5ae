"""`specdec quantize --calibrate`: smaller output error at the same size for all architectures; independent of
threads."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
from tests.models.tiny_models import make

import specdec_native as sd


def run(specdec: pathlib.Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([specdec, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def quantize(specdec: pathlib.Path, source: pathlib.Path, out: pathlib.Path, *options: object) -> dict:
    finished = run(specdec, "quantize", "--json", "-t", 1, *options, source, out)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def divergence(specdec: pathlib.Path, model: pathlib.Path, reference: pathlib.Path, text: pathlib.Path) -> float:
    finished = run(specdec, "perplexity", "--json", "-t", 1, "-c", 128, model, "--against", reference, "-f", text)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)["kl_divergence"]["mean"]


@pytest.fixture
def text(tmp_path: pathlib.Path, library_prompts: list[str]) -> pathlib.Path:
    path = tmp_path / "calibration.txt"
    path.write_text("\n".join(library_prompts[:12]), encoding="utf-8")
    return path


@pytest.fixture
def other_text(tmp_path: pathlib.Path, library_prompts: list[str]) -> pathlib.Path:
    path = tmp_path / "other.txt"
    path.write_text("\n".join(library_prompts[20:]), encoding="utf-8")
    return path


def test_the_bundled_draft_comes_closer(specdec, draft_path, tmp_path, text, other_text) -> None:
    plain = quantize(specdec, draft_path, tmp_path / "plain.gguf")
    calibrated = quantize(specdec, draft_path, tmp_path / "calibrated.gguf", "--calibrate", text)
    assert calibrated["output_bytes"] <= plain["output_bytes"] + 32  # the same except for a line of metadata
    assert calibrated["relative_error"] > plain["relative_error"]  # of the weights; the outputs are what counts
    assert {tensor["output_error"] for tensor in plain["tensors"]} == {None}
    for tensor in calibrated["tensors"]:
        kept = tensor["kept_because"] is not None
        assert kept == (tensor["output_error"] is None)
        assert kept or 0 < tensor["output_error"] < 0.04
    before, after = (
        divergence(specdec, tmp_path / f"{name}.gguf", draft_path, other_text) for name in ("plain", "calibrated")
    )
    assert after < 0.75 * before


def test_threads_do_not_matter(specdec, draft_path, tmp_path, text) -> None:
    for threads in (1, 2):
        quantize(specdec, draft_path, tmp_path / f"{threads}.gguf", "--calibrate", text, "-t", threads)
    assert (tmp_path / "1.gguf").read_bytes() == (tmp_path / "2.gguf").read_bytes()


@pytest.mark.parametrize("name", ["llama", "moe", "tied"])
def test_architectures(specdec, tmp_path, text, name: str) -> None:
    """Experts have their own moments; a tied embedding has those of the output."""
    source = make({"llama": "llama", "moe": "qwen3moe", "tied": "gemma2"}[name]).write(tmp_path / "in.gguf")
    out = tmp_path / "out.gguf"
    report = quantize(specdec, source, out, "--calibrate", text)
    unmeasured = [t["name"] for t in report["tensors"] if t["kept_because"] is None and t["output_error"] is None]
    assert unmeasured == ([] if name == "tied" else ["token_embd.weight"])  # only looked up, never multiplied
    plain = tmp_path / "plain.gguf"
    quantize(specdec, source, plain)
    assert divergence(specdec, out, source, text) < divergence(specdec, plain, source, text)


def test_the_table_and_the_metadata(specdec, draft_path, tmp_path, text) -> None:
    finished = run(specdec, "quantize", "-t", 1, draft_path, tmp_path / "out.gguf", "--calibrate", text)
    assert finished.returncode == 0
    assert "error, of outputs, or why kept" in finished.stdout
    shown = json.loads(run(specdec, "info", "--json", "--metadata", tmp_path / "out.gguf").stdout)
    assert "MXFP6_E2M3, error feedback, " in json.dumps(shown)


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "cannot be opened"),
        (b"\xff\xfe", "UTF-8"),
        (b"", "the calibration text has 1 tokens, but at least 512 are needed; give a longer text"),
        (b"import os\n" * 100, "tokens, but at least 512 are needed"),
    ],
)
def test_bad_texts(specdec, draft_path, tmp_path, content, message) -> None:
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    finished = run(specdec, "quantize", draft_path, tmp_path / "out.gguf", "--calibrate", path)
    assert finished.returncode in (1, 2) and message in finished.stderr
    assert not (tmp_path / "out.gguf").exists()


def test_a_short_text_gets_a_warning(specdec, draft_path, tmp_path) -> None:
    """512 tokens are needed, 10000 better."""
    path = tmp_path / "text.txt"
    model = sd.Generator(target=draft_path, n_threads=1)
    for lines, is_short in ((400, True), (6000, False)):
        path.write_text("import os\n" * lines)
        tokens = len(model.tokenize(path.read_text()[:-1]))
        assert (tokens < 10000) == is_short and tokens >= 512
        command = [
            "quantize",
            "--keep",
            "blk",
            "-t",
            1,
            draft_path,
            tmp_path / "out.gguf",
            "--force",
            "--calibrate",
            path,
        ]
        finished = run(specdec, *command)
        assert finished.returncode == 0
        warning = f"warning: {path} has only {tokens} tokens, so weights may fit this text only"
        assert finished.stderr.startswith(warning) == is_short and (finished.stderr == "") != is_short
