"""A sample of the files that `make fuzz` tries, chosen by a fixed seed."""

from __future__ import annotations

import pathlib

import hostile_models


def test_no_changed_model_ends_the_process(tmp_path: pathlib.Path) -> None:
    outcomes, findings = hostile_models.run(300, seed=0, keep=tmp_path)
    assert not findings, (findings, f"the files are in {tmp_path}")
    assert sum(outcomes.values()) == 300
    assert outcomes["ran"] > 30 and outcomes["ModelError"] > 100  # both kinds were among them
