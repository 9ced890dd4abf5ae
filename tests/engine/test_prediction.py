"""A prediction of the output makes it come faster, and cannot change it."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest

import specdec_native as sd

PROMPT = "def bfs(graph, start):"
SOURCES: dict[str, dict[str, Any]] = {
    "none": {"draft": None},
    "suffix": {"draft": "suffix"},
    "model": {"suffix": False},
    "both": {},
}


@pytest.fixture(scope="module", params=SOURCES)
def gen(request: pytest.FixtureRequest, target_path: pathlib.Path, draft_path: pathlib.Path) -> sd.Generator:
    return sd.Generator(target_path, **{"draft": draft_path, **SOURCES[request.param]}, n_threads=1)


def test_a_prediction_does_not_change_the_output(gen: sd.Generator) -> None:
    for options in ({"temperature": 0}, {"seed": 3}, {"seed": 4, "temperature": 1.2, "top_k": 0}):
        common: dict[str, Any] = {"max_tokens": 48, **options}
        plain = gen.generate(PROMPT, **common)
        assert plain.stats.drafted_predicted == 0
        for prediction in (plain.text, plain.text[:40] + "zq" + plain.text[40:], "nothing of it", "x" * 300):
            for k in (5, "auto"):
                again = gen.generate(PROMPT, **common, prediction=prediction, num_draft_tokens=k)
                assert again.text == plain.text
                assert again.stats.accepted_predicted <= again.stats.accepted_copies


def test_a_right_prediction_takes_few_passes(gen: sd.Generator) -> None:
    plain = gen.generate(PROMPT, max_tokens=48, temperature=0, num_draft_tokens=0)
    again = gen.generate(PROMPT, max_tokens=48, temperature=0, num_draft_tokens=15, prediction=plain.text)
    assert again.text == plain.text and again.stats.accepted_copies > 40  # of earlier outputs, too
    assert 3 * again.stats.target_calls < plain.stats.target_calls
    assert any(piece.draft_source in ("prediction", "suffix") for piece in again.pieces)


def test_an_edit_of_the_prediction(gen: sd.Generator) -> None:
    """After a place that differs it goes on."""
    plain = gen.generate(PROMPT, max_tokens=60, temperature=0, num_draft_tokens=0)
    tokens = plain.tokens
    edited = gen.detokenize(tokens[:20]) + " other words " + gen.detokenize(tokens[22:])
    again = gen.generate(PROMPT, max_tokens=60, temperature=0, num_draft_tokens=15, prediction=edited)
    assert again.text == plain.text and again.stats.accepted_copies > 30


def test_the_command_line(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = [specdec, "generate", "-p", PROMPT, "-n", "48", "--temp", "0", "-k", "15", "--json"]
    run = subprocess.run(command, capture_output=True, check=True, text=True)
    text = "".join(json.loads(line)["text"] for line in run.stdout.splitlines()[:-1])
    (tmp_path / "text").write_text(text)
    run = subprocess.run([*command, "--prediction", tmp_path / "text"], capture_output=True, check=True, text=True)
    *pieces, end = map(json.loads, run.stdout.splitlines())
    assert "".join(piece["text"] for piece in pieces) == text and end["stats"]["accepted_predicted"] > 40
    missing = subprocess.run([*command, "--prediction", tmp_path / "missing"], capture_output=True, text=True)
    assert missing.returncode != 0 and "missing" in missing.stderr
