"""Ollama's API, by the `ollama` package and by hand."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import shutil
from typing import Any

import ollama
import pydantic
import pytest
from tests.models.chain_model import ARGUMENTS, PIECES, TOOLS
from tests.server.running import PROMPT, Server, serving

MESSAGES: Any = [{"role": "user", "content": PROMPT}]
WEATHER: Any = [{"role": "user", "content": "How is the weather?"}]
OPTIONS: Any = {"num_predict": 16, "seed": 5, "temperature": 0.7}


@pytest.fixture(scope="module")
def client(server: Server) -> ollama.Client:
    return ollama.Client(server.url)


def lines(server: Server, path: str, body: Any) -> list[Any]:
    reply = server.post(path, body)
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in reply.text.splitlines()]


def openai_text(server: Server, **body: Any) -> str:
    options = {"messages": MESSAGES, "max_tokens": 16, "seed": 5, "temperature": 0.7, **body}
    text: str = server.post("/v1/chat/completions", options).json["choices"][0]["message"]["content"]
    return text


def test_chat_is_that_of_openai(server: Server, client: ollama.Client) -> None:
    expected = openai_text(server)
    reply = client.chat("any", MESSAGES, options=OPTIONS)
    assert reply.message.role == "assistant" and reply.message.content == expected
    assert reply.done and reply.done_reason == "length" and reply.eval_count == 16
    chunks = list(client.chat("any", MESSAGES, options=OPTIONS, stream=True))
    assert "".join(chunk.message.content or "" for chunk in chunks) == expected
    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_durations_and_counts(server: Server, client: ollama.Client) -> None:
    reply = client.chat("any", MESSAGES, options=OPTIONS)
    tokens = server.post("/v1/chat/completions/input_tokens", {"messages": MESSAGES}).json["input_tokens"]
    assert reply.prompt_eval_count == tokens
    assert reply.total_duration and reply.eval_duration and reply.prompt_eval_duration is not None
    assert reply.total_duration > reply.eval_duration > 1000  # nanoseconds: no token takes less than a microsecond
    assert reply.load_duration == 0


def test_streams_are_the_default(server: Server) -> None:
    chat = lines(server, "/api/chat", {"messages": MESSAGES, "options": OPTIONS})
    assert "".join(line["message"]["content"] for line in chat) == openai_text(server)
    text = lines(server, "/api/generate", {"prompt": PROMPT, "options": OPTIONS})
    assert "".join(line["response"] for line in text) == openai_text(server)
    for last in (chat[-1], text[-1]):
        assert last["done"] and last["done_reason"] == "length" and last["timings"]["predicted_n"] == 16


def test_generate(server: Server, client: ollama.Client) -> None:
    assert client.generate("any", PROMPT, options=OPTIONS).response == openai_text(server)
    system = [{"role": "system", "content": "Be brief."}, *MESSAGES]
    assert client.generate("any", PROMPT, system="Be brief.", options=OPTIONS).response == openai_text(
        server, messages=system
    )
    raw = client.generate("any", PROMPT, raw=True, options=OPTIONS).response
    assert raw == server.text(max_tokens=16, seed=5, temperature=0.7)


def test_without_a_prompt_the_model_is_loaded(client: ollama.Client) -> None:
    assert client.generate("any").done_reason == "load"
    assert client.chat("any", []).done_reason == "load"


def test_options_reach_the_engine(server: Server, client: ollama.Client) -> None:
    options = {"num_predict": 24, "temperature": 0}
    text = client.generate("any", PROMPT, raw=True, options=options).response
    stopped = client.generate("any", PROMPT, raw=True, options={**options, "stop": [text[8:11]]})
    assert stopped.response == text[: text.index(text[8:11])] and stopped.done_reason == "stop"
    names = {"top_k": 3, "top_p": 0.9, "min_p": 0.1, "repeat_penalty": 1.2, "repeat_last_n": 8}
    names |= {"presence_penalty": 0.5, "frequency_penalty": 0.5, "seed": 9, "temperature": 1.5}
    changed = client.generate("any", PROMPT, raw=True, options={**names, "num_predict": 24}).response
    assert changed == server.text(**names, max_tokens=24) != text


IGNORED = {"num_ctx": 4096, "num_batch": 8, "num_gpu": 1, "main_gpu": 0, "num_thread": 1, "num_keep": 4, "mirostat": 0}
IGNORED |= {"numa": False, "low_vram": True, "use_mmap": True, "use_mlock": False, "typical_p": 1.0, "tfs_z": 1.0}


def test_options_that_change_nothing(client: ollama.Client) -> None:
    text = client.generate("any", PROMPT, options=OPTIONS).response
    assert client.generate("any", PROMPT, options={**OPTIONS, **IGNORED}, keep_alive="5m").response == text


def test_the_end_of_the_context(client: ollama.Client) -> None:
    for unlimited in (-1, -2):
        reply = client.generate("any", PROMPT, options={"num_predict": unlimited, "stop": ["\n"], "seed": 1})
        assert reply.done_reason == "stop"


class Colour(pydantic.BaseModel):
    red: bool


def test_formats(client: ollama.Client) -> None:
    options = {**OPTIONS, "num_predict": 80}
    reply = client.chat("any", MESSAGES, format=Colour.model_json_schema(), options=options)
    assert reply.message.content and Colour.model_validate_json(reply.message.content)
    text = client.generate("any", PROMPT, format="json", options={**OPTIONS, "num_predict": 4}).response
    assert text.startswith("{")


def test_log_probabilities(client: ollama.Client) -> None:
    reply = client.generate("any", PROMPT, options=OPTIONS, logprobs=True, top_logprobs=2)
    assert reply.logprobs and len(reply.logprobs) == 16
    assert all(one.top_logprobs and len(one.top_logprobs) == 2 and one.logprob <= 0 for one in reply.logprobs)
    alone = client.generate("any", PROMPT, options=OPTIONS, logprobs=True)
    assert alone.logprobs and [one.logprob for one in alone.logprobs] == [one.logprob for one in reply.logprobs]


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called(caller: Server, stream: bool) -> None:
    client = ollama.Client(caller.url)
    reply: Any = client.chat("any", WEATHER, tools=TOOLS, stream=stream)
    chunks = list(reply) if stream else [reply]
    assert "".join(chunk.message.thinking or "" for chunk in chunks) == "Hm."
    assert "".join(chunk.message.content or "" for chunk in chunks).strip() == "I look."
    [call] = [call for chunk in chunks for call in chunk.message.tool_calls or []]
    assert call.function.name == "weather" and call.function.arguments == ARGUMENTS
    assert chunks[-1].done_reason == "stop" and chunks[-1].eval_count == len(PIECES) + 1


def test_a_call_that_is_cut_is_none(caller: Server) -> None:
    reply = ollama.Client(caller.url).chat("any", WEATHER, tools=TOOLS, options={"num_predict": 11})
    assert not reply.message.tool_calls and reply.done_reason == "length"


def test_results_of_tools(caller: Server) -> None:
    call = {"function": {"name": "weather", "arguments": ARGUMENTS}}
    answer = {"role": "assistant", "content": "I look.", "thinking": "Hm.", "tool_calls": [call, call]}
    results = [{"role": "tool", "tool_name": "weather", "content": text} for text in ("sunny", "rain")]
    body = {"messages": [*WEATHER, answer, *results], "tools": TOOLS, "stream": False, "options": {"num_predict": 1}}
    counted = caller.post("/api/chat", body).json["prompt_eval_count"]
    function = {"name": "weather", "arguments": json.dumps(ARGUMENTS)}
    calls = [{"id": f"call_{i}", "type": "function"} for i in range(2)]
    calls = [{**one, "function": function} for one in calls]  # type: ignore[dict-item]
    chat = [*WEATHER, {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": calls}]
    chat += [
        {"role": "tool", "name": "weather", "tool_call_id": f"call_{i}", "content": text}
        for i, text in enumerate(("sunny", "rain"))
    ]
    tokens = caller.post("/v1/chat/completions/input_tokens", {"messages": chat, "tools": TOOLS}).json
    assert counted == tokens["input_tokens"]


def test_lists_of_models(client: ollama.Client, caller: Server) -> None:
    [entry] = client.list().models
    assert entry.model == "stdlib-target-f16.gguf" and entry.size and entry.size > 1 << 20 and entry.modified_at
    assert entry.details and entry.details.format == "gguf" and entry.details.quantization_level == "F16"
    [running] = client.ps().models
    assert running.model == entry.model and running.digest == entry.digest and running.context_length
    assert running.size_vram == 0  # all of it is in the machine's memory
    shown = client.show("any")
    assert shown.capabilities == ["completion", "embedding"] and shown.modelinfo
    assert shown.modelinfo["general.architecture"] == entry.details.family
    assert shown.modelinfo["tokenizer.ggml.tokens"] is None
    of_caller = ollama.Client(caller.url).show("any")
    assert of_caller.capabilities == ["completion", "tools", "thinking", "embedding"] and "<tool_call>" in (
        of_caller.template or ""
    )


def test_times_of_files(specdec: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copy(draft_path, path)
    with serving(specdec, "-m", path) as server:
        for day in ("1999-12-31", "2000-02-29", "2024-01-01", "2025-03-01", "2026-10-09", "2026-11-30"):
            time = f"{day}T01:59:07Z"
            seconds = datetime.datetime.strptime(time, "%Y-%m-%dT%H:%M:%S%z").timestamp()
            os.utime(path, (seconds + 0.5, seconds + 0.5))
            [entry] = server.get("/api/tags").json["models"]
            assert entry["modified_at"] == time


def test_the_version(server: Server) -> None:
    version = server.get("/api/version").json["version"]
    assert [part.isdigit() for part in version.split(".")[:2]] == [True, True]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("chat", {"messages": 1}, "messages"),
        ("chat", {"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
        ("chat", {"messages": [{"role": "user", "content": "", "images": ["x"]}]}, "messages[0].images"),
        ("chat", {"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        (
            "chat",
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ("chat", {"messages": [{"role": "assistant", "tool_calls": {"function": {}}}]}, "messages[0].tool_calls"),
        ("chat", {"messages": MESSAGES, "think": "deep"}, "think"),
        ("chat", {"messages": MESSAGES, "format": "xml"}, "format"),
        ("chat", {"messages": MESSAGES, "format": "json", "options": {"regex": "a"}}, "format"),
        ("chat", {"messages": MESSAGES, "tools": [{"type": "x"}]}, "tools[0].type"),
        ("chat", {"messages": MESSAGES, "options": 1}, "options"),
        ("chat", {"messages": MESSAGES, "options": {"temperature": -1}}, "options.temperature"),
        ("chat", {"messages": MESSAGES, "options": {"num_predict": "x"}}, "options.num_predict"),
        ("chat", {"messages": MESSAGES, "options": {"mirostat": 2}}, "options.mirostat"),
        ("chat", {"messages": MESSAGES, "options": {"penalize_newline": False}}, "options.penalize_newline"),
        ("generate", {"prompt": "a", "images": ["x"]}, "images"),
        ("generate", {"prompt": "a", "template": "{{ .Prompt }}"}, "template"),
        ("generate", {"prompt": "a", "context": [1, 2]}, "context"),
        ("generate", {"prompt": "a", "top_logprobs": 21}, "top_logprobs"),
        ("generate", {"prompt": 1}, "prompt"),
    ],
    ids=str,
)
def test_bad_fields(server: Server, path: str, body: dict[str, Any], field: str) -> None:
    reply = server.post("/api/" + path, body)
    assert reply.status == 400 and set(reply.json) == {"error"}
    assert reply.json["error"].startswith(field), reply.text


def test_errors(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="temperature"):
        client.chat("any", MESSAGES, options={"temperature": -1})
    with pytest.raises(ollama.ResponseError, match="no endpoint"):
        client.pull("any")
