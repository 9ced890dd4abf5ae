"""Bodies from Hypothesis: known fields with values of wrong types, huge, nested, contradictory, or not JSON at all.

The reply is either what was asked for or a 4xx in OpenAI's shape that names a field, and the server goes on.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import openai.types.chat.completion_create_params
import openai.types.completion_create_params
import openai.types.responses.response_create_params
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server import odd_bodies
from tests.server.running import PROMPT, Reply, Server, serving

MESSAGES = [{"role": "user", "content": PROMPT}]
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, "b"]}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
GRAMMARS = ["", 'root ::= "a"', "root ::= b", "root ::=", "[", "\u2028", 'root ::= ("a"{1,999999999}){1,999999999}']
FORMATS = [
    {"type": "text"},
    {"type": "json_object"},
    {"type": "json_object", "schema": SCHEMA},
    {"type": "json_schema"},
]

# Some values of each field; others come from ANYTHING.
OPTIONS: dict[str, list[Any]] = {
    "stream": [True, False],
    "stream_options": [{"include_usage": True}, {"include_usage": 1}],
    "n": [1, 2, 3],
    "max_tokens": [0, 1, 3, -1, 2**31 - 1],
    "max_completion_tokens": [2],
    "n_predict": [2, -1],
    "max_output_tokens": [2],
    "temperature": [0, 0.5, 2],
    "top_p": [0.5, 1],
    "top_k": [0, 1, 40, -1],
    "min_p": [0.1],
    "seed": [0, 5, -1, 2**64 - 1, -(2**63)],
    "stop": ["a", ["a", "b"], [""], ["a"] * 100],
    "presence_penalty": [0.5, -2],
    "frequency_penalty": [0.5],
    "repeat_penalty": [1.1],
    "repeat_last_n": [8, -1],
    "logit_bias": [{"5": 1.5}, {"5": -100}, [[5, False]], {"a": 1}, {"99999": 1}, {"5": 1e300}],
    "logprobs": [True, False, 3],
    "top_logprobs": [0, 3, 20],
    "n_probs": [3],
    "ignore_eos": [True],
    "verification": ["auto", "token", "block", "invariant"],
    "num_draft_tokens": [0, 3, "auto"],
    "drafting": ["argmax", "sampled"],
    "grammar": GRAMMARS,
    "regex": ["", "a", "(", "(a{1,99999}){1,99999}", "[ab]{5}"],
    "json_schema": [SCHEMA, json.dumps(SCHEMA), {}, {"type": "x"}, {"$ref": "#"}, {"not": {}}],
    "response_format": [*FORMATS, {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}],
    "timings_per_token": [True],
    "user": ["me"],
}
PROMPTS: list[Any] = [PROMPT, [5, 6], ["a", "b"], [[5], "a"], {"prompt_string": "a"}, "a" * 5000]
TOOLS = {
    "tools": [[TOOL], [TOOL, TOOL], [], [{"type": "function"}]],
    "tool_choice": ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}],
    "parallel_tool_calls": [True, False],
    "add_generation_prompt": [False],
    "chat_template_kwargs": [{}, {"enable_thinking": False, "messages": 1}],
}
CONTENTS: list[Any] = ["a", None, [{"type": "text", "text": "a"}], [{"type": "image_url"}], [{}]]
CHATS = [
    [{"role": role, "content": content}] for role in ("user", "developer", "tool", "", "robot") for content in CONTENTS
]
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
ITEMS = [
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "reasoning"},
    {"type": "x"},
]
OLLAMA_CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
OLLAMA: dict[str, list[Any]] = {
    "stream": [True, False],
    "format": ["", "json", "xml", SCHEMA],
    "think": [True, "low", "x"],
    "images": [[], ["a"]],
    "logprobs": [True],
    "top_logprobs": [1, 21],
    "options": [{name: value} for name in ("num_predict", "temperature", "stop", "mirostat", "x") for value in (0, -2)],
}
BLOCKS: list[Any] = [
    [{"type": "text", "text": "a"}],
    "a",
    [],
    [{"type": "image"}],
    [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "a"}],
    [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
    [{"type": "tool_result", "tool_use_id": "a"}, {"type": "tool_result", "tool_use_id": "b", "content": "a"}],
]
ENDPOINTS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "/v1/chat/completions": (
        {"messages": MESSAGES},
        {**OPTIONS, **TOOLS, "messages": [*CHATS, [*MESSAGES, CALL], [CALL] * 3]},
    ),
    "/v1/completions": (
        {"prompt": PROMPT},
        {**OPTIONS, "prompt": PROMPTS, "echo": [True], "best_of": [1, 2], "suffix": ["", "b"]},
    ),
    "/completion": ({"prompt": PROMPT}, {**OPTIONS, "prompt": PROMPTS, "response_fields": [["content"], ["a/b", ""]]}),
    "/v1/responses": (
        {"input": PROMPT},
        {
            **OPTIONS,
            **TOOLS,
            "input": ["a", MESSAGES, ITEMS[:1], ITEMS, [{"role": "user"}]],
            "instructions": ["a", ""],
            "text": [{"format": one} for one in FORMATS],
            "previous_response_id": ["x"],
        },
    ),
    "/tokenize": (
        {"content": PROMPT},
        {"content": ["a"], "prompt": ["a"], "with_pieces": [True], "add_special_tokens": [False]},
    ),
    "/infill": (
        {"input_prefix": "a", "input_suffix": "b"},
        {**OPTIONS, "prompt": ["a", ""], "input_extra": [[], [{"text": "a"}], [{"filename": "a"}], [1]]},
    ),
    "/v1/embeddings": (
        {"input": "a"},
        {"input": PROMPTS, "encoding_format": ["base64", "x"], "dimensions": [0, 1, 8, 10**6]},
    ),
    "/v1/messages": (
        {"messages": MESSAGES},
        {
            **OPTIONS,
            "messages": [
                [{"role": role, "content": blocks}] for role in ("user", "assistant", "x") for blocks in BLOCKS
            ],
            "system": ["a", "", BLOCKS[0], [{"type": "image"}]],
            "stop_sequences": [["a"], [""], []],
            "tools": [[], [{"name": "f", "input_schema": {}}], [{"name": "f"}], [{"type": "bash_20250124"}]],
            "tool_choice": [{"type": one} for one in ("auto", "any", "none", "tool", "x")],
            "thinking": [{"type": one} for one in ("enabled", "disabled", "x")],
            "output_config": [{"effort": "low"}, *({"format": one} for one in FORMATS)],
            "context_management": [{}, {"edits": []}, {"edits": [{"type": "x"}]}],
            "container": ["c", ""],
            "mcp_servers": [[], [1]],
        },
    ),
    "/api/chat": (
        {"messages": MESSAGES},
        {
            "messages": [[], *CHATS, [*MESSAGES, OLLAMA_CALL, {"role": "tool", "content": "a"}], [OLLAMA_CALL] * 3],
            "tools": TOOLS["tools"],
            **OLLAMA,
        },
    ),
    "/api/generate": (
        {"prompt": PROMPT},
        {
            "system": ["a", ""],
            "raw": [True],
            "suffix": ["", "b"],
            "template": ["", "a"],
            "context": [[], [1]],
            **OLLAMA,
        },
    ),
    "/api/embed": ({"input": "a"}, {"input": PROMPTS, "truncate": [False], "dimensions": [0, 1, 8]}),
    "/detokenize": ({"tokens": [5]}, {"tokens": [[], [5, 6], [-1], [2**70], [1.0]]}),
    "/apply-template": ({"messages": MESSAGES}, {**TOOLS, "messages": CHATS}),
}


def nested(depth: int) -> Any:
    value: Any = 1
    for i in range(depth):
        value = [value] if i % 2 else {"a": value}
    return value


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63) - 1, 10**30]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", "\x00", "\ud83d\ude00", "true", "1", "-inf", "a" * 20_000, "\u00e9"]),
)
ANYTHING = st.one_of(
    SCALARS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=8,
    ),
    st.sampled_from([nested(30), nested(70), [[]] * 2000]),
)


@st.composite
def bodies(draw: st.DrawFn, path: str) -> dict[str, Any]:
    base, fields = ENDPOINTS[path]
    body = dict(base)
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True)):
        body[name] = draw(st.sampled_from(fields[name]) | ANYTHING)
    for name in draw(st.lists(st.sampled_from(sorted(base)), max_size=1)) if draw(st.integers(0, 9)) == 0 else []:
        body.pop(name)
    return body


def fields_of(path: str) -> set[str]:
    return {*ENDPOINTS[path][0], *ENDPOINTS[path][1]}


@pytest.fixture(scope="module")
def small(specdec: pathlib.Path) -> Iterator[Server]:
    """Answers are short."""
    with serving(specdec, "-np", 4, "-n", 3, "--queue", 200) as running:
        yield running
        assert running.process.poll() is None
        assert running.num_unfinished() == 0
        assert running.text(max_tokens=3, seed=1)


def check(server: Server, path: str, reply: Reply, known: set[str]) -> None:
    """known: the fields that an error may name."""
    assert server.process.poll() is None, "the server died"
    if reply.status == 200:
        return
    assert 400 <= reply.status < 500 or reply.status == 501, reply.text
    if path.startswith(("/v1/messages", "/api/")):
        error = reply.json["error"]
        message = error if path.startswith("/api/") else error["message"]
        words = re.split(r"[^a-z_]+", message)
        assert any(word in known | {"json_schema"} for word in words) or message.startswith(
            ("the body", "prompt is", "the prompt")
        ), message
        return
    error = reply.error
    if error["type"] == "exceed_context_size_error" or error["message"].startswith("the body"):
        return
    assert error["type"] == ("invalid_request_error" if reply.status == 400 else "not_supported_error")
    assert error["param"] is not None, error
    assert error["param"].split(".")[0].split("[")[0] in known and error["param"] in error["message"], error


@pytest.mark.parametrize("path", ENDPOINTS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_fields(small: Server, path: str, data: st.DataObject) -> None:
    body = data.draw(bodies(path))
    check(small, path, small.post(path, json.dumps(body).encode()), fields_of(path))


@pytest.mark.parametrize("path", ENDPOINTS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_bytes(small: Server, path: str, data: st.DataObject) -> None:
    """A body with some of its bytes replaced: not UTF-8, not JSON, or with other names and values."""
    text = json.dumps(data.draw(bodies(path)), ensure_ascii=False).encode("utf-8", "surrogatepass")
    at = data.draw(st.integers(0, len(text)))
    body = text[:at] + data.draw(st.binary(max_size=4)) + text[at + data.draw(st.integers(0, 4)) :]
    check(small, path, small.post(path, body), fields_of(path))


# OpenAI's published schema, as the types that the `openai` package has from it.
PUBLISHED: dict[str, Any] = {
    "/v1/chat/completions": openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming,
    "/v1/completions": openai.types.completion_create_params.CompletionCreateParamsNonStreaming,
    "/v1/responses": openai.types.responses.response_create_params.ResponseCreateParamsNonStreaming,
}


def as_json(value: object) -> object:
    """Iterables and objects of any type are drawn as some that JSON does not have."""
    return list(itertools.islice(value, 20)) if isinstance(value, Iterable) else str(value)


@st.composite
def published_bodies(draw: st.DrawFn, path: str) -> dict[str, Any]:
    hints = typing.get_type_hints(PUBLISHED[path])
    names = draw(st.lists(st.sampled_from(sorted(hints)), max_size=5, unique=True))
    return {**ENDPOINTS[path][0], **{name: draw(st.from_type(hints[name])) for name in names}}


@pytest.mark.parametrize("path", PUBLISHED)
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_published_schema(small: Server, path: str, data: st.DataObject) -> None:
    """Much of it (audio, files, searches) this server does not have: it answers, or names a field of the schema."""
    body = data.draw(published_bodies(path))
    text = json.dumps(body, ensure_ascii=False, default=as_json)
    reply = small.post(path, text.encode("utf-8", "replace"))
    check(small, path, reply, fields_of(path) | set(typing.get_type_hints(PUBLISHED[path])))


@pytest.mark.parametrize("path", odd_bodies.APIS)
def test_odd_conversations(small: Server, path: str) -> None:
    """Conversations, items, calls and tools of odd forms: no 500, and the server's memory stays. odd_bodies.py runs
    more of them."""
    first, failures = odd_bodies.run(small.port, path, range(150))
    assert failures == []
    before = odd_bodies.resident_mib(small.process.pid)
    second, failures = odd_bodies.run(small.port, path, range(150, 300))
    statuses = first + second
    assert failures == [] and statuses[200] > 10 and statuses[400] > 10
    assert odd_bodies.resident_mib(small.process.pid) < before + 64
