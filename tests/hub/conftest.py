"""A local hub, a tiny model, and the programs that download it."""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
from collections.abc import Iterator

import pytest
from tests.hub import fake_hub
from tests.hub.clients import CLIENTS, Client, client_of
from tests.hub.fake_hub import FakeHub
from tests.models.tiny_models import Model, deepened, make, with_mask


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub.running() as server:
        yield server


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of 300 KB."""
    return make("llama", seed=1).write(tmp_path_factory.mktemp("tiny") / "tiny.gguf").read_bytes()


@pytest.fixture(scope="session")
def headed() -> Model:
    """A target that heads can be made for; its passes take several times those of the tiny model."""
    return deepened(with_mask(make("llama", seed=1)), 12)


def has_libcurl() -> bool:
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib", "/usr/lib/libcurl.4.dylib"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name) is not None
    return False


needs_libcurl = pytest.mark.skipif(not has_libcurl(), reason="no libcurl, which the binary downloads with")


@pytest.fixture(params=[pytest.param(kind, marks=needs_libcurl if kind == "binary" else ()) for kind in CLIENTS])
def client(request: pytest.FixtureRequest, specdec: pathlib.Path, hub: FakeHub, tmp_path: pathlib.Path) -> Client:
    return client_of(request.param, specdec, hub, tmp_path)


@pytest.fixture
def binary(specdec: pathlib.Path, hub: FakeHub, tmp_path: pathlib.Path) -> Client:
    if not has_libcurl():
        pytest.skip("no libcurl, which the binary downloads with")
    return client_of("binary", specdec, hub, tmp_path)


@pytest.fixture
def python(specdec: pathlib.Path, hub: FakeHub, tmp_path: pathlib.Path) -> Client:
    return client_of("python", specdec, hub, tmp_path)
