"""The first hour with the bundled pair: in a terminal, in a notebook, and as an evaluation.

`make test-real` does the same with a real pair.
"""

from __future__ import annotations

import pathlib

from tests.first_hour import conversation, evaluation, notebook
from tests.first_hour.tmux import needs_tmux

import specdec_native as sd


@needs_tmux
def test_in_a_terminal(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    conversation.have(specdec, tmp_path, ["-t", "1"])


def test_in_a_notebook(tmp_path: pathlib.Path) -> None:
    cells = [*notebook.COMMON, notebook.NO_TEMPLATE, notebook.CLOSE]
    outputs = dict(zip(cells, notebook.run(cells, tmp_path), strict=True))
    notebook.check(outputs)
    assert "has no chat template" in outputs[notebook.NO_TEMPLATE]


def test_as_an_evaluation() -> None:
    with sd.Generator(max_sequences=4, n_threads=2) as gen:
        evaluation.check(gen)
