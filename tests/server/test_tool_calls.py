"""Tool calls over HTTP: a model that always writes the same answer, piece by piece, in a Hermes template."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import openai
import pytest
from tests.models.chain_model import (
    ARGUMENTS,
    FORECAST,
    FUNCTION,
    MESSAGES,
    PIECES,
    START,
    TOOLS,
    chain,
    write_chain,
)
from tests.models.tiny_models import Vocabulary, make
from tests.server.running import Server, serving


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_note_says_when_a_template_has_no_calls(
    specdec: pathlib.Path, tmp_path: pathlib.Path, is_plain: bool
) -> None:
    path = tmp_path / "model.gguf"
    if is_plain:
        template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        make("llama", seed=1, vocabulary=Vocabulary(chat_template=template)).write(path)
    else:
        write_chain(path, chain(PIECES))
    with serving(specdec, "-m", path) as server:
        server.process.terminate()
        assert server.process.stderr is not None
        notes = server.process.stderr.read()
    assert ("does not say how tool calls are written" in notes) == is_plain, notes


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
    assert [event["choices"][0]["finish_reason"] for event in events if event["choices"][0]["finish_reason"]] == [
        "tool_calls"
    ]
    if logprobs:
        count = sum(len((event["choices"][0]["logprobs"] or {"content": []})["content"]) for event in events)
        assert count == len(PIECES) + 1  # and the end


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 3, 4, 9, 40])
def test_tokens_of_the_reasoning_are_counted(caller: Server, max_tokens: int) -> None:
    reasoning = PIECES.index("</think>") + 1
    body = {"messages": MESSAGES, "tools": TOOLS, "n": 2, "max_tokens": max_tokens}
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    for usage in (
        caller.post("/v1/chat/completions", body).json["usage"],
        caller.post("/v1/chat/completions", streamed).events[-1]["usage"],
    ):
        assert usage["completion_tokens"] == 2 * min(max_tokens, len(PIECES) + 1)
        expected = 0 if max_tokens < 2 else min(max_tokens, reasoning)  # "<think>" alone has no reasoning yet
        assert usage["completion_tokens_details"]["reasoning_tokens"] == 2 * expected


def test_without_tools_it_is_content(caller: Server) -> None:
    for options in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        choice = chat(caller, **options)
        assert choice["finish_reason"] == "stop" and "tool_calls" not in choice["message"]
        assert choice["message"]["reasoning_content"] == "Hm."
        assert "<tool_call>" in choice["message"]["content"]


def test_variables_of_the_template(caller: Server) -> None:
    choice = chat(caller, tools=TOOLS, chat_template_kwargs={"enable_thinking": True, "level": "a string, not short"})
    assert choice["finish_reason"] == "tool_calls"


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
    ("field", "value"),
    [
        ("parallel_tool_calls", 1),
        ("tools", {}),
        ("tools", [{"type": "x"}]),
        ("tools", [{"type": "function", "function": {"name": "x", "parameters": 3}}]),
        ("tool_choice", "always"),
        ("tool_choice", 1),
        ("tool_choice", {"type": "custom"}),
        ("tool_choice", {"type": "function", "function": {"name": "nothing"}}),
    ],
    ids=str,
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
    assert (
        client.chat.completions.create(model="any", messages=messages, tools=TOOLS).choices[0].finish_reason
        == "tool_calls"
    )


@pytest.mark.parametrize(
    ("tool_choice", "name"), [("required", "weather"), (FUNCTION, "forecast")], ids=["any", "named"]
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_required(hesitant: Server, tool_choice: Any, name: str, stream: bool) -> None:
    tools = [*TOOLS, FORECAST]
    free = chat(hesitant, tools=tools)
    assert free["finish_reason"] == "stop" and free["message"]["content"] == "I look."
    client = openai.OpenAI(api_key="none", base_url=hesitant.url + "/v1", max_retries=0)
    options: Any = {"model": "any", "messages": MESSAGES, "tools": tools, "tool_choice": tool_choice}
    if stream:
        with client.chat.completions.stream(**options) as chunks:
            for _ in chunks:
                pass
            choice: Any = chunks.get_final_completion().choices[0]
    else:
        choice = client.chat.completions.create(**options).choices[0]
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls
    assert call.function.name == name and json.loads(call.function.arguments) == {"city": "Paris"}


@pytest.mark.parametrize(
    "body",
    [
        {"tool_choice": "required"},
        {"tool_choice": "required", "tools": []},
        {"tool_choice": "required", "tools": TOOLS, "regex": "a"},
    ],
    ids=["no tools", "empty", "regex"],
)
def test_calls_that_cannot_be_required(hesitant: Server, body: dict[str, Any]) -> None:
    reply = hesitant.post("/v1/chat/completions", {"messages": MESSAGES, **body})
    assert reply.status == 400 and reply.error["param"].startswith("tool_choice")


FORMAT: Any = {
    "type": "json_schema",
    "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}},
}


def test_a_required_call_with_a_format(hesitant: Server) -> None:
    """The format is one of the text of a message, which such an answer does not have."""
    for tool_choice, name in (("required", "weather"), (FUNCTION, "forecast")):
        choice = chat(hesitant, tools=[*TOOLS, FORECAST], tool_choice=tool_choice, response_format=FORMAT)
        assert choice["finish_reason"] == "tool_calls"
        assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == [name]


def test_a_call_or_text_in_a_format(hesitant: Server, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What the model prefers of a call and a text that obeys the format; other text cannot come."""
    choice = chat(hesitant, tools=TOOLS, response_format=FORMAT)
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert json.loads(chat(hesitant, response_format=FORMAT)["message"]["content"]) == {"a": 1}
    write_chain(tmp_path / "text.gguf", [*chain(["I lo", "ok."]), (START, '{"a"', 5)])
    with serving(specdec, "-m", tmp_path / "text.gguf", "--temp", "0") as server:
        assert chat(server, tools=TOOLS)["message"]["content"] == "I look."
        choice = chat(server, tools=TOOLS, response_format=FORMAT)
        assert choice["finish_reason"] == "stop" and json.loads(choice["message"]["content"]) == {"a": 1}


def test_a_call_in_reasoning_counts_once_the_answer_has_ended(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """One that is cut may still have returned to its reasoning."""
    pieces = [piece for piece in PIECES if piece not in ("</think>", "I lo", "ok.")]
    write_chain(tmp_path / "calls.gguf", chain(pieces))
    with serving(specdec, "-m", tmp_path / "calls.gguf", "--temp", "0") as server:
        for stream in (False, True):
            for max_tokens, is_call in ((len(pieces) + 1, True), (len(pieces), False)):
                body = {"messages": MESSAGES, "tools": TOOLS, "max_tokens": max_tokens, "stream": stream}
                reply = server.post("/v1/chat/completions", body)
                choices = [event["choices"][0] for event in (reply.events if stream else [reply.json])]
                parts = [choice.get("delta") or choice.get("message") or {} for choice in choices]
                assert any(part.get("tool_calls") for part in parts) == is_call
                assert choices[-1]["finish_reason"] == ("tool_calls" if is_call else "length")


def test_an_answer_ends_after_its_only_call(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A model that calls for ever."""
    calls = PIECES[PIECES.index("<tool_call>") :]
    write_chain(tmp_path / "calls.gguf", [*chain(calls), (calls[-1], calls[0], 20)])
    with serving(specdec, "-m", tmp_path / "calls.gguf", "--temp", "0", "-c", 512) as server:
        assert len(chat(server, tools=TOOLS, max_tokens=4 * len(calls))["message"]["tool_calls"]) > 1
        named = {"type": "function", "function": {"name": "weather"}}
        [_] = chat(server, tools=TOOLS, tool_choice=named, max_tokens=4 * len(calls))["message"]["tool_calls"]
        for stream in (False, True):
            body = {"messages": MESSAGES, "tools": TOOLS, "parallel_tool_calls": False, "stream": stream}
            reply = server.post("/v1/chat/completions", body)
            events = reply.events if stream else [reply.json]
            choices = [event["choices"][0] for event in events]
            assert choices[-1]["finish_reason"] == "tool_calls"
            parts = [choice.get("delta") or choice["message"] for choice in choices if choice.get("delta") != {}]
            found = [call for part in parts for call in part.get("tool_calls") or []]
            assert json.loads("".join(call["function"]["arguments"] for call in found)) == ARGUMENTS
            body = {"input": "Hello?", "tools": RESPONSE_TOOLS, "parallel_tool_calls": False, "stream": stream}
            reply = server.post("/v1/responses", body)
            response = reply.events[-1]["response"] if stream else reply.json
            assert [item["type"] for item in response["output"]] == ["function_call"]
            assert response["status"] == "completed"


PLAIN = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
CALL = '{"name": "weather", "arguments": {"city": "Paris", "days": 3}}'


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (CALL, None),
        (f"```json\n{CALL}\n```", None),
        (f"I look.\n```\n{CALL}\n```\n", "I look.\n"),
        (f"[{CALL}]", None),
        (f"<tools>\n{CALL}\n</tools>", None),
        (CALL.replace("arguments", "parameters"), None),
        ('{"tool_calls": [{"type": "function", "function": ' + CALL + "}]}", None),
    ],
)
def test_calls_in_json(specdec: pathlib.Path, tmp_path: pathlib.Path, text: str, content: str | None) -> None:
    """The model's template has no form for calls."""
    size = next(size for size in range(9, 20) if len(text) % size != 1)  # a byte has a token already
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert len(set(pieces)) == len(pieces)
    write_chain(tmp_path / "json.gguf", chain(pieces))
    (tmp_path / "plain.jinja").write_text(PLAIN)
    options = ("-m", tmp_path / "json.gguf", "--temp", "0", "--chat-template-file", tmp_path / "plain.jinja")
    with serving(specdec, *options) as server:
        choice = chat(server, tools=TOOLS)
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == content
        [call] = choice["message"]["tool_calls"]
        assert call["function"]["name"] == "weather" and json.loads(call["function"]["arguments"]) == ARGUMENTS
        events = server.post("/v1/chat/completions", {"messages": MESSAGES, "tools": TOOLS, "stream": True}).events
        deltas = [event["choices"][0]["delta"] for event in events]
        assert "".join(delta.get("content") or "" for delta in deltas) == (content or "")
        [streamed] = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert streamed["function"] == call["function"]
        assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
        assert chat(server)["message"]["content"] == text  # without tools it is text
        other = [FORECAST]  # a function that is not among them is not called
        assert chat(server, tools=other)["message"]["content"] == text
    with serving(specdec, *options, "--json-tool-calls", "never") as server:
        assert chat(server, tools=TOOLS)["message"]["content"] == text


def test_calls_in_json_over_every_api(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Where the template has a form of its own, too, unless that is switched off."""
    text = f"```json\n{CALL}\n```"
    pieces = [text[i : i + 9] for i in range(0, len(text), 9)]
    assert len(set(pieces)) == len(pieces)
    write_chain(tmp_path / "json.gguf", chain(pieces))
    options = ("-m", tmp_path / "json.gguf", "--temp", "0")
    with serving(specdec, *options, "--json-tool-calls", "never") as server:
        assert chat(server, tools=TOOLS)["message"]["content"] == text
    with serving(specdec, *options) as server:
        events = server.post("/v1/chat/completions", {"messages": MESSAGES, "tools": TOOLS, "stream": True}).events
        deltas = [event["choices"][0]["delta"] for event in events]
        [streamed] = [call for delta in deltas for call in delta.get("tool_calls", [])]
        [call] = chat(server, tools=TOOLS)["message"]["tool_calls"]
        assert streamed["function"] == call["function"] and json.loads(call["function"]["arguments"]) == ARGUMENTS
        [item] = server.post("/v1/responses", {"input": "Hello?", "tools": RESPONSE_TOOLS}).json["output"]
        assert item["type"] == "function_call" and json.loads(item["arguments"]) == ARGUMENTS
        schema = TOOLS[0]["function"]["parameters"]
        message = {"messages": MESSAGES, "max_tokens": 99, "tools": [{"name": "weather", "input_schema": schema}]}
        reply = server.post("/v1/messages", message).json
        assert reply["stop_reason"] == "tool_use" and reply["content"][-1]["input"] == ARGUMENTS
        [call] = server.post("/api/chat", {"messages": MESSAGES, "tools": TOOLS, "stream": False}).json["message"][
            "tool_calls"
        ]
        assert call["function"]["arguments"] == ARGUMENTS
        assert chat(server)["message"]["content"] == text


def test_a_required_call_in_json(server: Server) -> None:
    """The bundled models have no template."""
    schema = {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}, "required": ["city"]}
    schema["$defs"] = {"city": {"enum": ["Paris", "Rome"]}}
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in ("one", "two")]
    for choice in ("required", {"type": "function", "function": {"name": "two"}}):
        body = {"messages": MESSAGES, "tools": tools, "tool_choice": choice, "seed": 1}
        reply = server.post("/v1/chat/completions", body).json["choices"][0]
        [call] = reply["message"]["tool_calls"]
        assert call["function"]["name"] in (("one", "two") if choice == "required" else ("two",))
        assert json.loads(call["function"]["arguments"])["city"] in ("Paris", "Rome")


SET = {"type": "array", "items": {"type": "number", "minimum": 1}, "uniqueItems": True}
LONG = {"type": "string", "maxLength": 10000}
SET_TOOL: Any = {"name": "paint", "parameters": {"type": "object", "properties": {"a/b": SET, "c": LONG}}}


def test_what_is_not_enforced_in_calls_is_said(hesitant: Server, server: Server) -> None:
    """In the reply's header, where a call is required. Where it is not, arguments are as the model writes them."""
    name = "X-Ignored-Schema-Keywords"
    tools = [*TOOLS, {"type": "function", "function": SET_TOOL}]
    body = {"messages": MESSAGES, "tools": tools, "max_tokens": 4}
    places = ["paint: /properties/c/maxLength", "paint: /properties/a~1b/uniqueItems"]
    for stream in (False, True):
        reply = hesitant.post("/v1/chat/completions", {**body, "tool_choice": "required", "stream": stream})
        assert json.loads(reply.headers[name]) == places
    assert name not in hesitant.post("/v1/chat/completions", body).headers
    assert name not in hesitant.post("/v1/chat/completions", {**body, "tool_choice": FUNCTION}).headers
    assert (
        json.loads(hesitant.post("/v1/chat/completions", {**body, "response_format": FORMAT}).headers[name]) == places
    )
    response = {"input": "Hello?", "tools": [{"type": "function", **SET_TOOL}], "tool_choice": "required"}
    assert json.loads(hesitant.post("/v1/responses", {**response, "max_output_tokens": 4}).headers[name]) == places
    message = {"messages": MESSAGES, "max_tokens": 4, "tool_choice": {"type": "any"}}
    message["tools"] = [{"name": "paint", "input_schema": SET_TOOL["parameters"]}]
    assert json.loads(hesitant.post("/v1/messages", message).headers[name]) == places
    # Of calls in JSON, too, but there a string is counted.
    reply = server.post("/v1/chat/completions", {**body, "tools": tools[-1:], "tool_choice": "required"})
    assert json.loads(reply.headers[name]) == places[1:]


RESPONSE_TOOLS: Any = [{"type": "function", **tool["function"]} for tool in TOOLS]


def test_a_call_in_a_response(caller: Server) -> None:
    client = openai.OpenAI(api_key="none", base_url=caller.url + "/v1", max_retries=0)
    reply = client.responses.create(model="any", input="How is the weather?", tools=RESPONSE_TOOLS)
    assert reply.status == "completed"
    assert reply.usage and reply.usage.output_tokens_details.reasoning_tokens == PIECES.index("</think>") + 1
    thoughts, message, call = reply.output
    assert thoughts.type == "reasoning" and thoughts.content and thoughts.content[0].text == "Hm."
    assert message.type == "message" and reply.output_text.strip() == "I look."
    assert call.type == "function_call" and call.name == "weather" and call.status == "completed"
    assert json.loads(call.arguments) == ARGUMENTS
    # And on with the result, after all that came out.
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    question = {"role": "user", "content": "How is the weather?"}
    items: Any = [question, *[item.to_dict() for item in reply.output], result]
    further = client.responses.create(model="any", input=items, tools=RESPONSE_TOOLS)
    assert further.output[-1].type == "function_call"
    prompt = caller.post(
        "/apply-template",
        {
            "messages": [
                question,
                {
                    "role": "assistant",
                    "content": message.content[0].text,
                    "reasoning_content": "Hm.",
                    "tool_calls": [
                        {
                            "id": call.call_id,
                            "type": "function",
                            "function": {"name": "weather", "arguments": call.arguments},
                        }
                    ],
                },
                {"role": "tool", "content": "sunny", "tool_call_id": call.call_id},
            ],
            "tools": TOOLS,
        },
    ).json["prompt"]
    tokens = caller.post("/tokenize", {"content": prompt, "add_special": True}).json["tokens"]
    assert further.usage and further.usage.input_tokens == len(tokens)


def test_a_streamed_response_is_the_same(caller: Server) -> None:
    body = {"input": "How is the weather?", "tools": RESPONSE_TOOLS}
    whole = caller.post("/v1/responses", body).json
    events = caller.post("/v1/responses", {**body, "stream": True}).events
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    streamed = events[-1]["response"]
    assert events[-1]["type"] == "response.completed"

    def without_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in item.items() if name not in ("id", "call_id")} for item in items]

    assert without_ids(streamed["output"]) == without_ids(whole["output"])
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == streamed["output"]
    for index, item in enumerate(streamed["output"]):
        of_item = [event for event in events if event.get("output_index") == index]
        added = [event["type"] for event in of_item if event["type"].endswith(".added")]
        assert added == ["response.output_item.added", "response.content_part.added"][: 1 + ("content" in item)]
        deltas = [event for event in of_item if event["type"].endswith(".delta")]
        assert {event["item_id"] for event in deltas} == {item["id"]}
        text = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert "".join(event["delta"] for event in deltas) == text


def test_a_required_call_in_a_response(hesitant: Server) -> None:
    tools = [*RESPONSE_TOOLS, {"type": "function", **FORECAST["function"]}]
    for tool_choice, name in (("required", "weather"), ({"type": "function", "name": "forecast"}, "forecast")):
        reply = hesitant.post("/v1/responses", {"input": "Hello?", "tools": tools, "tool_choice": tool_choice}).json
        assert reply["output"][-1]["type"] == "function_call" and reply["output"][-1]["name"] == name
        assert reply["tool_choice"] == tool_choice and reply["tools"] == tools


def test_namespaces_and_tools_that_openai_runs(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As the codex agent sends them."""
    pieces = [
        "<tool_call>",
        '{"name": "sky__',
        'weather", "argu',
        'ments": {"ci',
        'ty": "Pa',
        'ris"',
        "}}",
        "</tool_call>",
    ]
    write_chain(tmp_path / "chain.gguf", chain(pieces))
    sky = {"type": "namespace", "name": "sky", "tools": RESPONSE_TOOLS}
    body = {"input": "Hello?", "tools": [{"type": "web_search"}, sky], "temperature": 0, "max_output_tokens": 40}
    with serving(specdec, "-m", tmp_path / "chain.gguf", "-md", "suffix") as server:
        whole = server.post("/v1/responses", body).json
        events = server.post("/v1/responses", {**body, "stream": True}).events
        for output in (whole["output"], events[-1]["response"]["output"]):
            [call] = output
            assert call["type"] == "function_call" and call["namespace"] == "sky" and call["name"] == "weather"
            assert json.loads(call["arguments"]) == {"city": "Paris"}
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        again = server.post("/v1/responses", {**body, "input": [{"role": "user", "content": "Hello?"}, call, result]})
        assert again.status == 200, again.text
        choice = {"type": "function", "namespace": "sky", "name": "weather"}
        assert server.post("/v1/responses", {**body, "tool_choice": choice}).json["output"][-1]["namespace"] == "sky"
        assert server.post("/v1/responses", {**body, "tools": [{"type": "web_search"}]}).status == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tools": 1}, "tools"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type"),
        ({"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "x"}]}]}, "tools[0].tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "x", "parameters": 1}]}, "tools[0].parameters"),
        ({"tools": RESPONSE_TOOLS, "tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tools": RESPONSE_TOOLS, "tool_choice": "always"}, "tool_choice"),
        ({"input": [{"role": "", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "function_call", "name": "weather", "arguments": "{}"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "a"}]}, "input[0].output"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input"),
    ],
    ids=str,
)
def test_bad_fields_of_responses(caller: Server, body: dict[str, Any], field: str) -> None:
    reply = caller.post("/v1/responses", {"input": "Hello?", **body})
    assert reply.status == 400 and reply.error["param"] == field
