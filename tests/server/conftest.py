"""One server with the bundled pair for all tests that change nothing about it."""

import pathlib
from collections.abc import Iterator

import pytest
from tests.server.running import Server, serving


@pytest.fixture(scope="session")
def server(specdec: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "-np", 4) as running:
        yield running
        assert running.process.poll() is None, "the server died"
        assert running.num_unfinished() == 0
        code, error = running.stop()
        assert code == 0, error
