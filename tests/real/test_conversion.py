"""From safetensors to F16 to MXFP6, as docs/models.md has it, with llama.cpp's own script: `make convert-check`.

Skipped unless SPECDEC_CONVERT is the Python of an environment with requirements/convert.txt.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import specdec_native as sd

PYTHON = os.environ.get("SPECDEC_CONVERT", "")
if not PYTHON:
    pytest.skip("make convert-check runs these", allow_module_level=True)
ROOT = pathlib.Path(__file__).parents[2]


def run(*command: object) -> str:
    result = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


@pytest.fixture(scope="module")
def llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The pinned source, with the Python parts, which the build does not unpack."""
    sys.path.insert(0, str(ROOT / "third_party" / "llama.cpp"))
    import fetch

    folder = tmp_path_factory.mktemp("llama.cpp")
    fetch.unpack(fetch.download(folder), folder / "source", ("conversion", "gguf-py"), ("convert_hf_to_gguf.py",))
    return folder / "source"


def test_from_safetensors_to_mxfp6(specdec: pathlib.Path, llama_cpp: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder, f16, mxfp6 = tmp_path / "tiny", tmp_path / "tiny-f16.gguf", tmp_path / "tiny-mxfp6.gguf"
    expected: dict[str, Any] = json.loads(
        run(PYTHON, ROOT / "tests" / "real" / "checkpoint.py", folder, ROOT / "README.md")
    )
    assert len(list(folder.glob("*.safetensors"))) > 1
    run(PYTHON, llama_cpp / "convert_hf_to_gguf.py", folder, "--outtype", "f16", "--outfile", f16)
    with sd.Generator(f16, n_ctx=64) as gen:
        assert gen.tokenize(expected["sentence"]) == expected["tokens"]
        assert list(gen.score(expected["sentence"]).logprobs)[1:] == pytest.approx(expected["logprobs"], abs=0.05)

    assert "0.39 times the size" in run(specdec, "quantize", f16, mxfp6)
    with sd.Generator(mxfp6, f16, n_ctx=64, num_draft_tokens=3) as gen:
        score = list(gen.score(expected["sentence"]).logprobs)[1:]
        pairs = zip(score, expected["logprobs"], strict=True)
        mean_error = sum(abs(a - b) for a, b in pairs) / len(score)  # type: ignore[operator]
        assert mean_error < 0.5  # of another text it would be some nats
        output = gen.generate(expected["sentence"], max_tokens=24, temperature=0)
        assert output.stats.accepted > 0
    command = [
        specdec,
        "generate",
        "-m",
        mxfp6,
        "-md",
        f16,
        "-p",
        expected["sentence"],
        "-n",
        24,
        "--temp",
        0,
        "--no-display-prompt",
    ]
    assert run(*command) == output.text
