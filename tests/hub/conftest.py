"""A local hub, a tiny model, and the programs that download it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from tests.hub import fake_hub
from tests.hub.clients import CLIENTS, Client, client_of
from tests.hub.fake_hub import FakeHub
from tests.models.tiny_models import make


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub.running() as server:
        yield server


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of 300 KB."""
    return make("llama", seed=1).write(tmp_path_factory.mktemp("tiny") / "tiny.gguf").read_bytes()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, specdec: pathlib.Path, hub: FakeHub, tmp_path: pathlib.Path) -> Client:
    return client_of(request.param, specdec, hub, tmp_path)


@pytest.fixture
def binary(specdec: pathlib.Path, hub: FakeHub, tmp_path: pathlib.Path) -> Client:
    return client_of("binary", specdec, hub, tmp_path)


@pytest.fixture
def python(specdec: pathlib.Path, hub: FakeHub, tmp_path: pathlib.Path) -> Client:
    return client_of("python", specdec, hub, tmp_path)
