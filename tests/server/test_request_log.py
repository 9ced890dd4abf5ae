"""The log of requests: one line each on standard error."""

from __future__ import annotations

import json
import pathlib
import re
import socket

import pytest
from tests.server.running import PROMPT, DidNotStart, Server, serving

SECRET = "banana42"


def send_raw(server: Server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def run(specdec: pathlib.Path, *options: str) -> list[str]:
    """The lines of a server that got a few requests. A line is written after its reply was read, so the next one's may
    come before it."""
    with serving(specdec, "--no-repack", "-c", "1024", *options) as server:
        body = {"prompt": PROMPT + SECRET, "max_tokens": 12, "ignore_eos": True, "seed": 1}
        for _ in range(2):
            server.complete(**body)
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": SECRET}], "stream": True})
        assert server.get("/health").status == 200 and server.get("/metrics").status == 200
        assert server.get("/v1/models").status == 200
        assert server.post("/v1/completions", {"prompt": 3}).status == 400
        send_raw(server, b"GET /a%0Ab%1B[31m?key=" + SECRET.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        code, error = server.stop()
    assert code == 0
    assert SECRET not in error and "\x1b" not in error
    return error.splitlines()


def test_text(specdec: pathlib.Path) -> None:
    lines = [line for line in run(specdec) if re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line)]
    lines = [line.split(" ", 1)[1] for line in lines]
    lines.sort(key=lambda line: (line.split(" ")[2], line.split(" ")[0], "(0 cached)" not in line))
    assert len(lines) == 6
    odd, chat, first, second, wrong, models = lines
    assert re.fullmatch(
        r"200 POST /v1/completions [\d.e-]+ s, prompt \d+ tokens \(\d+ cached\), answer 12 at [\d.]+/s"
        r"(, \d+ of \d+ drafts accepted)?",
        first,
    )
    cached = re.search(r"prompt (\d+) tokens \((\d+) cached\)", second)
    assert cached is not None and int(cached[2]) == int(cached[1]) - 1
    assert chat.startswith("200 POST /v1/chat/completions ") and "answer" in chat
    assert models.startswith("200 GET /v1/models ") and "prompt" not in models
    assert wrong.startswith("400 POST /v1/completions ") and "prompt" not in wrong
    assert odd.startswith("404 GET /a\\nb\\x1b[31m ")


def test_json(specdec: pathlib.Path) -> None:
    lines = [json.loads(line) for line in run(specdec, "--log-format", "json") if line.startswith("{")]
    lines.sort(key=lambda line: (line["path"], line["status"], line.get("cached_tokens")))
    assert [line["status"] for line in lines] == [404, 200, 200, 200, 400, 200]
    first = lines[2]
    assert first["method"] == "POST" and first["path"] == "/v1/completions" and first["seconds"] > 0
    assert first["generated_tokens"] == 12 and first["cached_tokens"] == 0 and first["prompt_tokens"] > 3
    assert 0 <= first["accepted_tokens"] <= first["drafted_tokens"] and first["tokens_per_second"] > 0
    assert lines[3]["cached_tokens"] == lines[3]["prompt_tokens"] - 1
    assert "prompt_tokens" not in lines[4] and "prompt_tokens" not in lines[5]


def test_off(specdec: pathlib.Path) -> None:
    assert not [line for line in run(specdec, "--log-disable") if "/v1/" in line]


def test_a_log_that_nobody_reads_holds_up_nothing(specdec: pathlib.Path) -> None:
    """The pipe of standard error is full after some hundred lines."""
    with serving(specdec, "--no-repack") as server:
        for number in range(600):
            assert server.get(f"/none/{number}/" + "x" * 180).status == 404
        assert server.get("/health").status == 200
        _, error = server.stop()
    assert error.count(" 404 GET /none/") == 600


@pytest.mark.parametrize("value", ["xml", ""])
def test_unknown_formats(specdec: pathlib.Path, value: str) -> None:
    with pytest.raises(DidNotStart, match="log-format"), serving(specdec, "--log-format", value):
        pass
