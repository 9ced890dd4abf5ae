"""Conversations that end with the beginning of the assistant's answer."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.models.chain_model import ARGUMENTS, MESSAGES, PIECES, TOOLS, chain, write_chain
from tests.server.running import Server, serving

ASKED = "<|user|>\nHow is the weather?<|end|>\n"
BEGUN = {"role": "assistant", "content": "Let me see:\n"}
THINKING = {"role": "assistant", "content": "", "reasoning_content": "Well,\n"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """After a line break it writes the rest of its reasoning, then content and a call."""
    path = tmp_path_factory.mktemp("chain") / "chain.gguf"
    write_chain(path, chain(PIECES[1:]))
    return path


@pytest.fixture(scope="module")
def content_model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """After a line break it writes content and a call."""
    path = tmp_path_factory.mktemp("chain") / "content.gguf"
    write_chain(path, chain(PIECES[3:]))
    return path


@pytest.fixture(scope="module")
def server(specdec: pathlib.Path, model: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "-m", model, "-md", "suffix", "--temp", "0") as running:
        yield running


@pytest.fixture(scope="module")
def content_server(specdec: pathlib.Path, content_model: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "-m", content_model, "-md", "suffix", "--temp", "0") as running:
        yield running


def prompt(server: Server, *more: Any, **body: Any) -> str:
    reply = server.post("/apply-template", {"messages": [*MESSAGES, *more], **body})
    assert reply.status == 200, reply.text
    text: str = reply.json["prompt"]
    return text


def test_prompts(server: Server) -> None:
    begun = ASKED + "<|assistant|>\nLet me see:\n"
    assert prompt(server) == ASKED + "<|assistant|>\n"
    assert prompt(server, BEGUN) == begun
    assert prompt(server, BEGUN, continue_final_message=True) == begun
    assert prompt(server, BEGUN, continue_final_message=True, add_generation_prompt=False) == begun
    own = begun + "<|end|>\n"
    assert prompt(server, BEGUN, continue_final_message=False) == own + "<|assistant|>\n"
    assert prompt(server, BEGUN, add_generation_prompt=True) == own + "<|assistant|>\n"
    assert prompt(server, BEGUN, add_generation_prompt=False) == own
    assert prompt(server, THINKING) == ASKED + "<|assistant|>\n<think>Well,\n"
    parts = [{"type": "text", "text": "Let me"}, {"type": "text", "text": "see:\n"}]
    assert prompt(server, {**BEGUN, "content": parts}) == ASKED + "<|assistant|>\nLet me\nsee:\n"
    call = {"type": "function", "function": {"name": "weather", "arguments": "{}"}}
    called = prompt(server, {"role": "assistant", "content": None, "tool_calls": [call]})
    assert called.endswith("</tool_call><|end|>\n<|assistant|>\n")


@pytest.mark.parametrize("stream", [False, True])
def test_content_goes_on(content_server: Server, stream: bool) -> None:
    body = {"messages": [*MESSAGES, BEGUN], "tools": TOOLS, "stream": stream}
    reply = content_server.post("/v1/chat/completions", body)
    assert reply.status == 200, reply.text
    if stream:
        deltas = [event["choices"][0]["delta"] for event in reply.events]
        content = "".join(delta.get("content") or "" for delta in deltas)
        calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", [])]
        name, arguments = calls[0]["name"], "".join(call["arguments"] for call in calls)
    else:
        message = reply.json["choices"][0]["message"]
        content, function = message["content"], message["tool_calls"][0]["function"]
        name, arguments = function["name"], function["arguments"]
    assert content == "I look." and name == "weather" and json.loads(arguments) == ARGUMENTS


def test_reasoning_goes_on(server: Server) -> None:
    reply = server.post("/v1/chat/completions", {"messages": [*MESSAGES, THINKING], "tools": TOOLS})
    assert reply.status == 200, reply.text
    message = reply.json["choices"][0]["message"]
    assert message["reasoning_content"] == "Hm." and message["content"] == "I look." and message["tool_calls"]


def test_wrong_requests(server: Server) -> None:
    def error(messages: list[Any], **body: Any) -> Any:
        reply = server.post("/v1/chat/completions", {"messages": messages, **body})
        assert reply.status == 400
        return reply.error

    assert error(MESSAGES, continue_final_message=True)["param"] == "continue_final_message"
    both = error([*MESSAGES, BEGUN], continue_final_message=True, add_generation_prompt=True)
    assert "exclude each other" in both["message"]
    assert error([*MESSAGES, BEGUN], continue_final_message=1)["param"] == "continue_final_message"
    required = error([*MESSAGES, BEGUN], tools=TOOLS, tool_choice="required")
    assert "cannot continue a message" in required["message"]


def test_off(specdec: pathlib.Path, model: pathlib.Path) -> None:
    with serving(specdec, "-m", model, "-md", "suffix", "--no-prefill-assistant") as server:
        assert prompt(server, BEGUN).endswith("<|end|>\n<|assistant|>\n")
        assert prompt(server, BEGUN, continue_final_message=True).endswith("Let me see:\n")


@pytest.mark.parametrize("name", ["chatml", "llama3", "gemma"])
def test_built_in_templates(specdec: pathlib.Path, model: pathlib.Path, name: str) -> None:
    with serving(specdec, "-m", model, "-md", "suffix", "--chat-template", name) as server:
        assert prompt(server, {"role": "assistant", "content": "Let me see"}).endswith("\nLet me see")


def test_a_template_without_the_answers_end(specdec: pathlib.Path, model: pathlib.Path) -> None:
    template = "{% for m in messages %}{{ m.content[:5] }}{% endfor %}"
    with serving(specdec, "-m", model, "-md", "suffix", "--chat-template", template) as server:
        reply = server.post("/v1/chat/completions", {"messages": [*MESSAGES, BEGUN]})
        assert reply.status == 400 and "cannot be continued" in reply.error["message"]
