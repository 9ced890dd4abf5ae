"""A short run of tests/server/growth.py."""

from __future__ import annotations

import pathlib
import sys

import pytest
from tests.server import growth


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", growth.KINDS)
def test_memory_after_many_requests(specdec: pathlib.Path, kind: str) -> None:
    found = growth.grow(specdec, kind, number=240, first=120)
    assert found.failures == [] and found.num_ok > 120
    assert found.last_mib < found.first_mib + growth.MOST_MIB / 2
