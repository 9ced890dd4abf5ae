"""What `specdec serve` guarantees under load: one text for a seed, free slots, full queues, keys, signals, slow
clients."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.running import PATIENCE, PROMPT, DidNotStart, Reply, Server, serving, wait_until

LONG: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 480, "ignore_eos": True}
ENDLESS = {
    **LONG,
    "max_tokens": 200_000,
}  # with a context for them it runs longer than any test, until its client leaves
CONTEXT = 200_100
CHAT = {"messages": [{"role": "user", "content": PROMPT}]}


def send(server: Server, path: str, body: object, **headers: str) -> socket.socket:
    """A request whose reply is not read."""
    data = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{lines}\r\n".encode() + data)
    return connection


def in_thread(server: Server, body: object, path: str = "/v1/completions") -> concurrent.futures.Future[Reply]:
    result: concurrent.futures.Future[Reply] = concurrent.futures.Future()

    def run() -> None:
        try:
            result.set_result(server.post(path, body))
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


@contextlib.contextmanager
def occupied(server: Server, count: int) -> Iterator[None]:
    """As many endless requests, one after the other, on a server that has no others and the CONTEXT for them."""
    with contextlib.ExitStack() as connections:
        for number in range(1, count + 1):
            connections.enter_context(contextlib.closing(send(server, "/v1/completions", {**ENDLESS, "stream": True})))
            wait_until(lambda number=number: server.num_unfinished() == number)  # type: ignore[misc]
        yield
    wait_until(lambda: server.num_unfinished() == 0)


@pytest.fixture(scope="module")
def small(specdec: pathlib.Path) -> Iterator[Server]:
    """One slot, one place in the queue."""
    with serving(specdec, "-np", 1, "--queue", 1, "-c", CONTEXT) as running:
        yield running
        assert running.process.poll() is None


@pytest.fixture(scope="module")
def impatient(specdec: pathlib.Path) -> Iterator[Server]:
    """It waits a second for its clients."""
    with serving(specdec, "-np", 1, "--queue", 1, "--client-timeout", 1) as running:
        yield running
        assert running.process.poll() is None


@pytest.fixture(scope="module")
def plain(specdec: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "-k", 0, "-np", 1) as running:
        yield running


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_a_seed_gives_one_text(server: Server, plain: Server, temperature: float) -> None:
    """With drafts and without, alone and with three others."""
    options = {
        "max_tokens": 60,
        "temperature": temperature,
        "num_draft_tokens": 4,
    }  # "auto" may find that drafts do not pay
    bodies = [{"prompt": PROMPT[: 8 + 4 * i], "seed": i, **options} for i in range(4)]
    alone = [plain.post("/v1/completions", body).json for body in bodies]
    assert sum(reply["timings"]["draft_n"] for reply in alone) == 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = [reply.json for reply in pool.map(lambda body: server.post("/v1/completions", body), bodies * 3)]
    assert sum(reply["timings"]["draft_n_accepted"] for reply in together) > 0
    texts = [reply["choices"][0]["text"] for reply in alone]
    assert [reply["choices"][0]["text"] for reply in together] == texts * 3
    assert len(set(texts)) == 4


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_slot(small: Server, stream: bool) -> None:
    cancelled = small.metric("specdec:requests_cancelled_total")
    tokens = small.metric("llamacpp:tokens_predicted_total")
    connection = send(small, "/v1/completions", {**ENDLESS, "stream": stream})
    wait_until(lambda: small.num_unfinished() == 1)
    connection.close()
    wait_until(lambda: small.num_unfinished() == 0)
    wait_until(lambda: small.metric("specdec:requests_cancelled_total") == cancelled + 1)
    assert small.metric("llamacpp:tokens_predicted_total") - tokens < ENDLESS["max_tokens"], "it ran to its end"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_the_queue(small: Server, stream: bool) -> None:
    with occupied(small, 1):
        cancelled = small.metric("specdec:requests_cancelled_total")
        waiting = send(small, "/v1/chat/completions", {**CHAT, "max_tokens": 400, "stream": stream})
        wait_until(lambda: small.num_unfinished() == 2)
        waiting.close()
        wait_until(lambda: small.num_unfinished() == 1)
        wait_until(lambda: small.metric("specdec:requests_cancelled_total") == cancelled + 1)


def test_full_queue(small: Server) -> None:
    with occupied(small, 2):
        rejected = small.metric("specdec:requests_rejected_total")
        for path, body in (
            ("/v1/completions", {**LONG, "stream": True}),
            ("/v1/chat/completions", CHAT),
            ("/completion", LONG),
        ):
            reply = small.post(path, body)
            assert reply.status == 503
            assert reply.error["type"] == "unavailable_error"
            assert int(reply.headers["Retry-After"]) >= 1
        assert small.metric("specdec:requests_rejected_total") == rejected + 3
        assert small.get("/health").status == 200
    assert small.complete(max_tokens=1)["usage"]["completion_tokens"] == 1


def test_choices_that_do_not_fit_the_queue_leave_nothing_behind(small: Server) -> None:
    with occupied(small, 1):
        assert small.post("/v1/completions", {**LONG, "n": 2}).status == 503
        wait_until(lambda: small.num_unfinished() == 1)


def test_slow_clients(impatient: Server) -> None:
    """A head or a body that does not arrive is not waited for, and a reader that does not read holds no slot."""
    for part in (
        b"POST /v1/completions HTTP/1.1\r\nHost",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    ):
        with socket.create_connection(("127.0.0.1", impatient.port), timeout=PATIENCE) as connection:
            connection.sendall(part)
            reply = connection.recv(1000)
            assert reply == b"" or reply.startswith((b"HTTP/1.1 408", b"HTTP/1.1 400")), reply
    with socket.socket() as connection:  # reads nothing
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", impatient.port))
        data = json.dumps({**LONG, "stream": True, "logprobs": 0}).encode()
        tokens = impatient.metric("llamacpp:tokens_predicted_total")
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        wait_until(lambda: impatient.metric("llamacpp:tokens_predicted_total") > tokens)  # counted as a request ends
        wait_until(lambda: impatient.num_unfinished() == 0)
        assert impatient.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1}).status == 200


@pytest.mark.parametrize("head", [b"POST /v1/comple", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_slow_headers(impatient: Server, head: bytes) -> None:
    """Headers that arrive byte by byte, each of them in time, end the connection."""
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=PATIENCE) as connection:
        connection.sendall(head)
        for _ in range(150):
            with contextlib.suppress(OSError):
                connection.sendall(b"a")
            if select.select([connection], [], [], 0.2)[0]:
                break
        else:
            pytest.fail("the connection is still served")
        assert connection.recv(1000).startswith((b"HTTP/1.1 400", b""))
    assert impatient.get("/health").status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_slow_readers(impatient: Server, stream: bool) -> None:
    """A client that reads 500 bytes per second: each write ends in time, but not all of them together."""
    server_sockets = pathlib.Path(f"/proc/{impatient.process.pid}/fd")

    def num_sockets() -> int:
        return sum(os.readlink(path).startswith("socket:") for path in server_sockets.iterdir() if path.is_symlink())

    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", impatient.port))
        data = json.dumps({**LONG, "stream": stream, "logprobs": 5}).encode()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        connection.recv(1)  # the reply has begun
        before = num_sockets()
        for _ in range(300):
            if num_sockets() < before:
                break
            connection.recv(100)
            time.sleep(0.2)
        else:
            pytest.fail("the connection is still served")
    assert impatient.complete(max_tokens=1)["usage"]["completion_tokens"] == 1


def test_idle_connections(specdec: pathlib.Path) -> None:
    """More of them than the server serves at once: they are closed, and the others are answered."""
    with serving(specdec, "-np", 1, "--queue", 1, "--client-timeout", 1) as running:
        idle = [socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) for _ in range(60)]
        used = socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE)
        used.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")  # and then keeps its connection
        assert running.get("/health").status == 200
        assert used.recv(1000).startswith(b"HTTP/1.1 200")
        for connection in (*idle, used):
            while connection.recv(1000):
                pass
            connection.close()


def test_most_tokens_and_time(specdec: pathlib.Path) -> None:
    with serving(specdec, "-n", 5, "-np", 1) as running:
        assert running.complete(max_tokens=100)["usage"]["completion_tokens"] == 5
        assert running.complete()["usage"]["completion_tokens"] == 5
        assert running.complete(max_tokens=2)["usage"]["completion_tokens"] == 2
    with serving(specdec, "--timeout", 1, "-np", 1, "-c", CONTEXT) as running:
        first = in_thread(running, ENDLESS)
        reply = running.post("/v1/completions", {**ENDLESS, "stream": True})
        assert reply.events[-1]["error"]["type"] == "timeout_error"
        assert first.result(PATIENCE).error["type"] == "timeout_error" and first.result().status == 504
        wait_until(lambda: running.num_unfinished() == 0)


def test_defaults_of_requests(specdec: pathlib.Path, server: Server) -> None:
    with serving(specdec, "--temp", 0.5, "-s", 9, "-n", 12, "-r", "zzz", "-a", "mine") as running:
        assert running.text() == server.text(max_tokens=12, seed=9, temperature=0.5)
        assert running.text(seed=3, temperature=1) == server.text(max_tokens=12, seed=3, temperature=1)
        assert running.get("/v1/models").json["data"][0]["id"] == running.complete()["model"] == "mine"
        assert running.get("/props").json["default_generation_settings"]["params"]["seed"] == 9


def test_api_keys(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "keys").write_text("from-file\n\nother\n")
    with serving(specdec, "--api-key", "one,two", "--api-key-file", tmp_path / "keys") as running:
        body = {"prompt": PROMPT, "max_tokens": 1}
        for key in ("one", "two", "from-file", "other"):
            assert running.post("/v1/completions", body, {"Authorization": f"Bearer {key}"}).status == 200
        assert running.post("/v1/completions", body, {"X-Api-Key": "one"}).status == 200
        for headers in (
            {},
            {"Authorization": "Bearer three"},
            {"Authorization": "Bearer on"},
            {"Authorization": "Bearer oneone"},
            {"Authorization": "Bearer "},
            {"Authorization": "one"},
        ):
            for reply in (
                running.post("/v1/completions", body, headers),
                running.get("/v1/models", headers),
                running.get("/metrics", headers),
            ):
                assert reply.status == 401
                assert reply.error["type"] == "authentication_error"
        assert running.get("/health").status == 200


def test_cors(specdec: pathlib.Path, server: Server) -> None:
    page = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    assert not [name for name in server.request("OPTIONS", "/v1/completions", headers=page).headers if "Allow" in name]
    with serving(specdec, "--cors", "https://page.example,localhost") as running:
        for origin, allowed in (
            ("https://page.example", True),
            ("http://localhost:3000", True),
            ("http://[::1]:80", True),
            ("https://other.example", False),
            ("http://localhost.evil.example", False),
            ("null", False),
        ):
            reply = running.request("OPTIONS", "/v1/completions", headers={**page, "Origin": origin})
            assert reply.headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
            assert running.get("/health", {"Origin": origin}).headers.get("Access-Control-Allow-Origin") == (
                origin if allowed else None
            )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_requests_end(specdec: pathlib.Path, number: signal.Signals) -> None:
    """Here two requests, one of which waits; both are larger than what is done until the signal arrives."""
    size = 3000
    with serving(specdec, "-np", 1, "-c", 2 * size, "--drain-timeout", PATIENCE) as running:
        body = {**LONG, "max_tokens": size}
        first, second = in_thread(running, body), in_thread(running, {**body, "stream": True})
        wait_until(lambda: running.num_unfinished() == 2)
        running.process.send_signal(number)
        wait_until(lambda: running.get("/health").status == 503)
        reply = running.post("/v1/completions", LONG)
        assert reply.status == 503 and int(reply.headers["Retry-After"]) >= 1
        assert first.result(PATIENCE).json["usage"]["completion_tokens"] == size
        assert second.result(PATIENCE).text.endswith("data: [DONE]\n\n")
        code, error = running.wait()
        assert code == 0
        assert "waiting for 2 requests" in error


def test_a_second_signal_ends_at_once(specdec: pathlib.Path) -> None:
    with serving(specdec, "-np", 1, "-c", CONTEXT, "--drain-timeout", PATIENCE) as running:
        connections = [send(running, "/v1/completions", ENDLESS) for _ in range(4)]
        wait_until(lambda: running.num_unfinished() == 4)
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: running.get("/health").status == 503)
        code, _ = running.stop()
        assert code == 130
        assert all(connection.recv(100) == b"" for connection in connections)


def test_requests_are_ended_after_the_drain_timeout(specdec: pathlib.Path) -> None:
    with serving(specdec, "-np", 1, "-c", CONTEXT, "--drain-timeout", 0) as running:
        first = in_thread(running, ENDLESS)
        wait_until(lambda: running.num_unfinished() == 1)
        code, _ = running.stop()
        assert code == 0
        assert first.result(PATIENCE).status == 503


def test_addresses(specdec: pathlib.Path, server: Server) -> None:
    """Nobody else can reach the server unless --host says so: 127.0.0.2 is another address of every Linux."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=PATIENCE)
    command = [str(specdec), "serve", "--port", "0", "-t", "1", "--host", "0.0.0.0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        socket.create_connection(("127.0.0.2", port), timeout=PATIENCE).close()
        process.terminate()


def test_a_port_in_use(specdec: pathlib.Path, server: Server) -> None:
    with (
        pytest.raises(DidNotStart, match=f"cannot listen on 127.0.0.1, port {server.port}"),
        serving(specdec, "--port", server.port),
    ):
        pass
