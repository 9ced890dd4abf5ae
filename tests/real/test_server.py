"""The server with a target of bench/common/real_models.py, whose passes are long enough to be watched: `make
test-real`."""

from __future__ import annotations

import json
import os
import pathlib
import socket

import pytest
from tests.server.running import PATIENCE, PROMPT, serving, wait_until

if not os.environ.get("SPECDEC_REAL_MODELS"):
    pytest.skip("make test-real runs these", allow_module_level=True)
TARGET = pathlib.Path(os.environ["SPECDEC_REAL_MODELS"]) / "qwen2.5-coder-1.5b-q4_k_m.gguf"


def test_a_client_that_leaves_frees_its_slot_within_a_token(specdec: pathlib.Path) -> None:
    with serving(specdec, "-m", TARGET, "-k", 0, "-np", 1, "-c", 1024) as server:
        body = json.dumps(
            {"prompt": PROMPT, "max_tokens": 500, "ignore_eos": True, "stream": True, "logprobs": 0}
        ).encode()
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        received = b""
        while received.count(b"data: ") < 5:
            received += connection.recv(1 << 16)
        connection.close()
        wait_until(lambda: server.num_unfinished() == 0)
        wait_until(lambda: server.metric("specdec:requests_cancelled_total") == 1)
        tokens = server.metric("llamacpp:tokens_predicted_total")
        assert tokens <= received.count(b"data: ") + 2  # the pass that ran, and one whose token was on its way
        assert server.complete(max_tokens=1)["usage"]["completion_tokens"] == 1
