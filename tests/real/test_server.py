"""The server with a target of bench/common/real_models.py, whose passes are long enough to be watched: `make
test-real`."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import socket
from typing import Any

import pytest
from tests.server.running import PATIENCE, PROMPT, Server, serving, wait_until

if not os.environ.get("SPECDEC_REAL_MODELS"):
    pytest.skip("make test-real runs these", allow_module_level=True)
FOLDER = pathlib.Path(os.environ["SPECDEC_REAL_MODELS"])
TARGET, DRAFT = FOLDER / "qwen2.5-coder-1.5b-q4_k_m.gguf", FOLDER / "qwen2.5-coder-0.5b-q4_k_m.gguf"
PAIR = ("-m", TARGET, "-md", DRAFT)


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


def test_completion_in_the_middle(specdec: pathlib.Path) -> None:
    """With the model's own marks, and files of the repository that the model knows from nowhere else."""
    body: dict[str, Any] = {
        "input_prefix": "def average(numbers):\n    total = 0\n    for number in numbers:\n",
        "input_suffix": "    return total / len(numbers)\n",
        "n_predict": 24,
        "temperature": 0,
    }
    with serving(specdec, *PAIR, "-np", 1, "-c", 2048) as server:
        reply = server.post("/infill", body).json
        assert reply["content"].strip() == "total += number" and reply["stop_type"] == "eos"
        marked = f"<|fim_prefix|>{body['input_prefix']}<|fim_suffix|>{body['input_suffix']}<|fim_middle|>"
        assert reply["prompt"] == marked
        completion = {"max_tokens": 24, "temperature": 0, "suffix": body["input_suffix"]}
        assert server.text(prompt=body["input_prefix"], **completion) == reply["content"]
        ollama = {"prompt": body["input_prefix"], "suffix": body["input_suffix"], "stream": False}
        options = {"num_predict": 24, "temperature": 0}
        assert server.post("/api/generate", {**ollama, "options": options}).json["response"] == reply["content"]
        files = [{"filename": "colours.py", "text": "def mix_of_teal_and_umber(amount):\n    return amount * 0.37\n"}]
        body |= {"input_prefix": "import colours\n\nprint(colours.mix", "input_suffix": "\n", "input_extra": files}
        assert server.post("/infill", body).json["content"].startswith("_of_teal_and_umber(")


WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
WEATHER_TOOL = {"type": "function", "function": {"name": "weather", "parameters": {**WEATHER, "required": ["city"]}}}


def test_calls_that_the_model_writes_as_json(specdec: pathlib.Path) -> None:
    """Qwen2.5-Coder writes a fenced block, whatever its template says."""
    messages = [{"role": "user", "content": "What is the weather in Paris for 3 days? Use the tool."}]
    body = {"messages": messages, "temperature": 0, "max_tokens": 100, "tools": [WEATHER_TOOL]}
    with serving(specdec, *PAIR, "-np", 1, "-c", 1024, "--json-tool-calls", "always") as server:
        for choice in ("auto", "required"):
            reply = server.post("/v1/chat/completions", {**body, "tool_choice": choice}).json["choices"][0]
            [call] = reply["message"]["tool_calls"]
            assert json.loads(call["function"]["arguments"]) == {"city": "Paris", "days": 3}


class Talk:
    """A conversation of a chat whose turns say how much of the prompt was cached and read, and how long that took."""

    def __init__(self, server: Server, subject: str, lines: int) -> None:
        self.server = server
        text = "".join(f"{subject} {number}: {number * 37 % 101} of {number * 11 % 97}.\n" for number in range(lines))
        self.messages = [{"role": "user", "content": f"Remember these lines.\n{text}Say only: yes."}]

    def turn(self) -> dict[str, Any]:
        reply = self.server.post("/v1/chat/completions", {"messages": self.messages, "max_tokens": 8, "temperature": 0})
        assert reply.status == 200, reply.text
        self.messages += [reply.json["choices"][0]["message"], {"role": "user", "content": "And again?"}]
        timings: dict[str, Any] = reply.json["timings"]
        print(
            self.messages[0]["content"][22:30], {name: timings[name] for name in ("cache_n", "prompt_n", "prompt_ms")}
        )
        return timings


def test_conversations_keep_their_prefix(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """After an unrelated request, in turn with another, and in a server that is started again."""
    options = (*PAIR, "-np", 2, "-c", 8192, "--cache-disk", tmp_path)
    with serving(specdec, *options) as server:
        talk, other = Talk(server, "Apples", 80), Talk(server, "Pears", 60)
        assert talk.turn()["prompt_n"] > 1000
        for side in range(3):
            server.complete(prompt=f"{side} unrelated words", max_tokens=2)
            assert talk.turn()["prompt_n"] < 40
        assert other.turn()["prompt_n"] > 800
        for _ in range(2):
            assert talk.turn()["prompt_n"] < 40
            assert other.turn()["prompt_n"] < 40
        long = Talk(server, "Plums", 280)
        read = long.turn()
        assert read["prompt_n"] > 4000
        assert talk.turn()["prompt_n"] < 40 and other.turn()["prompt_n"] < 40
        assert server.stop()[0] == 0
    with serving(specdec, *options) as server:
        for one in (long, talk, other):
            one.server = server
            timings = one.turn()
            assert timings["prompt_n"] < 40 and timings["cache_n"] > 800
            if one is long:
                assert timings["prompt_ms"] < 1000 < read["prompt_ms"]


def test_a_request_waits_for_its_model(specdec: pathlib.Path) -> None:
    """Which runs once it is loaded; the status says how far that is."""
    options = ("--models-dir", FOLDER, "--models-max", 1, "-np", 1, "-c", 1024, "--sse-ping-interval", 1)
    with serving(specdec, *options) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        for name in (TARGET.stem, DRAFT.stem):
            body = {"model": name, "prompt": PROMPT, "max_tokens": 4, "stream": True}
            answer = pool.submit(server.post, "/v1/completions", body)
            seen = []
            while not answer.done():
                seen.append(server.get(f"/v1/models/{name}").json["status"])
                assert server.get("/health").status == 200
            assert answer.result().events[-1]["choices"][0]["finish_reason"] == "length"
            values = [one["value"] for one in seen]
            assert "loading" in values and values[-1] == "loaded"
            progress = [one["progress"] for one in seen if one["value"] == "loading"]
            print(name, values.count("loading"), progress[:1], progress[-1:])
