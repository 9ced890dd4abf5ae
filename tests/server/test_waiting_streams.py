"""Streams that wait: progress of prompts, and comments that keep the connection alive."""

from __future__ import annotations

import concurrent.futures
import http.client
import itertools
import json
import pathlib
import time
from typing import Any

import pytest
from tests.server.running import PROMPT, Server, serving, wait_until

LONG = "import os\n\n" + "for name in os.listdir(folder):\n    print(name)\n" * 60
ENDPOINTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": LONG}]},
    "/v1/completions": {"prompt": LONG},
    "/completion": {"prompt": LONG},
    "/v1/responses": {"input": LONG},
}


@pytest.fixture(scope="module")
def server(specdec: pathlib.Path) -> Any:
    options = ["-np", "1", "-c", "4096", "-b", "64", "--no-repack", "--cache-ram", "0"]
    with serving(specdec, *options) as running:
        yield running


def progress_of(server: Server, path: str, **body: Any) -> list[dict[str, int]]:
    reply = server.post(path, {**ENDPOINTS[path], "max_tokens": 4, "stream": True, "return_progress": True, **body})
    assert reply.status == 200, reply.text
    return [event["prompt_progress"] for event in reply.events if "prompt_progress" in event]


@pytest.mark.parametrize("path", ENDPOINTS)
def test_progress(server: Server, path: str) -> None:
    server.post("/slots/0?action=erase", {})
    reports = progress_of(server, path)
    assert len(reports) > 3
    first, last = reports[0], reports[-1]
    assert first["processed"] == first["cache"] < 10 and first["time_ms"] == 0
    assert last["processed"] == last["total"] > 600
    for before, after in itertools.pairwise(reports):
        assert before["processed"] < after["processed"] and before["time_ms"] <= after["time_ms"]
        assert {report["total"] for report in reports} == {last["total"]}
    cached = progress_of(server, path)
    assert cached[0]["cache"] > 600 and cached[0]["processed"] == cached[0]["cache"]
    assert cached[-1]["processed"] == cached[-1]["total"]


def test_no_progress_unless_asked(server: Server) -> None:
    assert not progress_of(server, "/v1/completions", return_progress=False)
    reply = server.post("/v1/completions", {"prompt": PROMPT, "return_progress": 1})
    assert reply.status == 400 and reply.error["param"] == "return_progress"


def test_pings(specdec: pathlib.Path) -> None:
    """While another request has the only slot."""
    options = ["-np", "1", "-c", "32768", "--no-repack"]
    busy = {"prompt": PROMPT, "max_tokens": 30_000, "ignore_eos": True, "stream": True}
    waiting = {"max_tokens": 4, "stream": True}
    chat = {"messages": [{"role": "user", "content": PROMPT}], **waiting}
    for interval, expected in ((1, True), (-1, False)):
        with serving(specdec, *options, "--sse-ping-interval", interval) as server:
            first = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
            first.request("POST", "/v1/completions", json.dumps(busy))
            first.getresponse().readline()
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                message = pool.submit(server.post, "/v1/messages", chat)
                completion = pool.submit(server.post, "/v1/completions", {"prompt": PROMPT, **waiting})
                wait_until(lambda: server.num_unfinished() == 3)
                time.sleep(1.5)
                assert not message.done() and not completion.done()
                first.close()
            for reply in (completion.result(), message.result()):
                assert (":\n\n" in reply.text) is expected
            assert completion.result().events[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_pings_while_a_long_prompt_is_read(specdec: pathlib.Path, path: str) -> None:
    options = ["-np", "1", "-c", "16384", "-b", "64", "--no-repack", "--cache-ram", "0", "--sse-ping-interval", "1"]
    content = LONG + "for name in os.listdir(folder):\n    print(name)\n" * 500
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 24, "temperature": 0, "stream": True}
    with serving(specdec, *options) as server:
        parts = server.post(path, body).text.split("\n\n")
    events = [part for part in parts if part not in (":", "")]
    before = parts[: parts.index(events[0 if path == "/v1/messages" else 1])]  # a chat's first event is the role
    assert ":" in before and parts.count(":") == before.count(":")
    assert len(events) > 3
