"""docs/server.md names every endpoint and every field that the server knows, and no others."""

from __future__ import annotations

import pathlib
import re

import pytest
from tests.server.clients_table import clients
from tests.server.running import Server

from specdec_native import _core

ROOT = pathlib.Path(__file__).parents[2]
SERVER = ROOT / "cpp" / "server"
DOCS = re.sub(r"^```.*?^```$", "", (ROOT / "docs" / "server.md").read_text(), flags=re.MULTILINE | re.DOTALL)
WORDS = {name for code in re.findall(r"`([^`]+)`", DOCS) for name in re.findall(r"[\w./-]+", code)}
NAMES = WORDS | {part for name in WORDS for part in name.split(".")}


def listed(file: str, begin: str, pattern: str) -> set[str]:
    """What matches the pattern in the declaration that begins so."""
    text = (SERVER / file).read_text()
    body = text[text.index(begin) :].split("};", 1)[0]
    names = set(re.findall(pattern, body))
    assert len(names) > 2, begin
    return names


def known_fields() -> set[str]:
    fields = listed("known_fields.cpp", "known_fields = {", r'"([\w.]+)",')
    fields |= listed("request_fields.cpp", "other_names[] = {", r'\{"([\w.]+)"')
    fields |= listed("request_fields.cpp", "unsupported[] = {", r'"(\w+)"')
    fields |= listed("request_fields.cpp", "only_values[] = {", r'\{"(\w+)"')
    return fields | set(_core.request_options())


def test_every_field_is_documented() -> None:
    assert len(known_fields()) > 100
    assert sorted(known_fields() - NAMES) == []


def test_every_field_of_the_table_is_known() -> None:
    table = DOCS.split("\n## Fields\n")[1].split("\n## ")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}
    assert len(named) > 100
    elsewhere = {"include_usage", "effort", "choice", "json", "json_object", "encoding_format", "dimensions"}
    assert sorted(named - known_fields() - elsewhere) == []


def paths() -> list[str]:
    text = (SERVER / "routes.cpp").read_text()
    return sorted(set(re.findall(r'"(/[^"]*)"', text)))


def test_every_endpoint_is_documented() -> None:
    aliases = {"/index.html", "/models", "/v1/health", "/chat/completions", "/responses", "/completions"}
    aliases |= {"/chat/completions/input_tokens", "/v1/models/.+", "/slots/[0-9]+"}  # /v1/models/ID, /slots/N
    assert sorted(set(paths()) - aliases - NAMES) == []


@pytest.mark.parametrize("path", sorted(name for name in NAMES if re.fullmatch(r"/(v1|api)/[a-z_/]+", name)))
def test_every_endpoint_of_the_documentation_is_there(server: Server, path: str) -> None:
    if path in ("/api/pull", "/api/create", "/api/delete"):  # which the page says there are not
        assert server.post(path, {}).status == 404
    else:
        assert {server.get(path).status, server.post(path, {}).status} != {404}, path


def test_every_client_is_documented() -> None:
    rows = (ROOT / "docs" / "server.md").read_text().splitlines()
    assert [client.name for client in clients() if client.row not in rows] == []
