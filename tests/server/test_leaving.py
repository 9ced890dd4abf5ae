"""A short run of tests/server/leaving.py."""

from __future__ import annotations

import pathlib
import sys

import pytest
from tests.server import leaving


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_clients_that_leave_at_random_moments(specdec: pathlib.Path) -> None:
    seen = leaving.check(specdec, num_clients=150, at_once=12, seed=1)
    assert seen.total() == 150 and not any(outcome.startswith("refused") for outcome in seen)
