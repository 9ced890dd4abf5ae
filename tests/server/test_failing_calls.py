"""The server when the system fails it once: it says why it does not start, or one request ends; the next ones are
answered."""

from __future__ import annotations

import errno
import http.client
import pathlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.failing_calls import FailingCalls, chosen
from tests.server.running import PATIENCE, DidNotStart, Server, serving

FAULTS = {
    "accept4": (errno.ECONNABORTED, errno.EMFILE, errno.EINTR),
    "recv": (errno.ECONNRESET, errno.EINTR),
    "send": (errno.EPIPE, errno.EINTR),
    "poll": (errno.ENOMEM, errno.EINTR),
    "read": (errno.EIO, errno.EINTR),
    "write": (errno.EPIPE, errno.EINTR),
    "mmap": (errno.ENOMEM,),
    "pthread_create": (errno.EAGAIN,),
}
BODY = {"prompt": "def f(", "max_tokens": 4, "seed": 1}
REQUESTS = 6
LONGEST = 15.0  # seconds until a client of a request that fails notices; the server's patience with slow clients is 20


def text(server: Server, stream: bool, longest: float = PATIENCE, **more: object) -> str | None:
    """None: the request has failed in a way that its client notices."""
    try:
        reply = server.post("/v1/completions", BODY | {"stream": stream} | more, timeout=longest)
    except TimeoutError:  # an OSError, too
        raise
    except (OSError, http.client.HTTPException):  # the connection ended
        return None
    if reply.status != 200:
        assert reply.error["message"]
        return None
    return "".join(event["choices"][0]["text"] for event in (reply.events if stream else [reply.json]))


@pytest.mark.parametrize("call", FAULTS)
def test_any_call_fails(call: str, specdec: pathlib.Path, failing_calls: FailingCalls) -> None:
    def run(error: int, at: int) -> tuple[list[str | None], int, str]:
        """What clients got, the exit code and the last line."""
        texts: list[str | None] = []
        try:
            with serving(specdec, **failing_calls.environment(call, error, at)) as server:
                texts += [text(server, number % 2 == 0, LONGEST) for number in range(REQUESTS)]
                code, message = server.stop()
        except DidNotStart as ended:
            code, message = ended.code, ended.stderr
        return texts, code, message.splitlines()[-1]

    texts, code, _ = run(0, 0)
    (expected,) = set(texts)
    assert expected and code == 0
    places = chosen(failing_calls.count(), ends=2)
    for error in FAULTS[call]:
        for at in places:
            texts, code, message = run(error, at)
            where = f"{call} number {at} fails with {errno.errorcode[error]}: {texts}, {code}, {message}"
            assert set(texts) <= {expected, None}, where
            if code == 1:  # it did not start
                assert message.startswith("specdec serve: ") and not any(texts) and error != errno.EINTR, where
            elif texts or (call, error) != ("write", errno.EPIPE):  # nobody wants to know where it listens
                assert code == 0 and texts.count(None) <= (error != errno.EINTR), where


def test_a_network_that_fails_ends_the_server(specdec: pathlib.Path, failing_calls: FailingCalls) -> None:
    with serving(specdec, **failing_calls.environment("accept4", errno.ENETDOWN, 2)) as server:
        assert text(server, stream=False)
        code, message = server.wait()
        assert code == 1
        assert message.splitlines()[-1].startswith("specdec serve: no more connections are accepted")


def test_no_thread_for_another_connection(specdec: pathlib.Path, failing_calls: FailingCalls) -> None:
    with serving(specdec, **failing_calls.environment("pthread_create", 0, 0)) as server:
        server.stop()
    next_thread = failing_calls.count() + 1
    with serving(specdec, **failing_calls.environment("pthread_create", errno.EAGAIN, next_thread)) as server:
        with ThreadPoolExecutor(12) as clients:  # each request keeps a thread, and eight threads are there before
            texts = list(clients.map(lambda _: text(server, stream=False, max_tokens=200), range(12)))
        assert all(texts)
        assert text(server, stream=False)
        assert server.stop()[0] == 0
    assert failing_calls.count() >= next_thread
