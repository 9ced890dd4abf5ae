"""Calls of tools over HTTP: a model that always writes the same answer, piece by piece, in a Hermes template."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import openai
import pytest
from tests.models.tiny_models import Shape, Vocabulary, make
from tests.server.running import Server, serving

ARGUMENTS = {"city": "Paris", "days": 3}
# In pieces that differ, as a token is followed by the same token always. The first follows a line break.
PIECES = [
    "<think>",
    "Hm.",
    "</think>",
    "I lo",
    "ok.",
    "<tool_call>",
    '{"name": "wea',
    'ther", "argu',
    'ments": {"ci',
    'ty": "Pa',
]
PIECES += ['ris", "days"', ": 3", "}}", "</tool_call>"]
TEMPLATE = """{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{%- for message in messages %}{{ "<|" + message.role + "|>\\n" }}
{%- if message.reasoning_content %}{{ "<think>" + message.reasoning_content + "</think>" }}{% endif %}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls %}{{ '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ "}</tool_call>" }}{% endfor %}{{ "<|end|>\\n" }}{% endfor %}
{%- if add_generation_prompt %}{{ "<|assistant|>\\n" }}{% endif %}"""
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]
MESSAGES: Any = [{"role": "user", "content": "How is the weather?"}]
FIRST_PIECE = 2 + 128  # the ids of bytes that are not ASCII are renamed


def write_chain(path: pathlib.Path, pieces: list[str]) -> None:
    """A llama whose next token depends on the last one only: layers add nothing, embeddings are one-hot."""
    width = 320
    in_gpt2 = str.maketrans({" ": "\u0120", "\n": "\u010a"})
    ids: list[int] = []
    names: dict[int, str] = {}
    for piece in pieces:
        ids.append(FIRST_PIECE + len(ids))
        names[ids[-1]] = piece.translate(in_gpt2)
    vocabulary = replace(Vocabulary(), renamed=names, chat_template=TEMPLATE)
    model = make("llama", shape=replace(Shape(), width=width), vocabulary=vocabulary)
    for name, tensor in model.tensors.items():
        if name.endswith(("attn_output.weight", "ffn_down.weight")):
            tensor[:] = 0
    model.tensors["token_embd.weight"][:] = np.eye(vocabulary.size, width)
    output = model.tensors["output.weight"]
    output[:] = 0
    line_break = 2 + ord("\n")
    for last, following in zip([line_break, *ids], [*ids, vocabulary.eos], strict=True):
        output[following, last] = 10
    model.tensors["output_norm.weight"][:] = 1
    model.write(path)


@pytest.fixture(scope="module")
def caller(specdec: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("chain") / "chain.gguf"
    write_chain(path, PIECES)
    with serving(specdec, "-m", path, "-md", "suffix", "-np", 2, "--temp", "0") as server:
        yield server


def chat(server: Server, **body: Any) -> Any:
    reply = server.post("/v1/chat/completions", {"messages": MESSAGES, **body})
    assert reply.status == 200, reply.text
    return reply.json["choices"][0]


def test_a_call(caller: Server) -> None:
    choice = chat(caller, tools=TOOLS)
    assert choice["finish_reason"] == "tool_calls"
    message = choice["message"]
    [call] = message["tool_calls"]
    assert call["id"] and call["type"] == "function" and call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert message["content"].strip() == "I look." and message["reasoning_content"] == "Hm."


@pytest.mark.parametrize("logprobs", [False, True])
def test_a_streamed_call_is_the_same(caller: Server, logprobs: bool) -> None:
    whole = chat(caller, tools=TOOLS)["message"]
    options = {"messages": MESSAGES, "tools": TOOLS, "stream": True, "logprobs": logprobs}
    events = caller.post("/v1/chat/completions", options).events
    deltas = [event["choices"][0]["delta"] for event in events]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert len(calls) > 2 and [set(call) for call in calls[1:]] == [{"index", "function"}] * (len(calls) - 1)
    assert calls[0]["function"]["name"] == "weather" and calls[0]["id"] and calls[0]["type"] == "function"
    assert all(call["index"] == 0 for call in calls)
    assert "".join(call["function"]["arguments"] for call in calls) == whole["tool_calls"][0]["function"]["arguments"]
    for name in ("content", "reasoning_content"):
        assert "".join(delta.get(name) or "" for delta in deltas) == whole[name]
    assert [event["choices"][0]["finish_reason"] for event in events if event["choices"][0]["finish_reason"]] == ["tool_calls"]
    if logprobs:
        count = sum(len((event["choices"][0]["logprobs"] or {"content": []})["content"]) for event in events)
        assert count == len(PIECES) + 1  # and the end


def test_without_tools_it_is_content(caller: Server) -> None:
    for options in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        choice = chat(caller, **options)
        assert choice["finish_reason"] == "stop" and "tool_calls" not in choice["message"]
        assert choice["message"]["reasoning_content"] == "Hm."
        assert "<tool_call>" in choice["message"]["content"]


def test_a_call_that_is_cut(caller: Server) -> None:
    choice = chat(caller, tools=TOOLS, max_tokens=11)
    assert choice["finish_reason"] == "length"
    [call] = choice["message"]["tool_calls"]
    assert json.dumps(ARGUMENTS).startswith(call["function"]["arguments"])


def test_constrained_text_is_content(caller: Server) -> None:
    text = "<think>Hm.</think>I look."
    choice = chat(caller, tools=TOOLS, regex=text.replace(".", "[.]"))
    assert choice["message"]["content"] == text and "reasoning_content" not in choice["message"]


@pytest.mark.parametrize(
    ("field", "value"), [("parallel_tool_calls", 1), ("tools", {}), ("tools", [{"type": "x"}]), ("tool_choice", "required")]
)
def test_bad_fields(caller: Server, field: str, value: object) -> None:
    error = caller.post("/v1/chat/completions", {"messages": MESSAGES, "tools": TOOLS, field: value}).error
    assert field in error["message"]


def test_the_openai_package(caller: Server) -> None:
    client = openai.OpenAI(api_key="none", base_url=caller.url + "/v1", max_retries=0)
    reply = client.chat.completions.create(model="any", messages=MESSAGES, tools=TOOLS)
    assert reply.choices[0].message.tool_calls
    with client.chat.completions.stream(model="any", messages=MESSAGES, tools=TOOLS) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed and streamed[0].type == "function"
    assert json.loads(streamed[0].function.arguments) == ARGUMENTS
    # And on with the result.
    call = reply.choices[0].message.tool_calls[0]
    messages = [*MESSAGES, reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    assert client.chat.completions.create(model="any", messages=messages, tools=TOOLS).choices[0].finish_reason == "tool_calls"
