"""`specdec serve` as a process on a free port, and requests to it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

PROMPT = "def bfs(graph, start):"
PATIENCE = 600  # seconds: only ends what hangs, since a machine may be busy, or stop everything for minutes
POLL = 0.02


class Reply:
    def __init__(self, status: int, headers: dict[str, str], text: str) -> None:
        self.status, self.headers, self.text = status, headers, text

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        """OpenAI's shape, checked."""
        assert set(self.json) == {"error"}, self.text
        error: dict[str, Any] = self.json["error"]
        counts = {"n_prompt_tokens", "n_ctx"} if error["type"] == "exceed_context_size_error" else set()
        assert set(error) == {"message", "type", "param", "code", *counts}
        assert error["code"] == self.status >= 400
        assert isinstance(error["message"], str) and error["message"]
        return error

    @property
    def events(self) -> list[Any]:
        """The data of server-sent events, without [DONE], which must be the last one if it is there."""
        data = [line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: ")]
        assert "[DONE]" not in data[:-1]
        return [json.loads(one) for one in data if one != "[DONE]"]


class Server:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url
        self.port = int(url.rsplit(":", 1)[1])

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = PATIENCE,
    ) -> Reply:
        request = urllib.request.Request(self.url + path, body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return Reply(reply.status, dict(reply.headers), reply.read().decode())
        except urllib.error.HTTPError as error:
            return Reply(error.code, dict(error.headers), error.read().decode())

    def get(self, path: str, headers: dict[str, str] | None = None) -> Reply:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None, timeout: float = PATIENCE) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})}, timeout)

    def complete(self, **body: Any) -> Any:
        reply = self.post("/v1/completions", {"prompt": PROMPT, **body})
        assert reply.status == 200, reply.text
        return reply.json

    def text(self, **body: Any) -> str:
        text: str = self.complete(**body)["choices"][0]["text"]
        return text

    def metric(self, name: str) -> float:
        lines = [line for line in self.get("/metrics").text.splitlines() if line.startswith(name + " ")]
        assert len(lines) == 1, name
        return float(lines[0].split()[1])

    def num_unfinished(self) -> int:
        return int(self.metric("llamacpp:requests_processing") + self.metric("llamacpp:requests_deferred"))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """The exit code and standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        _, error = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, error


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """seconds: of a machine that does nothing else. Looks are counted, because time passes while everything is
    stopped, too."""
    for _ in range(int(seconds / POLL)):
        if condition():
            return
        time.sleep(POLL)
    raise AssertionError("it did not happen in time")


class DidNotStart(Exception):
    def __init__(self, process: subprocess.Popen[str]) -> None:
        _, self.stderr = process.communicate(timeout=PATIENCE)
        self.code = process.returncode
        super().__init__(self.stderr)


@contextlib.contextmanager
def serving(specdec: pathlib.Path, *options: object, **environment: str) -> Iterator[Server]:
    command = [str(specdec), "serve", "--port", "0", "-t", "1", *map(str, options)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ | environment)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise DidNotStart(process)
        assert line.startswith("listening on http://127.0.0.1:"), line
        yield Server(process, line.split()[-1])
    finally:
        process.kill()
        process.communicate()
