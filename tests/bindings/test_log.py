"""llama.cpp's log in Python's logging, and progress over many prompts."""

from __future__ import annotations

import logging
import pathlib
import subprocess
import sys

import pytest

import specdec_native as sd


def test_the_log_of_a_load(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="specdec_native"):
        sd.Generator(n_threads=1)
    lines = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "specdec_native"]
    assert any(level == logging.INFO and "general.architecture" in line for level, line in lines)
    assert not any("\n" in line for _, line in lines)


def test_errors_are_logged_also_when_loading_fails(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.gguf"
    source = pathlib.Path(sd.__file__).parents[2] / "models" / "stdlib-draft-f16.gguf"
    path.write_bytes(source.read_bytes().replace(b"tokenizer.ggml.merges", b"tokenizer.ggml.merged"))
    with caplog.at_level(logging.DEBUG, logger="specdec_native"), pytest.raises(sd.ModelError):
        sd.Generator(path)
    assert any(record.levelno == logging.ERROR for record in caplog.records)


def test_an_application_that_does_not_configure_logging_sees_nothing() -> None:
    code = "import specdec_native as sd; sd.Generator(n_threads=1).generate('a', max_tokens=2)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_progress_over_many_prompts() -> None:
    calls: list[int] = []
    requests = ["import os\n", "", "def f(", "class A:"]  # the second one fails
    completions = sd.Generator(max_sequences=2, n_threads=1).generate_many(requests, max_tokens=4, progress=calls.append)
    assert calls == [1] * len(requests)
    assert [completion.error is None for completion in completions] == [True, False, True, True]


def test_the_sentence_about_drafts() -> None:
    gen = sd.Generator(n_threads=1)
    assert gen.drafting.startswith("undecided")
    gen.generate("import os\n", max_tokens=120, seed=1)
    assert gen.drafting.startswith(("on: should give about ", "off but for trials: would give at best "))
    gen.generate("import os\n", max_tokens=4, num_draft_tokens=2)
    assert gen.drafting.startswith("on: up to 2 per target call")
    gen.generate("import os\n", max_tokens=4, num_draft_tokens=0)
    assert gen.drafting == "off: the number of draft tokens is 0"
