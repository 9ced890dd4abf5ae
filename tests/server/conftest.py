"""Servers for all tests that change nothing about them, and a browser for the page."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.models.chain_model import HESITANT, HESITANT_CONTROL, PIECES, chain, write_chain
from tests.server.running import Server, serving
from tests.server.scripted import ScriptedServer, scripted

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from tests.server.browsing import Page


@pytest.fixture(scope="session")
def server(specdec: pathlib.Path) -> Iterator[Server]:
    """The bundled pair."""
    with serving(specdec, "-np", 4) as running:
        yield running
        assert running.process.poll() is None, "the server died"
        assert running.num_unfinished() == 0
        code, error = running.stop()
        assert code == 0, error


@pytest.fixture(scope="session")
def caller(specdec: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A model that always reasons, writes a line, and calls a tool."""
    path = tmp_path_factory.mktemp("chain") / "chain.gguf"
    write_chain(path, chain(PIECES))
    with serving(specdec, "-m", path, "-md", "suffix", "-np", 2, "--temp", "0") as running:
        yield running


@pytest.fixture(scope="session")
def hesitant(specdec: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A model that would rather end its text than call, and rather call `weather` than `forecast`."""
    path = tmp_path_factory.mktemp("hesitant") / "chain.gguf"
    write_chain(path, HESITANT, HESITANT_CONTROL)
    with serving(specdec, "-m", path, "-md", "suffix", "-np", 2, "--temp", "0") as running:
        yield running


@pytest.fixture
def scripted_server(server: Server) -> Iterator[ScriptedServer]:
    headers = server.get("/").headers
    kept = {name: headers[name] for name in ("Content-Type", "Content-Security-Policy")}
    with scripted(kept, server.get("/props").json["default_generation_settings"]["params"]) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    pytest.importorskip("selenium.webdriver")
    from tests.server.browsing import browsing

    with browsing() as running:
        yield running


@pytest.fixture
def page_of(browser: Chrome, tmp_path: pathlib.Path) -> Iterator[Callable[[str], Page]]:
    """The page of the server at this address, as for a person who was never there. Its scripts must not fail."""
    from tests.server.browsing import Page

    pages: list[Page] = []

    def opened(url: str) -> Page:
        pages.append(Page(browser, url, tmp_path))
        return pages[-1]

    yield opened
    assert [page.errors() for page in pages] == [[]] * len(pages)


@pytest.fixture
def page(scripted_server: ScriptedServer, page_of: Callable[[str], Page]) -> Page:
    return page_of(scripted_server.url)
