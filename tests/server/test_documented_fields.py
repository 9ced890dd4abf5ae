"""docs/server.md names every endpoint and every field that the server knows, and no others, and what it says of fields
that do nothing or are rejected is what the server does."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from tests.server.clients_table import clients
from tests.server.running import PROMPT, Server
from tests.server.test_fields import COMMON, INPUTS, reply_of, text_of

from specdec_native import _core

pytestmark = pytest.mark.quick

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
    fields |= listed("request_fields.cpp", "unsupported_fields[] = {", r'"(\w+)"')
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
    elsewhere |= {"prompt_string", "multimodal_data", "whitespace_pattern"}
    assert sorted(named - known_fields() - elsewhere) == []


def test_every_field_that_the_code_reads_is_documented() -> None:
    """Parts of messages, tools and items have the form of their API, which the page does not repeat."""
    parts = {"call_id", "description", "edits", "function", "id", "namespace", "output", "parameters", "schema"}
    parts |= {"tool_call_id", "tool_use_id", "data", "file_id", "image", "image_url", "path", "source", "url"}
    read = r'(?:body|fields|[a-z_]+)\.(?:find|required|flag|whole|text|required_text)\("(\w+)"'
    names = {name for file in SERVER.glob("*.cpp") for name in re.findall(read, file.read_text())}
    assert len(names) > 80
    assert sorted(names - NAMES - parts) == []


def rows(section: str, says: str) -> set[str]:
    """The fields in the rows of a section's table that say so."""
    lines = DOCS.split(f"\n## {section}\n")[1].split("\n## ")[0].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    fields = {name for names, text in cells if re.match(says, text) for name in re.findall(r"`([\w.]+)`", names)}
    assert fields, says
    return fields


def test_what_is_rejected_is_what_the_page_says() -> None:
    rejected = listed("request_fields.cpp", "unsupported_fields[] = {", r'"(\w+)"')
    assert rows("Fields", "400, unless the value turns") == rejected
    with_one_value = listed("request_fields.cpp", "only_values[] = {", r'\{"(\w+)"') | {"reasoning_format"}
    assert rows("Fields", "400, unless the value is the default") == with_one_value


@pytest.mark.parametrize("path", INPUTS)
def test_rejected_fields(server: Server, path: str) -> None:
    for field in sorted(rows("Fields", "400, unless")):
        value = "none" if field == "reasoning_format" else "something else"
        reply = server.post(path, {**INPUTS[path], **COMMON, field: value})
        assert reply.status == 400 and reply.error["param"] == field, field


@pytest.mark.parametrize("path", INPUTS)
@pytest.mark.parametrize("value", [7, "text", True, {"a": 1}], ids=str)
def test_ignored_fields(server: Server, path: str, value: Any) -> None:
    ignored = dict.fromkeys(sorted(rows("Fields", "ignored")), value)
    (reply,) = reply_of(server, path, False, **COMMON, **ignored)
    assert text_of(path, [reply]) == server.text(**COMMON)


def test_ignored_and_rejected_fields_of_anthropic(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": PROMPT}], **COMMON}
    text = server.post("/v1/messages", body).json["content"]
    ignored = rows("Anthropic's API", "ignored")
    assert len(ignored) > 5
    for value in (7, {"a": 1}):
        more = {**dict.fromkeys(ignored, value), "model": "any"}
        assert server.post("/v1/messages", {**body, **more}).json["content"] == text
    for field in rows("Anthropic's API", "400, unless empty"):
        assert server.post("/v1/messages", {**body, field: [{"a": 1}]}).status == 400, field
        assert server.post("/v1/messages", {**body, field: []}).status == 200, field


def test_ignored_and_rejected_fields_of_ollama(server: Server) -> None:
    options = {"num_predict": 24, "seed": 3}
    for path, body in {
        "/api/generate": {"prompt": PROMPT},
        "/api/chat": {"messages": [{"role": "user", "content": PROMPT}]},
    }.items():

        def post(path: str = path, body: dict[str, Any] = body, **more: Any) -> Any:
            given = {"stream": False, "options": options, **body, **more}
            return server.post(path, given)

        expected = {name: post().json.get(name) for name in ("message", "response")}
        ignored = {name.removeprefix("options.") for name in rows("Ollama's API", "ignored") if name != "model"}
        assert {"num_keep", "num_thread"} < ignored
        inside = dict.fromkeys(ignored, 7)
        reply = post(keep_alive=7, options={**options, **inside}).json
        assert {name: reply.get(name) for name in expected} == expected
        for field, value in (("mirostat", 2), ("tfs_z", 0.5), ("typical_p", 0.5), ("penalize_newline", False)):
            assert post(options={**options, field: value}).status == 400, field
        off = {"mirostat": 0, "tfs_z": 1.0, "typical_p": 1.0, "penalize_newline": True}
        assert post(options={**options, **off}).status == 200
    for field, value in (("template", "{{ .Prompt }}"), ("context", [1, 2])):
        assert server.post("/api/generate", {"prompt": PROMPT, field: value}).status == 400, field


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
    assert [client.name for client in clients() if client.row(True) not in rows] == []
