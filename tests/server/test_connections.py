"""Requests as they arrive on a connection: in parts, one after another, too slowly, many at once."""

from __future__ import annotations

import json
import pathlib
import socket
import time
from collections.abc import Iterator

import pytest
from tests.server.running import PATIENCE, PROMPT, Server, serving

BODY = json.dumps({"prompt": PROMPT, "max_tokens": 1}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


@pytest.fixture(scope="module")
def small(specdec: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "-np", 1, "--queue", 1, "--client-timeout", 2, "--api-key", "secret,other") as running:
        yield running


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def with_key(request: bytes) -> bytes:
    return request.replace(b"Host: x\r\n", b"Host: x\r\nAuthorization: Bearer other\r\n")


def replies(connection: socket.socket, count: int) -> list[bytes]:
    """The status lines of so many replies, each with a Content-Length."""
    lines, data = [], b""
    while len(lines) < count:
        received = connection.recv(65536)
        assert received, (lines, data)
        data += received
        while b"\r\n\r\n" in data:
            head, rest = data.split(b"\r\n\r\n", 1)
            sizes = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            size = int(sizes[0].split(b":")[1]) if sizes else 0
            if len(rest) < size:
                break
            lines.append(head.split(b"\r\n")[0])
            data = rest[size:]
    assert not data
    return lines


OK = b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("size", [1, 7, 60])
def test_a_request_in_parts(small: Server, size: int) -> None:
    request = with_key(WHOLE)
    with connect(small) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(request), size):
            connection.sendall(request[at : at + size])
            time.sleep(0.002)
        assert replies(connection, 1) == [OK]


def test_requests_that_do_not_wait_for_replies(small: Server) -> None:
    with connect(small) as connection:
        connection.sendall(with_key(WHOLE) * 2 + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + with_key(WHOLE))
        assert replies(connection, 4) == [OK] * 4


@pytest.mark.parametrize("trailer", [b"", b"X-Trailer: 1\r\n"])
def test_a_chunked_body(small: Server, trailer: bytes) -> None:
    parts = [BODY[:5], BODY[5:20], BODY[20:]]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"
    request = with_key(HEAD) + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    for size in (len(request), 11):
        with connect(small) as connection:
            for at in range(0, len(request), size):
                connection.sendall(request[at : at + size])
            assert replies(connection, 1) == [OK]


def test_a_client_that_asks_before_it_sends_the_body(small: Server) -> None:
    head = with_key(HEAD) + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(BODY)
    with connect(small) as connection:
        connection.sendall(head)
        assert replies(connection, 1) == [b"HTTP/1.1 100 Continue"]
        connection.sendall(BODY)
        assert replies(connection, 1) == [OK]


def test_without_a_key_no_body_is_waited_for(small: Server) -> None:
    for head in (HEAD, HEAD + b"X-Api-Key: wrong\r\n"):
        with connect(small) as connection:
            connection.sendall(head + b"Content-Length: 1000000\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 401")


def test_a_body_that_comes_too_slowly(small: Server) -> None:
    """Each part is in time, but the whole would take hours."""
    with connect(small) as connection:
        connection.sendall(with_key(HEAD) + b"Content-Length: 1000000\r\n\r\n{")
        start = time.monotonic()
        connection.settimeout(0.2)
        reply = b""
        while not reply and time.monotonic() - start < PATIENCE:
            try:
                connection.sendall(b" ")
                reply = connection.recv(1000)
            except TimeoutError:
                continue
        assert reply.startswith(b"HTTP/1.1 408"), reply
        assert json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["code"] == 408


def test_clients_that_stay_after_the_last_reply_do_not_block_others(server: Server) -> None:
    """They asked for the end of the connection, but do not close their side."""
    times = []
    for _ in range(5):
        staying = [connect(server) for _ in range(40)]
        for connection in staying:
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        start = time.monotonic()
        assert server.get("/health").status == 200
        times.append(time.monotonic() - start)
        for connection in staying:
            assert connection.recv(1000).startswith(OK)
            connection.close()
    assert min(times) < 1, times  # 40 times 0.1 s on two threads, if each were waited for


def test_slow_and_idle_clients_do_not_block_others(specdec: pathlib.Path) -> None:
    """Many times the threads of the server, none of which they take."""
    with serving(specdec, "-np", 1, "--queue", 1) as running:
        idle = [connect(running) for _ in range(150)]
        slow = [connect(running) for _ in range(100)]
        for number, connection in enumerate(slow):
            connection.sendall(HEAD + (b"Content-Length: 5000\r\n\r\n{" if number % 2 else b"X-Slow: "))
        times = []
        for _ in range(20):
            for connection in slow:
                connection.sendall(b"a")
            start = time.monotonic()
            assert running.get("/health").status == 200
            times.append(time.monotonic() - start)
        assert sorted(times)[10] < 0.5, times
        assert running.complete(max_tokens=1)["usage"]["completion_tokens"] == 1
        for connection in (*idle, *slow):
            connection.close()
