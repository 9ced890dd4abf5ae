"""Half a minute of `make soak` (SOAK_SECONDS: another time; two minutes in .ci/run), and that it notices wrong
texts."""

from __future__ import annotations

import os
import sys

import pytest

from soak import Soak


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory from /proc")
def test_texts_and_memory() -> None:
    soak = Soak(seed=1)
    soak.run(float(os.environ.get("SOAK_SECONDS", "30")), between=1.5)
    assert not soak.failures, soak.failures
    assert soak.growth() < 1.1  # many more values in `make soak`
    for what in ("whole texts", "cancelled", "generators closed while in use"):
        assert soak.counts[what] > 3, soak.counts


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory from /proc")
def test_wrong_texts_are_noticed() -> None:
    soak = Soak(seed=1)
    soak.expected = ["?"] * len(soak.expected)
    soak.run(20, between=1)
    assert any("alone '?'" in failure for failure in soak.failures)
