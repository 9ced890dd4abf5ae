"""Every malformed request gets a 4xx in OpenAI's shape that names the field, and the server goes on."""

from __future__ import annotations

import contextlib
import re
import socket
from typing import Any

import openai
import pytest
from tests.server.running import PATIENCE, PROMPT, Reply, Server

CHAT, TEXT, NATIVE, RESPONSES = "/v1/chat/completions", "/v1/completions", "/completion", "/v1/responses"
MESSAGES = [{"role": "user", "content": PROMPT}]


def rejected(reply: Reply, status: int = 400) -> dict[str, Any]:
    assert reply.status == status, reply.text
    return reply.error


# Options that are read alike by all endpoints: the value, and the field that the error names.
OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"temperature": [1]}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.5}, "top_p"),
    ({"min_p": -0.5}, "min_p"),
    ({"top_k": 1.5}, "top_k"),
    ({"top_k": 2**40}, "top_k"),
    ({"max_tokens": -2}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": "8"}, "max_tokens"),
    ({"max_tokens": 2**63}, "max_tokens"),
    ({"max_tokens": 10**30}, "max_tokens"),
    ({"n_predict": {}}, "n_predict"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens"),
    ({"seed": "x"}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"seed": 2**70}, "seed"),
    ({"stop": 5}, "stop"),
    ({"stop": [5]}, "stop"),
    ({"stop": {"a": 1}}, "stop"),
    ({"stream": 1}, "stream"),
    ({"stream": "true"}, "stream"),
    ({"repeat_penalty": 0}, "repeat_penalty"),
    ({"repeat_last_n": -2}, "repeat_last_n"),
    ({"presence_penalty": "x"}, "presence_penalty"),
    ({"frequency_penalty": 10**7}, "frequency_penalty"),
    ({"logit_bias": 5}, "logit_bias"),
    ({"logit_bias": {"1": "x"}}, "logit_bias"),
    ({"logit_bias": [[1]]}, "logit_bias"),
    ({"logit_bias": [[[], 1]]}, "logit_bias"),
    ({"logit_bias": {"99999999999999999999": 1}}, "logit_bias"),
    ({"verification": "maybe"}, "verification"),
    ({"num_draft_tokens": 64}, "num_draft_tokens"),
    ({"response_format": 3}, "response_format"),
    ({"response_format": {}}, "response_format.type"),
    ({"response_format": {"type": "sound"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "json_object", "schema": 123}}, "response_format.schema"),
    ({"response_format": {"type": "json_object"}, "json_schema": {}}, "response_format.type"),
    ({"response_format": {"type": "json_object"}, "grammar": 'root ::= "a"'}, "response_format.type"),
    ({"json_schema": {}, "grammar": 'root ::= "a"'}, "json_schema"),
    ({"regex": "a", "grammar": 'root ::= "a"'}, "regex"),
    ({"regex": "(a"}, "regex"),
    ({"regex": ""}, "regex"),
    ({"grammar": "root ::= b"}, "grammar"),
    ({"json_schema": {"not": {}}}, "json_schema"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", ""]}, "stop"),
    ({"top_logprobs": 21}, "top_logprobs"),
    ({"logit_bias": {"5": -1e300, "99999": 1}}, "logit_bias"),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(server: Server, options: tuple[dict[str, Any], str]) -> None:
    body, field = options
    bodies = {
        CHAT: {"messages": MESSAGES, **body},
        TEXT: {"prompt": PROMPT, **body},
        NATIVE: {"prompt": PROMPT, **body},
    }
    for path, whole in {**bodies, RESPONSES: {"input": PROMPT, **body}}.items():
        error = rejected(server.post(path, whole))
        assert error["type"] == "invalid_request_error"
        assert error["param"] == field and field in error["message"], error


CHATS: list[tuple[dict[str, Any], str]] = [
    ({}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": {}}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [123]}, "messages[0]"),
    ({"messages": [{}]}, "messages[0].role"),
    ({"messages": [{"role": 123}]}, "messages[0].role"),
    ({"messages": [{"role": "", "content": "x"}]}, "messages[0].role"),
    ({"messages": [*MESSAGES, {"role": "robot", "content": "x"}]}, "messages[1].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 123}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "messages[0].content"),
    ({"messages": [*MESSAGES, {"role": "user", "content": [5]}]}, "messages[1].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].image_url.url",
    ),
    ({"messages": MESSAGES, "tools": "x"}, "tools"),
    ({"messages": MESSAGES, "tools": [1]}, "tools[0]"),
    ({"messages": MESSAGES, "tools": [{"type": "x"}]}, "tools[0].type"),
    ({"messages": MESSAGES, "tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    ({"messages": MESSAGES, "tool_choice": "perhaps"}, "tool_choice"),
    ({"messages": MESSAGES, "top_logprobs": 2}, "top_logprobs"),
    ({"messages": MESSAGES, "logprobs": 2}, "logprobs"),
    ({"messages": MESSAGES, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"messages": MESSAGES, "stream_options": {"include_usage": True}}, "stream_options"),
    ({"messages": MESSAGES, "stream": True, "stream_options": 1}, "stream_options"),
    ({"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"messages": MESSAGES, "n": 0}, "n"),
    ({"messages": MESSAGES, "n": 129}, "n"),
    ({"messages": MESSAGES, "n": 1.5}, "n"),
]


@pytest.mark.parametrize("chat", CHATS, ids=str)
def test_chats(server: Server, chat: tuple[dict[str, Any], str]) -> None:
    error = rejected(server.post(CHAT, chat[0]))
    assert error["param"] == chat[1] and chat[1] in error["message"], error


PROMPTS: list[tuple[Any, str]] = [
    (None, "prompt"),
    ("", "prompt"),
    (5, "prompt"),
    (True, "prompt"),
    ([], "prompt"),
    ({}, "prompt.prompt_string"),
    ([""], "prompt"),
    ([[]], "prompt[0]"),
    ([-1], "prompt[0]"),
    ([1, 10**9], "prompt[1]"),
    ([1.5], "prompt[0]"),
    ([1, None], "prompt[1]"),
    ([True], "prompt[0]"),
    (["a", ["b", {}]], "prompt[1][1]"),
    ({"prompt_string": 5}, "prompt.prompt_string"),
    ({"prompt_string": "a", "multimodal_data": ["x"]}, "prompt.prompt_string"),
    (["a"] * 1025, "prompt"),
]


@pytest.mark.parametrize("path", [TEXT, NATIVE])
@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: str(prompt)[:40])
def test_prompts(server: Server, prompt: tuple[Any, str], path: str) -> None:
    error = rejected(server.post(path, {"prompt": prompt[0], "max_tokens": 1}))
    assert error["param"] == prompt[1] and prompt[1] in error["message"], error


OTHERS: list[tuple[str, dict[str, Any], str]] = [
    (TEXT, {"prompt": "a", "best_of": 2}, "best_of"),
    (TEXT, {"prompt": "a", "logprobs": "x"}, "logprobs"),
    (TEXT, {"prompt": "a", "logprobs": 21}, "logprobs"),
    (TEXT, {"prompt": "a", "echo": 1}, "echo"),
    (TEXT, {"prompt": ["a"] * 100}, "prompt"),
    (NATIVE, {"prompt": "a", "n_probs": "x"}, "n_probs"),
    (NATIVE, {"prompt": "a", "n_probs": 21}, "n_probs"),
    (NATIVE, {"prompt": "a", "post_sampling_probs": True}, "post_sampling_probs"),
    (NATIVE, {"prompt": "a", "response_fields": "content"}, "response_fields"),
    (RESPONSES, {}, "input"),
    (RESPONSES, {"input": 5}, "input"),
    (RESPONSES, {"input": []}, "input"),
    (RESPONSES, {"input": [{"role": "user"}]}, "input[0].content"),
    (RESPONSES, {"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    (RESPONSES, {"input": "a", "previous_response_id": "resp_1"}, "previous_response_id"),
    (RESPONSES, {"input": "a", "text": {"format": {"type": "sound"}}}, "text.format.type"),
    (RESPONSES, {"input": "a", "instructions": 5}, "instructions"),
    ("/tokenize", {"content": 5}, "content"),
    ("/tokenize", {"content": "a", "with_pieces": 1}, "with_pieces"),
    ("/detokenize", {}, "tokens"),
    ("/detokenize", {"tokens": "a"}, "tokens"),
    ("/detokenize", {"tokens": [1, -1]}, "tokens[1]"),
    ("/detokenize", {"tokens": [4096]}, "tokens[0]"),
    ("/apply-template", {"messages": 5}, "messages"),
]


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_others(server: Server, case: tuple[str, dict[str, Any], str]) -> None:
    path, body, field = case
    error = rejected(server.post(path, body))
    assert error["param"] == field and field in error["message"], error


def test_the_range_of_token_ids(server: Server) -> None:
    error = rejected(server.post("/detokenize", {"tokens": [4096]}))
    (last,) = re.findall(r"from 0 to (\d+)", error["message"])
    assert server.post("/detokenize", {"tokens": [int(last)]}).status == 200
    rejected(server.post("/detokenize", {"tokens": [int(last) + 1]}))


BODIES = {
    "empty": b"",
    "not JSON": b"hello",
    "half": b'{"messages": [',
    "a list": b"[]",
    "a string": b'"a"',
    "null": b"null",
    "invalid UTF-8": b'{"prompt": "\xff\xfe"}',
    "half a surrogate": b'{"prompt": "\\ud800"}',
    "huge number": b'{"prompt": "a", "temperature": 1e999}',
    "deep lists": b'{"prompt": ' + b"[" * 100000 + b"]" * 100000 + b"}",
    "deep objects": b'{"a": ' * 100000 + b"1" + b"}" * 100000,
    "deep, never closed": b'{"a": ' + b"[" * 1000000,
    "two bodies": b"{}{}",
    "NaN": b'{"prompt": "a", "temperature": NaN}',
}


@pytest.mark.parametrize("path", [CHAT, TEXT, NATIVE, RESPONSES, "/tokenize", "/detokenize", "/apply-template"])
def test_bodies(server: Server, path: str) -> None:
    for name, body in BODIES.items():
        assert rejected(server.post(path, body))["type"] == "invalid_request_error", name


def test_long_errors(server: Server) -> None:
    """In what errors quote, as elsewhere."""
    long = "a" * 20_000
    bodies = [
        f'{{"prompt": "{long}\x00"}}'.encode(),
        {"prompt": "a", "regex": f"({long}"},
        {"prompt": "a", "grammar": f"root ::= {long}"},
    ]
    for body in bodies:
        error = rejected(server.post(TEXT, body))
        assert error["type"] == "invalid_request_error" and len(error["message"]) < 100_000
    tools = [{"type": "function", "function": {"name": "f"}}]
    choice = {"type": "function", "function": {"name": long}}
    error = rejected(server.post(CHAT, {"messages": MESSAGES, "tools": tools, "tool_choice": choice}))
    assert error["param"] == "tool_choice.function.name"


def test_too_many_values(server: Server) -> None:
    body = b'{"prompt": [' + b"[]," * 5_000_000 + b"[]]}"
    assert "values" in rejected(server.post(TEXT, body))["message"]


def test_body_that_is_too_large(server: Server) -> None:
    """The status may get lost where a client sends on into the closed connection, so it reads after a part."""
    size = 100 << 20
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        head = f"POST {TEXT} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
        connection.sendall(head.encode() + b"a" * 1000)
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_clients_learn_that_a_body_is_too_large(server: Server) -> None:
    """OpenAI's own, and one that does not say how much it sends."""
    client = openai.OpenAI(api_key="none", base_url=server.url + "/v1", max_retries=0)
    with pytest.raises(openai.APIStatusError) as raised:
        client.completions.create(model="any", prompt="a" * (100 << 20))
    assert raised.value.status_code == 413
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(b"100000\r\n" + b"a" * (1 << 20) + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
    assert server.get("/health").status == 200


def test_forms_are_not_taken(server: Server) -> None:
    reply = server.post(TEXT, b"--x--", {"Content-Type": "multipart/form-data; boundary=x"})
    rejected(reply, 415)


def test_prompt_longer_than_the_context(server: Server) -> None:
    for path, body in (
        (TEXT, {"prompt": "a b " * 600}),
        (CHAT, {"messages": [{"role": "user", "content": "a b " * 600}]}),
        (TEXT, {"prompt": "a b " * 2_000_000}),
        (TEXT, {"prompt": [5] * 600}),
    ):
        error = rejected(server.post(path, body))
        assert error["type"] == "exceed_context_size_error"
        assert "the context holds 512" in error["message"]
        assert error["n_ctx"] == 512 < error["n_prompt_tokens"]


def test_paths_and_methods(server: Server) -> None:
    rejected(server.get("/v1/nothing"), 404)
    rejected(server.get(TEXT), 404)
    rejected(server.post("/health", {}), 404)
    rejected(server.get("/" + "a" * 10000), 414)


def test_bytes_that_are_not_http(server: Server) -> None:
    for garbage in (
        b"\x00\xff" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST " + TEXT.encode() + b" HTTP/1.1\r\n" + b"Content-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100).startswith((b"HTTP/1.1 4", b""))
    assert server.get("/health").status == 200


def test_template_that_rejects_messages(specdec: Any) -> None:
    from tests.server.running import serving

    template = "{% for m in messages %}{% if m.content == 'a' %}{{ raise_exception('unknown role') }}{% endif %}"
    template += "{{ m.content }}{% endfor %}"
    with serving(specdec, "--chat-template", template) as running:
        assert running.post(CHAT, {"messages": MESSAGES, "max_tokens": 1}).status == 200
        for path in (CHAT, "/apply-template"):
            error = rejected(running.post(path, {"messages": [{"role": "system", "content": "a"}]}))
            assert error["param"] == "messages" and "unknown role" in error["message"]
