"""The first hour with the pair that bench/common/real_models.py downloads: `make test-real`."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from tests.first_hour import conversation, evaluation, notebook
from tests.first_hour.tmux import Tmux, needs_tmux

import specdec_native as sd

if not os.environ.get("SPECDEC_REAL_MODELS"):
    pytest.skip("make test-real runs these", allow_module_level=True)
FOLDER = pathlib.Path(os.environ["SPECDEC_REAL_MODELS"])
TARGET, DRAFT = FOLDER / "qwen2.5-coder-1.5b-q4_k_m.gguf", FOLDER / "qwen2.5-coder-0.5b-q4_k_m.gguf"
PAIR = ["-m", str(TARGET), "-md", str(DRAFT), "-c", "2048"]


@needs_tmux
def test_in_a_terminal(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    conversation.have(specdec, tmp_path, PAIR)


@needs_tmux
def test_a_talk(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Tmux(tmp_path, columns=100, rows=45) as terminal:
        chat = conversation.Conversation(terminal, [specdec, "chat", *PAIR, "--temp", "0", "-n", "200"])
        assert "template the model's own" in chat.introduction
        answer = chat.say("Who are you and who made you?")
        assert "Qwen" in answer and "Alibaba Cloud" in answer
        assert re.search(r"\d+ tokens, [\d.]+ tokens/s", answer)
        assert "def " in chat.say("Write a Python function that reverses a string, without an explanation.")
        assert "reverse" in chat.say("Give me only its name.")
        assert re.search(r"drafting (on: should give about|off except for trials)", chat.say("/stats"))
        terminal.press("C-d")
        terminal.wait(lambda screen: screen.endswith("\n$"))


def test_in_a_notebook(tmp_path: pathlib.Path) -> None:
    cells = [*notebook.COMMON, notebook.CHAT, notebook.CLOSE]
    outputs = dict(zip(cells, notebook.run(cells, tmp_path, TARGET, DRAFT), strict=True))
    notebook.check(outputs)
    assert "Qwen" in outputs[notebook.CHAT] and "Alibaba Cloud" in outputs[notebook.CHAT]


def test_as_an_evaluation() -> None:
    with sd.Generator(TARGET, DRAFT, max_sequences=4, n_ctx=256) as gen:
        evaluation.check(gen)
