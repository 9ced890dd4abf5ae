"""A short run of tests/server/growth.py."""

from __future__ import annotations

import pathlib
import sys

import pytest
from tests.server import growth, odd_bodies
from tests.server.running import serving


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", growth.KINDS)
def test_memory_after_many_requests(specdec: pathlib.Path, kind: str) -> None:
    found = growth.grow(specdec, kind, number=240, first=120)
    assert found.failures == [] and found.num_ok > 120
    assert found.last_mib < found.first_mib + growth.MOST_MIB / 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_kept_of_a_request_that_is_over(specdec: pathlib.Path) -> None:
    with serving(specdec, *growth.OPTIONS) as server:
        sizes = []
        for number in (60, 120):
            for _ in range(number):
                server.complete(prompt="a", stop=["x" * 2**20])
            sizes.append(odd_bodies.resident_mib(server.process.pid))
        assert sizes[1] < sizes[0] + 60
