"""The server's border: foreign pages and names, bodies that are not JSON as it is, HTTP/1.0, and bodies that would cost
much more time than they are long."""

from __future__ import annotations

import gzip
import http.client
import json
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.running import PATIENCE, PROMPT, Server, serving

TEXT = "/v1/completions"
BODY = json.dumps({"prompt": PROMPT, "max_tokens": 1}).encode()
# Paths that change something or cost time, those that tell something, and those that need no key.
PATHS = [
    ("POST", TEXT),
    ("POST", "/api/chat"),
    ("POST", "/v1/messages"),
    ("POST", "/slots/0?action=erase"),
    ("POST", "/models/unload"),
    ("POST", "/models/load"),
    ("GET", "/v1/models"),
    ("GET", "/slots"),
    ("GET", "/props"),
    ("GET", "/metrics"),
    ("GET", "/health"),
    ("GET", "/"),
    ("OPTIONS", TEXT),
]


def exchange(server: Server, request: bytes) -> bytes:
    """The whole reply; the server closes the connection, or has sent as much as it says."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        data = b""
        while part := connection.recv(65536):
            data += part
            head, end, rest = data.partition(b"\r\n\r\n")
            sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if end and sizes and len(rest) >= int(sizes[0].split(b":")[1]):
                break
        return data


def status(server: Server, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> int:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    size = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
    reply = exchange(server, f"{method} {path} HTTP/1.1\r\n{lines}{size}\r\n".encode() + body)
    return int(reply.split(b" ", 2)[1])


@pytest.fixture(scope="module")
def named(specdec: pathlib.Path) -> Iterator[Server]:
    hosts = "ai.example.com,.lan.example.com"
    with serving(specdec, "--allowed-hosts", hosts, "--cors", "https://page.example:8443,localhost") as running:
        yield running


def test_what_is_forbidden_names_the_option_that_allows_it(server: Server) -> None:
    own = f"Host: 127.0.0.1:{server.port}\r\n"
    for headers, remedy in (
        ("Host: evil.example\r\n", "--allowed-hosts evil.example"),
        (own + "Origin: https://evil.example\r\n", "--cors https://evil.example"),
        (own + "Sec-Fetch-Site: cross-site\r\n", "--cors ORIGINS"),
    ):
        reply = exchange(server, f"GET /health HTTP/1.1\r\n{headers}\r\n".encode())
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["message"].endswith(remedy)


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_foreign_pages_and_names(server: Server, method: str, path: str) -> None:
    own = f"127.0.0.1:{server.port}"
    foreign = [
        {"Host": own, "Origin": "https://evil.example"},
        {"Host": own, "Origin": "null"},
        {"Host": own, "Origin": f"http://127.0.0.1:{server.port + 1}"},
        {"Host": own, "Origin": f"http://evil.example:{server.port}"},
        {"Host": own, "Origin": f"http://127.0.0.1:{server.port}.evil.example"},
        {"Host": own, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": f"evil.example:{server.port}"},
        {"Host": f"evil.example:{server.port}", "Origin": f"http://evil.example:{server.port}"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "1.2.3.4.5"},
        {"Host": "EVIL.example."},
    ]
    for headers in foreign:
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
            assert status(server, method, path, {**headers, "Content-Type": content_type}, BODY) == 403, headers


def test_own_pages_and_names(server: Server) -> None:
    port = server.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "LOCALHOST", "app.localhost", "specdec",
                 "192.168.1.7:80", "host.docker.internal:8080"):  # fmt: skip
        assert status(server, "GET", "/v1/models", {"Host": host}) == 200, host
        headers = {"Host": host, "Origin": f"http://{host}", "Content-Type": "application/json"}
        assert status(server, "POST", TEXT, headers, BODY) == 200, host
    assert status(server, "GET", "/v1/models", {}) == 200  # HTTP/1.0 clients send no Host
    link = {"Host": f"localhost:{port}", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert status(server, "GET", "/", link) == 200
    assert status(server, "GET", "/", {"Host": "a", "Sec-Fetch-Site": "same-origin"}) == 200


def test_named_pages_and_hosts(named: Server) -> None:
    local = f"localhost:{named.port}"
    for headers, expected in (
        ({"Host": "ai.example.com"}, 200),
        ({"Host": "AI.example.com:443"}, 200),
        ({"Host": "a.lan.example.com"}, 200),
        ({"Host": "lan.example.com"}, 403),
        ({"Host": "xlan.example.com"}, 403),
        ({"Host": "page.example"}, 200),
        ({"Host": "127.0.0.1", "Origin": "https://ai.example.com"}, 200),  # a proxy that sends its own Host
        ({"Host": local, "Origin": "https://page.example:8443"}, 200),
        ({"Host": local, "Origin": "https://page.example"}, 403),
        ({"Host": local, "Origin": "http://localhost:3000"}, 200),
        ({"Host": local, "Origin": "http://localhost.evil.example"}, 403),
        ({"Host": local, "Origin": "null"}, 403),
    ):
        given = {**headers, "Content-Type": "application/json"}
        assert status(named, "POST", TEXT, given, BODY) == expected, headers


def test_content_types(server: Server) -> None:
    """Programs may send any type but a form with parts (curl -d says that JSON is a form); pages must send JSON."""
    host = f"127.0.0.1:{server.port}"
    types = {
        "application/json": (200, 200),
        "application/json; charset=utf-8": (200, 200),
        "application/vnd.api+json": (200, 200),
        "text/plain": (200, 415),
        "application/x-www-form-urlencoded": (200, 415),
        "application/jsonp": (200, 415),
        "": (200, 415),
        "multipart/form-data; boundary=x": (415, 415),
    }
    for content_type, (program, page) in types.items():
        headers = {"Host": host, **({"Content-Type": content_type} if content_type else {})}
        assert status(server, "POST", TEXT, headers, BODY) == program, content_type
        assert status(server, "POST", TEXT, {**headers, "Origin": f"http://{host}"}, BODY) == page, content_type


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "x"])
def test_compressed_bodies(server: Server, encoding: str) -> None:
    start = time.monotonic()
    headers = {"Host": "localhost", "Content-Encoding": encoding, "Content-Type": "application/json"}
    assert status(server, "POST", TEXT, headers, gzip.compress(b"a" * 1_000_000)) == 415
    head = f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {encoding}\r\n"
    for size in ("Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"):  # and nothing follows
        reply = exchange(server, (head + size).encode())
        assert reply.startswith(b"HTTP/1.1 415 ") and b"Accept-Encoding: identity" in reply
    assert time.monotonic() - start < 15  # the client timeout is 20 s
    assert status(server, "POST", TEXT, {**headers, "Content-Encoding": "identity"}, BODY) == 200


FRAMINGS = [
    "Content-Length: -5",
    "Content-Length: +5",
    "Content-Length: 5, 5",
    "Content-Length: 0x5",
    "Content-Length: 5 5",
    "Content-Length:",
    "Content-Length: 99999999999999999999",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Host: a\r\nHost: b",
    "Origin: http://a\r\nOrigin: http://b",
    "X-Folded: a\r\n b: c",
    "Content-Length : 5",
    "X\x01: a",
    "X: a\x00b",
]


@pytest.mark.parametrize("framing", FRAMINGS, ids=repr)
def test_unclear_requests_end_at_once(server: Server, framing: str) -> None:
    start = time.monotonic()
    reply = exchange(server, f"POST {TEXT} HTTP/1.1\r\n{framing}\r\n\r\n".encode())
    assert reply.startswith(b"HTTP/1.1 400 "), reply
    assert time.monotonic() - start < 15  # the client timeout is 20 s
    assert server.get("/health").status == 200


def test_http_1_0_is_not_chunked(server: Server) -> None:
    for stream in (False, True):
        body = json.dumps({"prompt": PROMPT, "max_tokens": 4, "stream": stream, "seed": 1}).encode()
        for more in (b"", b"Connection: keep-alive\r\n"):
            head = b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n%s\r\n" % (len(body), more)
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
                connection.sendall(head + body)
                reply = b""
                while part := connection.recv(65536):  # to the end of the connection
                    reply += part
            head, _, rest = reply.partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head.lower() and b"connection: close" in head.lower(), head
            if stream:
                assert rest.startswith(b"data: ") and rest.endswith(b"data: [DONE]\n\n"), rest
            else:
                assert json.loads(rest)["usage"]["completion_tokens"] == 4


WIDE = {f"name{i}": i for i in range(80_000)}
WIDE_BODIES: list[tuple[str, dict[str, Any]]] = [
    (TEXT, {"prompt": PROMPT, "max_tokens": 1, **WIDE}),
    (TEXT, {"prompt": PROMPT, "logit_bias": {str(i): 1 for i in range(80_000)}}),
    (TEXT, {"prompt": PROMPT, "json_schema": json.dumps({"type": "object", "properties": WIDE})}),
    (TEXT, {"prompt": PROMPT, "structural_tag": json.dumps(WIDE)}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a", **WIDE}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": WIDE}),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": "a"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps(WIDE)}}
                    ],
                },
                {"role": "tool", "tool_call_id": "1", "content": "a"},
            ]
        },
    ),
    (
        "/v1/responses",
        {"input": "a", "tools": [{"type": "function", "name": "f", "parameters": {"properties": WIDE}}]},
    ),
    ("/v1/messages", {"messages": [{"role": "user", "content": "a"}], "metadata": WIDE}),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": WIDE}),
    ("/tokenize", {"content": "a", **WIDE}),
]


@pytest.mark.parametrize("case", WIDE_BODIES, ids=lambda case: f"{case[0]} {list(case[1])[-1]}")
def test_many_names_in_one_object(server: Server, case: tuple[str, dict[str, Any]]) -> None:
    """Ordered objects compare each name with all others. 80,000 names took 8 s, 200,000 minutes."""
    path, body = case
    reply = server.post(path, body)
    assert reply.status == 400, reply.text[:200]
    assert "too many names" in reply.text


def test_names_that_are_not_too_many(server: Server) -> None:
    objects = [{f"name{i}": i for i in range(100)} for _ in range(1000)]
    assert (
        server.post("/tokenize", {"content": "a", "more": objects, **{f"n{i}": i for i in range(9000)}}).status == 200
    )
    biases = [[i % 500, 0.5] for i in range(200_000)]  # a list has no names
    assert server.post(TEXT, {"prompt": PROMPT, "max_tokens": 1, "logit_bias": biases}).status == 200


def test_an_empty_reply_has_no_body(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    for _ in range(3):  # on one connection
        connection.request("HEAD", "/health")
        assert connection.getresponse().read() == b""
    connection.close()


def test_what_is_used_of_the_http_library() -> None:
    """Only http_server.cpp knows it, and nothing of its namespace for details; headers have one reader."""
    folder = pathlib.Path(__file__).parents[2] / "cpp" / "server"
    sources = {path.name: path.read_text() for path in folder.iterdir() if path.suffix in {".cpp", ".h"}}
    assert [name for name, text in sources.items() if "detail::" in text] == []
    assert {name for name, text in sources.items() if "httplib" in text} <= {
        "http_server.cpp",
        "http_server.h",
        "waiting_room.cpp",
        "workers.h",
    }
    assert [name for name, text in sources.items() if "get_header_value" in text] == []
