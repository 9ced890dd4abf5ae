"""Conversations as clients send them, in forms that a template need not take: no request is refused, no text lost."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.running import PROMPT, Server, serving

CHAT = "/v1/chat/completions"
USER, MORE, ANSWER = (
    {"role": "user", "content": "QUESTION"},
    {"role": "user", "content": "NEXT"},
    {"role": "assistant", "content": "ANSWER"},
)
FIRST, SECOND = {"role": "system", "content": "FIRST"}, {"role": "developer", "content": "SECOND"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def calling(arguments: str) -> Any:
    return {**CALLS, "tool_calls": [{**CALL, "function": {"name": "weather", "arguments": arguments}}]}


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "RESULT"}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
CONVERSATIONS: dict[str, list[Any]] = {
    "developer alone": [SECOND, USER],
    "two systems": [FIRST, SECOND, USER],
    "late system": [FIRST, USER, SECOND],
    "system in the middle": [FIRST, USER, ANSWER, SECOND, MORE],
    "system at the end": [USER, ANSWER, MORE, SECOND],
    "system only": [FIRST],
    "two of the user": [FIRST, USER, MORE],
    "two of the assistant": [USER, ANSWER, {"role": "assistant", "content": "AGAIN"}, MORE],
    "the assistant first": [ANSWER, USER],
    "a call": [USER, CALLS, RESULT],
    "the user after a result": [FIRST, USER, CALLS, RESULT, MORE],
    "a system within a call": [FIRST, USER, CALLS, SECOND, RESULT, MORE],
    "a result in parts": [USER, CALLS, {**RESULT, "content": [{"type": "text", "text": "RESULT"}]}],
    "an empty result": [USER, CALLS, {**RESULT, "content": None}, MORE],
    "ids left out": [
        USER,
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
        {"role": "tool", "content": "RESULT"},
    ],
    "a call that was cut off": [USER, calling('{"city": "Ro'), RESULT, MORE],
    "a call with a list": [USER, calling('["Rome"]'), RESULT],
    "two results of a call": [USER, CALLS, RESULT, {**RESULT, "content": "AGAIN"}],
    "a result without a call": [USER, RESULT],
    "a result without a call, later": [USER, CALLS, RESULT, ANSWER, MORE, {**RESULT, "content": "AGAIN"}],
    "calls of the older API": [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
        {"role": "function", "name": "weather", "content": "RESULT"},
    ],
    "null of the user": [USER, ANSWER, {"role": "user", "content": None}],
    "no text at all": [{"role": "user", "content": []}],
    "fields of other servers": [USER, {**ANSWER, "annotations": [], "audio": None, "reasoning_details": []}, MORE],
}
TEMPLATES = [
    "Qwen3.5-4B",
    "Qwen-Qwen3-0.6B",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "google-gemma-4-31B-it",
    "google-gemma-2-2b-it",
    "openai-gpt-oss-120b",
    "meta-llama-Llama-3.1-8B-Instruct",
    "openbmb-MiniCPM5-1B",
    "upstage-Solar-Open-100B",
    "MiniMax-M2",
    "ByteDance-Seed-OSS",
    "LFM2.5-8B-A1B",
    "Kimi-K2-Thinking",
    "Apertus-8B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
    "llama-cpp-rwkv-world",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_text_is_in_the_prompt(specdec: pathlib.Path, templates: dict[str, str], name: str) -> None:
    text = templates[name]
    with serving(specdec, "-c", 16384, "--chat-template", text) as server:
        for what, messages in CONVERSATIONS.items():
            for tools in ({}, {"tools": TOOLS}):
                if not tools and (CALLS in messages or name.endswith("tool_use")):
                    continue
                reply = server.post("/apply-template", {"messages": messages, **tools})
                assert reply.status == 200, (what, reply.text)
                lost = [
                    word
                    for word in ("QUESTION", "ANSWER", "NEXT", "FIRST", "SECOND", "AGAIN", "RESULT")
                    if f'"{word}"' in json.dumps(messages) and word not in reply.json["prompt"]
                ]
                assert not lost, (what, reply.json["prompt"])
            assert server.post(CHAT, {"messages": messages, "max_tokens": 1, **tools}).status == 200, what


@pytest.fixture(scope="session")
def templates() -> dict[str, str]:
    from tests.chat.conftest import ROOT, fetch

    folder = ROOT / ".cache" / f"templates-{fetch.SHA256[:12]}"
    try:
        return {path.stem: path.read_text(encoding="utf-8") for path in fetch.templates(folder)}
    except SystemExit as error:  # it needs the network the first time
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def echo(specdec: pathlib.Path) -> Iterator[Server]:
    """A template that writes all that it knows."""
    template = (
        "{% for m in messages %}<{{ m.role }}{{ m.tool_call_id }}>{{ m.content }}"
        "{% if m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}"
        "{% for c in m.tool_calls or [] %}({{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }})"
        "{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    with serving(specdec, "-c", 2048, "--chat-template", template) as running:
        yield running


ASSISTANTS: list[tuple[dict[str, Any], str]] = [
    ({"content": None}, ""),
    ({}, ""),
    ({"content": []}, ""),
    ({"content": "", "tool_calls": None, "refusal": None, "function_call": None}, ""),
    ({"content": None, "tool_calls": []}, ""),
    ({"content": None, "reasoning_content": "Hm."}, "[Hm.]"),
    ({"reasoning": "Hm."}, "[Hm.]"),
    ({"content": None, "refusal": "No."}, "No."),
    ({"content": [{"type": "refusal", "refusal": "No."}]}, "No."),
    ({"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}]}, "Yes.[Hm.]"),
    ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}, "[Hm.]"),
    ({"tool_calls": [{"function": {"name": "f"}}]}, "(call_0 f {})"),
    ({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": ""}}]}, "(a f {})"),
    ({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": None}}]}, "(a f {})"),
    ({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": " \n"}}]}, "(a f {})"),
    ({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"b": 1}}}]}, '(a f {"b": 1})'),
]


@pytest.mark.parametrize("case", ASSISTANTS, ids=str)
def test_what_assistants_said(echo: Server, case: tuple[dict[str, Any], str]) -> None:
    fields, text = case
    messages = [USER, {"role": "assistant", **fields}, MORE]
    reply = echo.post("/apply-template", {"messages": messages})
    assert reply.status == 200, reply.text
    assert reply.json["prompt"] == f"<user>QUESTION<assistant>{text}<user>NEXT<assistant>"
    assert echo.post(CHAT, {"messages": messages, "max_tokens": 1}).status == 200


@pytest.mark.parametrize("content", ["", " \n", None, []], ids=repr)
def test_an_empty_answer_at_the_end_is_not_continued(echo: Server, content: Any) -> None:
    messages = [USER, {"role": "assistant", "content": content}]
    assert echo.post("/apply-template", {"messages": messages}).json["prompt"] == "<user>QUESTION<assistant>"


def test_errors_of_a_template_show_no_path(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    template = "{{ raise_exception('never') }}"
    with serving(specdec, "--chat-template", template) as server:
        for path in (CHAT, "/apply-template", "/v1/messages", "/api/chat"):
            reply = server.post(path, {"messages": [USER], "max_tokens": 1})
            assert reply.status == 400 and "never" in reply.text
            assert ".gguf" not in reply.text and "/models" not in reply.text


def test_tools_that_are_no_functions(server: Server) -> None:
    function = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
    for kind in ("custom", "local_shell", "mcp", "computer_use_preview", "apply_patch", "something_new"):
        body = {"input": PROMPT, "max_output_tokens": 1, "tools": [function, {"type": kind, "name": "x"}]}
        reply = server.post("/v1/responses", body)
        assert reply.status == 200, reply.text
        assert json.loads(reply.headers["X-Ignored-Tools"]) == [f"tools[1].type: {kind}"]
        alone = server.post("/v1/responses", {**body, "tools": body["tools"][1:]})  # type: ignore[index]
        assert alone.status == 400 and alone.error["param"] == "tools[0].type"


def test_items_that_clients_send_back(echo: Server) -> None:
    items = [
        {"type": "message", "role": "user", "content": "a"},
        {"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "diff"},
        {"type": "custom_tool_call_output", "call_id": "1", "output": "done"},
        {"type": "local_shell_call", "call_id": "2", "status": "completed", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "2", "output": "file"},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"type": "function_call", "call_id": "3", "name": "f", "arguments": ""},
        {"type": "function_call_output", "call_id": "3", "output": [{"type": "input_text", "text": "b"}]},
    ]
    reply = echo.post("/v1/responses", {"input": items, "max_output_tokens": 9, "temperature": 0})
    assert reply.status == 200, reply.text
    messages: list[dict[str, Any]] = [{"role": "user", "content": "a"}]
    for i, (name, arguments, output) in enumerate(
        (("patch", {"input": "diff"}, "done"), ("local_shell", {"command": ["ls"]}, "file"), ("f", {}, "b")), 1
    ):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"{i}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"{i}", "content": output})
    chat = echo.post(CHAT, {"messages": messages, "max_tokens": 9, "temperature": 0}).json
    assert reply.json["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]
    assert reply.json["output"][0]["content"][0]["text"] == chat["choices"][0]["message"]["content"]


def test_results_that_name_their_calls_in_ollamas_messages(echo: Server) -> None:
    """In another order than the calls."""
    ids = ("first", "the second")
    calls: list[dict[str, Any]] = [{"id": name, "function": {"name": "f", "arguments": {}}} for name in ids]
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in reversed(ids)]
    messages = [USER, {"role": "assistant", "content": "", "tool_calls": calls}, *results[:1]]
    body = {"messages": messages, "stream": False, "options": {"num_predict": 1}}
    expected = echo.post(CHAT, {"messages": messages, "max_tokens": 1}).json["usage"]["prompt_tokens"]
    assert echo.post("/api/chat", body).json["prompt_eval_count"] == expected


def test_claude_codes_line_of_billing(server: Server) -> None:
    def tokens(*texts: str) -> int:
        system = [{"type": "text", "text": text} for text in texts]
        body = {"messages": [{"role": "user", "content": "a"}], "system": system}
        count: int = server.post("/v1/messages/count_tokens", body).json["input_tokens"]
        return count

    billing = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=fa690;"
    assert tokens(billing, "Be brief.") == tokens("Be brief.") < tokens("Be brief.", billing)


def test_numbers_of_other_languages(server: Server) -> None:
    plain = server.text(max_tokens=4, seed=3, top_k=5)
    assert server.text(max_tokens=4.0, seed=3.0, top_k=5.0, n=1.0, repeat_last_n=64.0) == plain
    assert server.post("/detokenize", {"tokens": [5.0, 6]}).json == server.post("/detokenize", {"tokens": [5, 6]}).json
    for seed in (2**53 + 1, 2**63 + 5, 2**64 - 1):
        reply = server.post("/completion", {"prompt": PROMPT, "n_predict": 1, "seed": seed}).json
        assert reply["generation_settings"]["seed"] == seed
    for wrong in (1.5, 1e300, -0.5):
        assert server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": wrong}).error["param"] == "max_tokens"


def test_paths_of_two_apis(server: Server) -> None:
    openai = server.post("/completions", {"model": "any", "prompt": PROMPT, "max_tokens": 2}).json
    assert openai["object"] == "text_completion"
    for body in ({"prompt": PROMPT, "n_predict": 2}, {"model": "any", "prompt": PROMPT, "n_predict": 2}):
        assert server.post("/completions", body).json["tokens_predicted"] == 2
    expected = server.post("/v1/embeddings", {"input": "a"}).json["data"][0]["embedding"]
    for path in ("/embedding", "/embeddings"):
        assert server.post(path, {"content": "a"}).json == [{"index": 0, "embedding": [expected]}]
        assert server.post(path, {"input": "a"}).json["data"][0]["embedding"] == expected
    assert len(server.post("/embedding", {"content": ["a", "b"]}).json) == 2
    name = server.get("/v1/models").json["data"][0]["id"]
    for asked in (name, "gpt-4o", name.removesuffix(".gguf"), name + ":latest"):
        assert server.get(f"/v1/models/{asked}").json["id"] == name


def test_misspelt_fields_are_named_in_the_log(specdec: pathlib.Path) -> None:
    with serving(specdec) as running:
        body = {"prompt": PROMPT, "max_tokens": 1, "temprature": 0, "x\x1b[31m": 1, "user": "a"}
        assert running.post("/v1/completions", body).status == 200
        _, log = running.stop()
    (line,) = [line for line in log.splitlines() if "/v1/completions" in line]
    assert line.endswith("unknown fields: temprature x\\x1b[31m") or "unknown fields: temprature " in line
    assert "\x1b" not in line and "user" not in line


def test_context_of_ollamas_clients(specdec: pathlib.Path) -> None:
    turns = [{"role": ("user", "assistant")[i % 2], "content": f"turn {i} " + "a b c " * 8} for i in range(41)]
    messages = [{"role": "system", "content": "SYSTEM"}, *turns]
    options = {"num_predict": 4, "seed": 1}
    with serving(specdec, "-c", 256) as running:
        show = running.post("/api/show", {"model": "any"}).json
        assert "num_ctx" in show["parameters"] and "256" in show["parameters"]
        lengths = [value for name, value in show["model_info"].items() if name.endswith(".context_length")]
        assert lengths == [256]

        def chat(**more: Any) -> Any:
            return running.post("/api/chat", {"messages": messages, "stream": False, "options": {**options, **more}})

        whole = chat()
        assert whole.status == 200, whole.text
        assert 100 < whole.json["prompt_eval_count"] < 256
        dropped = int(whole.headers["X-Dropped-Messages"])
        assert dropped > 20 and dropped % 2 == 0
        small = chat(num_ctx=128)
        assert 0 < small.json["prompt_eval_count"] < 128 and int(small.headers["X-Dropped-Messages"]) > dropped
        long = chat(num_ctx=128, num_predict=-1)
        assert long.json["prompt_eval_count"] + long.json["eval_count"] <= 128
        assert chat(num_ctx=100_000).status == 200
        assert running.post(CHAT, {"messages": messages}).error["type"] == "exceed_context_size_error"
        _, log = running.stop()
        assert "num_ctx 100000 is larger than this server's context, 256" in log and "dropped " in log
    with serving(specdec, "-c", 256, "--context-overflow", "drop") as running:
        reply = running.post(CHAT, {"messages": messages, "max_tokens": 1})
        assert reply.status == 200 and int(reply.headers["X-Dropped-Messages"]) == dropped
        one = [{"role": "user", "content": "a b c " * 500}]
        assert running.post(CHAT, {"messages": one}).error["type"] == "exceed_context_size_error"
    with serving(specdec, "-c", 256, "--context-overflow", "error") as running:
        assert running.post("/api/chat", {"messages": messages, "options": options}).status == 400
