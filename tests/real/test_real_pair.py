"""The pair that bench/common/real_models.py downloads: `make test-real`. Skipped unless SPECDEC_REAL_MODELS names
it."""

from __future__ import annotations

import os
import pathlib
import subprocess

import numpy as np
import pytest

import specdec_native as sd
from specdec_native import _core

if not os.environ.get("SPECDEC_REAL_MODELS"):
    pytest.skip("make test-real runs these", allow_module_level=True)
FOLDER = pathlib.Path(os.environ["SPECDEC_REAL_MODELS"])
TARGET, DRAFT = FOLDER / "qwen2.5-coder-1.5b-q4_k_m.gguf", FOLDER / "qwen2.5-coder-0.5b-q4_k_m.gguf"
PROMPT = "def binary_search(items, wanted):\n"


def test_greedy_text_is_the_same_with_and_without_a_draft() -> None:
    options: sd.StreamOptions = {"max_tokens": 48, "temperature": 0.0}
    drafted = sd.Generator(TARGET, DRAFT, n_ctx=512, num_draft_tokens=4).generate(PROMPT, **options)
    alone = sd.Generator(TARGET, n_ctx=512).generate(PROMPT, **options)
    assert drafted.text == alone.text
    assert drafted.stats.accepted > 0 and alone.stats.drafted == 0


@pytest.mark.parametrize("path", [TARGET, DRAFT], ids=["1.5b", "0.5b"])
def test_logits_do_not_depend_on_how_a_text_is_cut_into_passes(path: pathlib.Path) -> None:
    tokens = [int(token) for token in np.random.default_rng(1).integers(100, 20_000, 72)]
    expected = _core.evaluate(str(path), tokens, [1], 2, "f16")
    for sizes in ([72], [8], [3, 65]):
        assert (_core.evaluate(str(path), tokens, sizes, 2, "f16") == expected).all(), sizes


def test_chat_has_the_system_prompt_of_the_models_template(specdec: pathlib.Path) -> None:
    command = [specdec, "chat", "-m", TARGET, "--temp", "0", "-n", "60", "-c", "1024"]
    question = "Who are you and who made you?\n"
    answer = subprocess.run(command, input=question, capture_output=True, text=True, check=True).stdout
    assert "Qwen" in answer and "Alibaba Cloud" in answer
