"""While models are loaded: llama.cpp's log in Python's logging, progress, Ctrl-C. Progress over many prompts, and what
is said of drafts."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import signal
import subprocess
import sys
import threading

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import make

import specdec_native as sd

pytestmark = pytest.mark.quick


def test_the_log_of_a_load(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="specdec_native"):
        sd.Generator(n_threads=1)
    lines = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "specdec_native"]
    assert any(level == logging.DEBUG and "general.architecture" in line for level, line in lines)
    assert {level for level, line in lines} == {logging.DEBUG}  # an application at INFO sees none of llama.cpp's lines
    assert not any("\n" in line for _, line in lines)


def test_errors_are_logged_also_when_loading_fails(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.gguf"
    source = pathlib.Path(sd.__file__).parents[2] / "models" / "stdlib-draft-f16.gguf"
    path.write_bytes(source.read_bytes().replace(b"tokenizer.ggml.merges", b"tokenizer.ggml.merged"))
    with caplog.at_level(logging.DEBUG, logger="specdec_native"), pytest.raises(sd.ModelError):
        sd.Generator(path)
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert any("error" in record.getMessage() for record in caplog.records)


def test_lines_come_while_the_models_are_loaded() -> None:
    """The log of a load takes part in what happens: its first lines are there before the last step begins."""
    seen: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(f"log {threading.current_thread().name} {record.getMessage()}")

    logger, handler = logging.getLogger("specdec_native"), Keep()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        sd.Generator(n_threads=1, progress=lambda step, share: seen.append(f"{step} {share}"))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    first_line = next(i for i, line in enumerate(seen) if "general.architecture" in line)
    assert first_line < next(i for i, line in enumerate(seen) if line.startswith("loading stdlib-draft")), seen
    assert all(line.split()[1] == threading.current_thread().name for line in seen if line.startswith("log "))


def test_progress_of_a_load(tmp_path: pathlib.Path) -> None:
    path = make("llama", seed=1).write(tmp_path / "tiny.gguf", GgmlType.Q4_0)
    calls: list[tuple[str, float]] = []
    sd.Generator(path, "suffix", progress=lambda step, share: calls.append((step, share)))
    steps = list(dict.fromkeys(step for step, _ in calls))
    named = ["loading tiny.gguf", "arranging the weights of tiny.gguf"]
    assert [step for step in steps if not step.startswith("reading")] == named
    for step in steps:
        shares = [share for name, share in calls if name == step]
        assert shares == sorted(shares) and shares[0] >= 0.0 and shares[-1] == 1.0


def test_progress_of_both_models_and_of_a_corpus(tmp_path: pathlib.Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("import os\n" * 50_000)  # longer than the 50 ms between two reports
    steps: dict[str, list[float]] = {}

    def add(step: str, share: float) -> None:
        steps.setdefault(step, []).append(share)

    sd.Generator(draft_corpus=corpus, n_threads=1, mmap=False, progress=add)
    assert list(steps) == [
        "loading stdlib-target-f16.gguf",
        "tokenizing the corpus",
        "indexing the corpus",
        "loading stdlib-draft-f16.gguf",
    ]
    shares = steps["tokenizing the corpus"]
    assert shares[0] == 0.0 and shares == sorted(shares) and shares[-1] < 1.0


def test_an_exception_of_the_callback_ends_the_load() -> None:
    class Enough(Exception):
        pass

    calls: list[str] = []

    def stop(step: str, share: float) -> None:
        calls.append(step)
        raise Enough

    with pytest.raises(Enough):
        sd.Generator(progress=stop)
    assert len(calls) == 1
    assert sd.Generator(n_threads=1).generate("import os\n", max_tokens=2).tokens


def test_control_c_ends_the_load() -> None:
    calls: list[str] = []

    def interrupt(step: str, share: float) -> None:
        calls.append(step)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        sd.Generator(progress=interrupt)
    assert len(calls) == 1


def test_a_bar_for_loading_and_many_prompts(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    gen = sd.Generator(n_threads=1, progress=True)
    assert "loading stdlib-target-f16.gguf" in capfd.readouterr().err
    gen.generate_many(["import os\n", "def f("], max_tokens=2, progress=True)
    assert "2/2" in capfd.readouterr().err
    gen.generate_many((prompt for prompt in ["import os\n"]), max_tokens=2, progress=True)
    assert "1prompt" in capfd.readouterr().err


def test_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r'progress=True needs tqdm: pip install "specdec_native\[progress\]"'):
        sd.Generator(progress=True)


def test_an_application_that_does_not_configure_logging_sees_nothing() -> None:
    code = "import specdec_native as sd; sd.Generator(n_threads=1).generate('a', max_tokens=2)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_warnings_show_the_callers_line(tmp_path: pathlib.Path) -> None:
    path = make("llama", seed=1).write(tmp_path / "tiny.gguf")
    with pytest.warns(RuntimeWarning, match="has no effect") as shown:
        gen = sd.Generator(path, n_gpu_layers=1)
    with pytest.warns(RuntimeWarning, match="begins with the BOS token") as of_prompt:
        gen.generate("<bos>x", max_tokens=1)
    assert [one.filename for one in [*shown, *of_prompt]] == [__file__, __file__]


def test_progress_over_many_prompts() -> None:
    calls: list[int] = []
    requests = ["import os\n", "", "def f(", "class A:"]  # the second one fails
    completions = sd.Generator(max_sequences=2, n_threads=1).generate_many(
        requests, max_tokens=4, progress=calls.append
    )
    assert calls == [1] * len(requests)
    assert [completion.error is None for completion in completions] == [True, False, True, True]


def test_the_sentence_about_drafts() -> None:
    gen = sd.Generator(n_threads=1)
    assert gen.drafting.startswith("undecided")
    gen.generate("import os\n", max_tokens=120, seed=1)
    assert gen.drafting.startswith(("on: should give about ", "off except for trials: would give at best "))
    gen.generate("import os\n", max_tokens=4, num_draft_tokens=2)
    assert gen.drafting.startswith("on: up to 2 per target call")
    gen.generate("import os\n", max_tokens=4, num_draft_tokens=0)
    assert gen.drafting == gen.stats.drafting == "off: the number of draft tokens is 0"
    assert sd.Stats().drafting == ""


def test_statistics_say_what_became_of_drafts(target_path: pathlib.Path) -> None:
    with sd.Generator(n_threads=1, max_sequences=2) as gen:
        measured = gen.generate("import os\n", max_tokens=120, seed=1).stats
        assert measured.drafting.startswith(("on: should", "off except for trials:"))
        fixed, none = gen.generate_many(
            [{"prompt": "import os\n", "num_draft_tokens": 2}, {"prompt": "x", "num_draft_tokens": 0}], max_tokens=8
        )
        assert fixed.stats.drafting.startswith("on: up to 2") and none.stats.drafting.startswith("off: the number")
        handle = gen.submit("import os\n", max_tokens=8, num_draft_tokens=3)
        assert handle.result().stats.drafting.startswith("on: up to 3")
        assert asyncio.run(gen.agenerate("x", max_tokens=4, num_draft_tokens=0)).stats.drafting.startswith(
            "off: the number"
        )
        assert isinstance(gen.drafting, str)  # also after submitted requests, and while they run
    with sd.Generator(target_path, n_threads=1) as alone:
        assert alone.generate("x", max_tokens=2).stats.drafting == "off: there is no draft"
