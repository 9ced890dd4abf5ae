"""Anthropic's API, by the `anthropic` package and by hand."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import anthropic
import pydantic
import pytest
from tests.models.chain_model import ARGUMENTS, FORECAST, MUSING, PIECES, TOOLS, write_chain
from tests.server.running import PROMPT, Reply, Server, serving

MESSAGES: Any = [{"role": "user", "content": PROMPT}]
WEATHER: Any = [{"role": "user", "content": "How is the weather?"}]


def anthropic_tools(*tools: Any) -> Any:
    return [
        {
            "name": tool["function"]["name"],
            "description": tool["function"].get("description", ""),
            "input_schema": tool["function"]["parameters"],
        }
        for tool in tools
    ]


CLIENT_TOOLS = anthropic_tools(*TOOLS)


def client_of(server: Server, key: str = "none") -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key=key, base_url=server.url, max_retries=0)


@pytest.fixture(scope="module")
def client(server: Server) -> anthropic.Anthropic:
    return client_of(server)


def error_of(reply: Reply) -> Any:
    assert reply.status >= 400, reply.text
    assert set(reply.json) == {"type", "error"} and reply.json["type"] == "error"
    assert set(reply.json["error"]) == {"type", "message"}
    return reply.json["error"]


def test_text_is_that_of_a_chat(server: Server, client: anthropic.Anthropic) -> None:
    message = client.messages.create(model="any", messages=MESSAGES, max_tokens=16, extra_body={"seed": 5})
    chat = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 16, "seed": 5}).json
    assert message.type == "message" and message.role == "assistant" and message.id.startswith("msg_")
    [block] = message.content
    assert block.type == "text" and block.text == chat["choices"][0]["message"]["content"]
    assert message.stop_reason == "max_tokens" and message.stop_sequence is None
    assert message.usage.output_tokens == 16


def test_the_system_prompt_and_blocks(server: Server, client: anthropic.Anthropic) -> None:
    def count(messages: Any) -> int:
        body = {"messages": messages}
        found: int = server.post("/v1/chat/completions/input_tokens", body).json["input_tokens"]
        return found

    expected = count(
        [{"role": "system", "content": "Be brief.\nBe kind."}, {"role": "user", "content": "a = 1\nb = 2"}]
    )
    system: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    system.append({"type": "text", "text": "Be kind."})
    blocks: Any = [{"role": "user", "content": [{"type": "text", "text": "a = 1"}, {"type": "text", "text": "b = 2"}]}]
    for given in (system, "Be brief.\nBe kind."):
        counted = client.messages.count_tokens(model="any", system=given, messages=blocks)
        assert counted.input_tokens == expected
        usage = client.messages.create(model="any", max_tokens=1, system=given, messages=blocks).usage
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == expected


def test_a_conversation_longer_than_the_context_is_counted(server: Server, client: anthropic.Anthropic) -> None:
    """Agents shorten their conversations by these counts."""
    messages: Any = [{"role": "user", "content": "x = 1\n" * 2000}]
    count = client.messages.count_tokens(model="any", messages=messages).input_tokens
    assert count == len(server.post("/tokenize", {"content": "x = 1\n" * 2000, "add_special": True}).json["tokens"])
    counted = server.post("/v1/chat/completions/input_tokens", {"messages": messages})
    assert count > 4000 and counted.json["input_tokens"] == count


def test_cached_tokens_are_no_input(client: anthropic.Anthropic) -> None:
    messages: Any = [{"role": "user", "content": "x = [" + ", ".join(map(str, range(60))) + "]"}]
    total = client.messages.count_tokens(model="any", messages=messages).input_tokens
    first = client.messages.create(model="any", max_tokens=2, messages=messages).usage
    again = client.messages.create(model="any", max_tokens=2, messages=messages).usage
    for usage in (first, again):
        assert usage.cache_read_input_tokens is not None and usage.cache_creation_input_tokens == 0
        assert usage.input_tokens + usage.cache_read_input_tokens == total
    assert (again.cache_read_input_tokens or 0) > total // 2 > (first.cache_read_input_tokens or 0)
    with client.messages.stream(model="any", max_tokens=2, messages=messages) as stream:
        start = next(iter(stream))
    assert start.type == "message_start" and start.message.usage.input_tokens == again.input_tokens


def test_the_order_of_events(server: Server) -> None:
    body = {"messages": MESSAGES, "max_tokens": 8, "seed": 5}
    whole = server.post("/v1/messages", body).json
    reply = server.post("/v1/messages", {**body, "stream": True})
    names = [line.removeprefix("event: ") for line in reply.text.splitlines() if line.startswith("event: ")]
    events = reply.events
    assert names == [event["type"] for event in events]
    deltas = names.count("content_block_delta")
    assert names == [
        "message_start",
        "ping",
        "content_block_start",
        *["content_block_delta"] * deltas,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(event["index"] == 0 for event in events if event["type"].startswith("content_block"))
    start = events[0]["message"]
    assert start["content"] == [] and start["stop_reason"] is None
    assert (
        "".join(event["delta"]["text"] for event in events if "delta" in event and "text" in event["delta"])
        == (whole["content"][0]["text"])
    )
    assert events[-2]["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}
    assert events[-2]["usage"]["output_tokens"] == 8


def test_a_stop_sequence(server: Server, client: anthropic.Anthropic) -> None:
    text = server.post("/v1/messages", {"messages": MESSAGES, "max_tokens": 24, "temperature": 0}).json["content"][0]
    stop = text["text"][8:11]
    options: Any = {"model": "any", "messages": MESSAGES, "max_tokens": 24, "extra_body": {"temperature": 0}}
    message = client.messages.create(**options, stop_sequences=["never there", stop])
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == stop
    block = message.content[0]
    assert block.type == "text" and block.text == text["text"][: text["text"].index(stop)]
    with client.messages.stream(**options, stop_sequences=[stop]) as stream:
        streamed = stream.get_final_message()
    assert streamed.stop_sequence == stop and streamed.content[0].type == "text"
    assert streamed.content[0].text == block.text


def test_an_answer_is_continued(server: Server) -> None:
    options = {"max_tokens": 8, "temperature": 0}
    begun = [*MESSAGES, {"role": "assistant", "content": [{"type": "text", "text": "    queue = "}]}]
    answer = server.post("/v1/messages", {"messages": begun, **options}).json
    as_chat = [*MESSAGES, {"role": "assistant", "content": "    queue = "}]
    body = {"messages": as_chat, "continue_final_message": True, **options}
    chat = server.post("/v1/chat/completions", body).json["choices"][0]["message"]["content"]
    assert answer["content"][0]["text"] == chat
    prompt = server.post("/apply-template", {"messages": as_chat, "continue_final_message": True}).json["prompt"]
    assert prompt.endswith("    queue = ")


def test_a_tool_is_called(caller: Server) -> None:
    client = client_of(caller)
    options: Any = {"model": "any", "messages": WEATHER, "tools": CLIENT_TOOLS, "max_tokens": 100}
    message = client.messages.create(**options)
    thinking, text, call = message.content
    assert thinking.type == "thinking" and thinking.thinking == "Hm."
    assert text.type == "text" and text.text.strip() == "I look."
    assert call.type == "tool_use" and call.name == "weather" and call.input == ARGUMENTS
    assert message.stop_reason == "tool_use"
    details = message.usage.output_tokens_details
    assert details and details.thinking_tokens == PIECES.index("</think>") + 1

    with client.messages.stream(**options) as stream:
        indices = [event.index for event in stream if event.type.startswith("content_block_")]
        streamed = stream.get_final_message()
    assert sorted(set(indices)) == [0, 1, 2] and indices == sorted(indices)
    assert streamed.stop_reason == "tool_use"

    def without_ids(blocks: Any) -> Any:
        return [block.to_dict() | {"id": ""} for block in blocks]

    assert without_ids(streamed.content) == without_ids(message.content)

    # And on with the result, after all that came out.
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "sunny"}]}
    answer: Any = {"role": "assistant", "content": [block.to_dict() for block in message.content]}
    user: Any = {"role": "user", "content": [result, {"type": "text", "text": "Thanks."}]}
    counted = client.messages.count_tokens(model="any", messages=[*WEATHER, answer, user], tools=CLIENT_TOOLS)
    function = {"name": "weather", "arguments": json.dumps(ARGUMENTS)}
    as_chat = [
        *WEATHER,
        {
            "role": "assistant",
            "content": text.text,
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": call.id, "type": "function", "function": function}],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": call.id},
        {"role": "user", "content": "Thanks."},
    ]
    body = {"messages": as_chat, "tools": TOOLS}
    assert counted.input_tokens == caller.post("/v1/chat/completions/input_tokens", body).json["input_tokens"]
    further = client.messages.create(model="any", messages=[*WEATHER, answer, user], tools=CLIENT_TOOLS, max_tokens=60)
    assert further.stop_reason == "tool_use"


def test_thinking_that_is_not_shown(caller: Server) -> None:
    body = {"messages": WEATHER, "tools": CLIENT_TOOLS, "thinking": {"type": "adaptive", "display": "omitted"}}
    blocks = caller.post("/v1/messages", body).json["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "", "signature": ""}
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]


def test_a_call_that_is_cut(caller: Server) -> None:
    options: Any = {"model": "any", "messages": WEATHER, "tools": CLIENT_TOOLS, "max_tokens": 11}
    message = client_of(caller).messages.create(**options)
    assert message.stop_reason == "max_tokens"
    call = message.content[-1]
    assert call.type == "tool_use" and call.input == {}
    with client_of(caller).messages.stream(**options) as stream:
        streamed = stream.get_final_message().content[-1]
    assert streamed.type == "tool_use" and streamed.input == {"city": "Paris"}  # as far as it goes


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "any"}, "weather"),
        ({"type": "tool", "name": "forecast"}, "forecast"),
        ({"type": "auto", "disable_parallel_tool_use": True}, None),
        ({"type": "none"}, None),
    ],
    ids=str,
)
def test_the_choice_of_a_tool(hesitant: Server, choice: Any, name: str | None) -> None:
    tools = anthropic_tools(*TOOLS, FORECAST)
    message = client_of(hesitant).messages.create(
        model="any", messages=WEATHER, tools=tools, tool_choice=choice, max_tokens=60
    )
    calls = [block for block in message.content if block.type == "tool_use"]
    assert [call.name for call in calls] == ([name] if name else [])
    assert message.stop_reason == ("tool_use" if name else "end_turn")


class Colour(pydantic.BaseModel):
    red: bool


def test_structured_output(client: anthropic.Anthropic) -> None:
    parsed = client.messages.parse(model="any", messages=MESSAGES, max_tokens=60, output_format=Colour)
    assert isinstance(parsed.parsed_output, Colour)


def test_what_templates_know_of_thinking(specdec: pathlib.Path) -> None:
    template = "{{ messages[0].content }} {{ enable_thinking }} {{ reasoning_effort }} {{ name }}"
    with serving(specdec, "--chat-template", template) as server:
        for thinking, enabled in (("adaptive", True), ("enabled", True), ("disabled", False)):
            body = {"messages": MESSAGES, "thinking": {"type": thinking}, "output_config": {"effort": "low"}}
            body["chat_template_kwargs"] = {"name": "a long name"}
            variables = {"enable_thinking": enabled, "reasoning_effort": "low", "name": "a long name"}
            chat = {"messages": MESSAGES, "chat_template_kwargs": variables}
            expected = server.post("/v1/chat/completions/input_tokens", chat).json["input_tokens"]
            found = server.post("/v1/messages/count_tokens", body).json["input_tokens"]
            plain = server.post("/v1/messages/count_tokens", {"messages": MESSAGES}).json["input_tokens"]
            assert found == expected > plain


IGNORED: dict[str, Any] = {
    "metadata": {"user_id": "me"},
    "service_tier": "auto",
    "cache_control": {"type": "ephemeral"},
    "inference_geo": "eu",
    "speed": "fast",
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "mcp_servers": [],
}


def test_fields_that_change_nothing(server: Server) -> None:
    body = {"messages": MESSAGES, "max_tokens": 8, "seed": 5}
    text = server.post("/v1/messages", body).json["content"]
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "x-2025-01-01"}
    assert server.post("/v1/messages?beta=true", {**body, **IGNORED}, headers).json["content"] == text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].image"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": 1}]}
                ]
            },
            "messages[0].content[0].input",
        ),
        ({"system": 1}, "system"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"stop_sequences": 1}, "stop_sequences"),
        ({"stop_sequences": [""]}, "stop"),
        ({"temperature": -1}, "temperature"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "f", "input_schema": {}, "defer_loading": True}]}, "tools[0].defer_loading"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "context_management.edits[0].type"),
        ({"stream": 1}, "stream"),
    ],
    ids=str,
)
def test_bad_fields(server: Server, body: dict[str, Any], field: str) -> None:
    reply = server.post("/v1/messages", {"messages": MESSAGES, "max_tokens": 4, **body})
    error = error_of(reply)
    assert reply.status == 400 and error["type"] == "invalid_request_error"
    assert error["message"].startswith(field), error


def test_errors(server: Server, client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(model="any", messages=MESSAGES, max_tokens=4, extra_body={"temperature": -1})
    long: Any = [{"role": "user", "content": "a b " * 4000}]
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > \d+ maximum"):
        client.messages.create(model="any", messages=long, max_tokens=4)
    assert error_of(server.post("/v1/messages/batches", {}))["type"] == "not_found_error"
    assert error_of(server.post("/v1/messages", b"{"))["type"] == "invalid_request_error"


def test_keys(specdec: pathlib.Path) -> None:
    with serving(specdec, "--api-key", "secret") as server:
        options: Any = {"model": "any", "messages": MESSAGES, "max_tokens": 2}
        assert client_of(server, "secret").messages.create(**options).usage.output_tokens == 2
        with pytest.raises(anthropic.AuthenticationError) as raised:
            client_of(server, "wrong").messages.create(**options)
        body: Any = raised.value.body
        assert body["error"]["type"] == "authentication_error"


def test_an_error_in_a_stream(specdec: pathlib.Path) -> None:
    with serving(specdec, "--timeout", "1", "-c", "16384") as server:
        body = {"messages": MESSAGES, "stream": True, "ignore_eos": True}
        events = server.post("/v1/messages", body).events
    assert events[-1] == {
        "type": "error",
        "error": {"type": "timeout_error", "message": "the request took longer than 1 seconds"},
    }


def test_a_budget_of_thinking(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """It ends after so many tokens, in every API's field for that."""
    write_chain(tmp_path / "chain.gguf", MUSING)
    with serving(specdec, "-m", tmp_path / "chain.gguf", "-md", "suffix", "--temp", "0") as musing:
        client = anthropic.Anthropic(base_url=musing.url, api_key="none", max_retries=0)
        thinking: Any = {"type": "enabled", "budget_tokens": 3}
        message = client.messages.create(model="any", max_tokens=40, messages=MESSAGES, thinking=thinking)
        first, second = message.content
        assert first.type == "thinking" and first.thinking == "Hm.Well Hm."
        assert second.type == "text" and second.text == "ok." and message.stop_reason == "end_turn"
        body = {"messages": MESSAGES, "max_tokens": 40}
        for field in ("reasoning_budget", "reasoning_budget_tokens", "thinking_budget_tokens", "thinking_token_budget"):
            choice = musing.post("/v1/chat/completions", {**body, field: 3}).json["choices"][0]
            assert choice["message"]["reasoning_content"] == "Hm.Well Hm." and choice["message"]["content"] == "ok."
        for budget in (-1, None):
            choice = musing.post("/v1/chat/completions", {**body, "reasoning_budget": budget}).json["choices"][0]
            assert choice["finish_reason"] == "length"
    with serving(
        specdec, "-m", tmp_path / "chain.gguf", "-md", "suffix", "--temp", "0", "--reasoning-budget", 1
    ) as brief:
        choice = brief.post("/v1/chat/completions", body).json["choices"][0]
        assert choice["message"]["reasoning_content"] == "Hm."
