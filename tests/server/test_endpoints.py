"""Every endpoint of `specdec serve`: fields and shapes as the OpenAI API and llama-server have them."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from tests.rpc_servers import rpc_servers
from tests.server.running import PROMPT, Server, serving

import specdec_native as sd

CHAT = {"messages": [{"role": "user", "content": PROMPT}]}
USAGE = {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"}
TIMINGS = {
    "prompt_n",
    "prompt_ms",
    "predicted_n",
    "predicted_ms",
    "predicted_per_second",
    "draft_n",
    "draft_n_accepted",
    "cache_n",
}


@pytest.fixture(scope="module")
def generator() -> sd.Generator:
    return sd.Generator(n_threads=1)


def test_health(server: Server) -> None:
    assert server.get("/health").json == {"status": "ok"}


def test_health_tells_that_a_device_is_lost(specdec: pathlib.Path) -> None:
    """So that whoever watches the server starts it again; the layers' server stands for a GPU."""
    with rpc_servers(specdec) as start:
        address, process = start()
        with serving(specdec, "--rpc", address, "-c", 512) as using:
            assert using.get("/health").status == 200
            process.kill()
            process.wait()
            assert using.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4}).status == 500
            health = using.get("/health")
            assert health.status == 503 and "start this server again" in health.json["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
def test_models(server: Server, path: str) -> None:
    models = server.get(path).json
    assert models["object"] == "list"
    assert [model["id"] for model in models["data"]] == ["stdlib-target-f16.gguf"]
    assert models["data"][0]["meta"]["n_ctx"] == 512


def test_props_and_slots(server: Server) -> None:
    props = server.get("/props").json
    assert props["total_slots"] == 4 and props["chat_template"] == ""
    assert props["model_path"].endswith("stdlib-target-f16.gguf")
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert props["default_generation_settings"]["params"]["seed"] == -1
    assert props["default_generation_settings"]["params"]["temperature"] == 0.8
    assert props["default_generation_settings"]["params"]["num_draft_tokens"] == "auto"
    slots = server.get("/slots").json
    assert [slot["id"] for slot in slots] == [0, 1, 2, 3]
    assert not any(slot["is_processing"] for slot in slots)


def test_metrics_count_tokens(server: Server) -> None:
    names = ["llamacpp:tokens_predicted_total", "llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"]
    before = [server.metric(name) for name in names]
    reply = server.complete(max_tokens=9, seed=1)
    predicted, read, cached = (server.metric(name) - old for name, old in zip(names, before, strict=True))
    assert predicted == reply["usage"]["completion_tokens"] == 9
    assert read == reply["timings"]["prompt_n"]
    assert cached == reply["timings"]["cache_n"] == reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert int(server.get("/metrics").headers["Process-Start-Time-Unix"]) > 0
    for line in server.get("/metrics").text.splitlines():
        assert line.startswith("# HELP ") or line.startswith("# TYPE ") or len(line.split()) == 2


def test_completion_is_the_engines_text(server: Server, generator: sd.Generator) -> None:
    reply = server.complete(max_tokens=20, seed=5, temperature=0.7)
    expected = generator.generate(PROMPT, max_tokens=20, seed=5, temperature=0.7)
    assert reply["object"] == "text_completion" and reply["id"].startswith("cmpl-")
    assert reply["choices"] == [{"text": expected.text, "index": 0, "logprobs": None, "finish_reason": "length"}]
    assert set(reply["usage"]) == USAGE
    assert reply["usage"]["completion_tokens"] == 20
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + 20
    assert set(reply["timings"]) >= TIMINGS
    assert reply["timings"]["predicted_n"] == 20
    assert 0 <= reply["timings"]["draft_n_accepted"] <= reply["timings"]["draft_n"]
    assert (
        reply["system_fingerprint"].startswith("build 0.1.0")
        and "a seed repeats its text" in reply["system_fingerprint"]
    )


@pytest.mark.parametrize("n", [1, 3])
def test_streamed_completion_is_the_collected_one(server: Server, n: int) -> None:
    body = {"prompt": [PROMPT, "import os"], "max_tokens": 12, "seed": 2, "n": n, "logprobs": 0, "echo": False}
    whole = server.complete(**body)
    reply = server.post("/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.text.endswith("data: [DONE]\n\n")
    *chunks, last = reply.events
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], whole["usage"]["completion_tokens"])
    assert len({chunk["id"] for chunk in chunks}) == 1
    texts = [""] * 2 * n
    logprobs: list[list[float]] = [[] for _ in texts]
    offsets: list[list[int]] = [[] for _ in texts]
    for chunk in chunks:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        if choice["logprobs"]:
            logprobs[choice["index"]] += choice["logprobs"]["token_logprobs"]
            offsets[choice["index"]] += choice["logprobs"]["text_offset"]
    assert texts == [choice["text"] for choice in whole["choices"]]
    assert logprobs == [choice["logprobs"]["token_logprobs"] for choice in whole["choices"]]
    assert offsets == [choice["logprobs"]["text_offset"] for choice in whole["choices"]]
    assert [choice["index"] for choice in whole["choices"]] == list(range(2 * n))


def test_choices_of_a_seed(server: Server) -> None:
    """The first one has the seed itself, the others have seeds made from it."""
    choices = [choice["text"] for choice in server.complete(max_tokens=12, seed=2, n=3)["choices"]]
    assert choices == [choice["text"] for choice in server.complete(max_tokens=12, seed=2, n=3)["choices"]]
    assert choices[0] == server.text(max_tokens=12, seed=2)
    assert len(set(choices)) == 3


def test_prompts_of_tokens(server: Server) -> None:
    tokens = server.post("/tokenize", {"content": PROMPT, "add_special": True}).json["tokens"]
    text = server.text(max_tokens=8, seed=3)
    assert server.complete(prompt=tokens, max_tokens=8, seed=3)["choices"][0]["text"] == text
    both = server.complete(prompt=[tokens, tokens], max_tokens=8, seed=3)
    assert [choice["text"] for choice in both["choices"]] == [text, text]
    assert both["usage"]["prompt_tokens"] == 2 * len(tokens)


def test_echo(server: Server) -> None:
    text = server.text(max_tokens=8, seed=3)
    assert server.text(max_tokens=8, seed=3, echo=True) == PROMPT + text
    assert server.text(max_tokens=0, echo=True) == PROMPT
    reply = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "seed": 3, "echo": True, "stream": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in reply.events) == PROMPT + text


@pytest.mark.parametrize("stop", ["\n", ["zzz", "\n"]])
def test_stop_strings(server: Server, stop: str | list[str]) -> None:
    free = server.text(max_tokens=40, seed=7, temperature=0)
    assert "\n" in free
    reply = server.complete(max_tokens=40, seed=7, temperature=0, stop=stop)
    assert reply["choices"][0]["text"] == free.split("\n")[0]
    assert reply["choices"][0]["finish_reason"] == "stop"
    native = server.post("/completion", {"prompt": PROMPT, "n_predict": 40, "temperature": 0, "stop": stop}).json
    assert (native["stop_type"], native["stopping_word"], native["content"]) == ("word", "\n", free.split("\n")[0])


def test_chat(server: Server, generator: sd.Generator) -> None:
    messages = [
        {"role": "system", "content": "import os"},
        {"role": "user", "content": [{"type": "text", "text": PROMPT}]},
    ]
    reply = server.post(
        "/v1/chat/completions", {"messages": messages, "max_completion_tokens": 12, "seed": 4, "logprobs": True}
    ).json
    expected = generator.generate(f"import os\n{PROMPT}", max_tokens=12, seed=4)
    assert reply["object"] == "chat.completion" and reply["id"].startswith("chatcmpl-")
    (choice,) = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": expected.text}
    assert choice["finish_reason"] == "length"
    content = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content) == expected.text
    assert [entry["logprob"] for entry in content] == pytest.approx(
        [piece.logprob for piece in generator.stream(f"import os\n{PROMPT}", max_tokens=12, seed=4)]
    )
    assert all(bytes(entry["bytes"]).decode() == entry["token"] for entry in content)


def test_streamed_chat_is_the_collected_one(server: Server) -> None:
    body = {**CHAT, "max_tokens": 12, "seed": 4, "n": 2, "logprobs": True}
    whole = server.post("/v1/chat/completions", body).json
    reply = server.post("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    assert reply.text.endswith("data: [DONE]\n\n")
    *chunks, last = reply.events
    assert all(chunk["object"] == "chat.completion.chunk" and chunk["usage"] is None for chunk in chunks)
    assert last["usage"] == {**whole["usage"], "prompt_tokens_details": last["usage"]["prompt_tokens_details"]}
    for index in range(2):
        own = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert own[0]["delta"] == {"role": "assistant", "content": None}
        assert own[-1]["delta"] == {} and own[-1]["finish_reason"] == "length"
        assert all(one["finish_reason"] is None for one in own[:-1])
        expected = whole["choices"][index]
        assert "".join(one["delta"]["content"] for one in own[1:-1]) == expected["message"]["content"]
        logprobs = [entry for one in own[1:-1] for entry in one["logprobs"]["content"]]
        assert logprobs == expected["logprobs"]["content"]


def test_max_tokens_of_zero(server: Server) -> None:
    for body in ({**CHAT, "max_tokens": 0}, {**CHAT, "max_tokens": 0, "stream": True}):
        reply = server.post("/v1/chat/completions", body)
        assert reply.status == 200
        choice = reply.events[-1]["choices"][0] if "stream" in body else reply.json["choices"][0]
        assert choice["finish_reason"] == "length"


def test_a_stream_of_no_tokens(server: Server) -> None:
    [event] = server.post("/completion", {"prompt": PROMPT, "n_predict": 0, "stream": True}).events
    assert event["stop"] and event["content"] == "" and event["tokens_predicted"] == 0


def test_native_completion(server: Server) -> None:
    body = {"prompt": PROMPT, "n_predict": 10, "seed": 6, "return_tokens": True, "top_k": 20, "repeat_last_n": 32}
    whole = server.post("/completion", body).json
    assert whole["content"] == server.text(max_tokens=10, seed=6, top_k=20, repeat_last_n=32)
    assert (whole["stop"], whole["stop_type"], whole["truncated"]) == (True, "limit", False)
    assert whole["tokens_predicted"] == len(whole["tokens"]) == whole["timings"]["predicted_n"] == 10
    settings = whole["generation_settings"]
    assert (settings["n_predict"], settings["seed"], settings["top_k"], settings["repeat_last_n"]) == (10, 6, 20, 32)
    assert server.post("/detokenize", {"tokens": whole["tokens"]}).json["content"] == whole["content"]
    *parts, last = server.post("/completion", {**body, "stream": True}).events
    assert "".join(part["content"] for part in parts) == whole["content"]
    assert [token for part in parts for token in part["tokens"]] == whole["tokens"]
    assert not any(part["stop"] for part in parts) and last["stop"]
    fields = server.post("/completion", {**body, "response_fields": ["content", "generation_settings/seed"]}).json
    assert fields == {"content": whole["content"], "generation_settings/seed": 6}
    several = server.post("/completions", {**body, "prompt": [PROMPT, [1, 2, "x", 3]]}).json
    assert [one["index"] for one in several] == [0, 1]
    assert several[0]["content"] == whole["content"]


def test_responses(server: Server) -> None:
    chat = server.post(
        "/v1/chat/completions",
        {"messages": [{"role": "system", "content": "A"}, *CHAT["messages"]], "max_tokens": 10, "seed": 8},
    ).json
    text = chat["choices"][0]["message"]["content"]
    inputs: list[Any] = [
        PROMPT,
        [{"role": "user", "content": PROMPT}],
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}],
    ]
    for one in inputs:
        body = {"input": one, "instructions": "A", "max_output_tokens": 10, "seed": 8}
        reply = server.post("/v1/responses", body).json
        assert reply["object"] == "response" and reply["status"] == "incomplete"
        assert reply["incomplete_details"] == {"reason": "max_output_tokens"}
        assert reply["output"][0]["content"][0]["text"] == text
        assert reply["usage"]["output_tokens"] == 10
    events = server.post("/v1/responses", {**body, "stream": True}).events
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.incomplete"]
    assert "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta") == text
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == text
    stopped = server.post("/v1/responses", {**body, "stop": text[2:4]}).json
    assert stopped["status"] == "completed" and stopped["incomplete_details"] is None


def test_tokens(server: Server, generator: sd.Generator) -> None:
    text = "for i in range(10):  # é\n"
    tokens = server.post("/tokenize", {"content": text}).json["tokens"]
    assert server.post("/tokenize", {"content": text, "add_special": True}).json["tokens"] == generator.tokenize(text)
    assert server.post("/detokenize", {"tokens": tokens}).json == {"content": text, "prompt": text}
    pieces = server.post("/tokenize", {"content": text, "with_pieces": True}).json["tokens"]
    assert [piece["id"] for piece in pieces] == tokens
    raw = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces)
    assert raw.decode() == text
    assert server.post("/tokenize", {}).json == {"tokens": []}


def test_apply_template(server: Server) -> None:
    reply = server.post(
        "/apply-template", {"messages": [{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}]}
    )
    assert reply.json == {"prompt": "a\nb"}


def test_variables_of_templates(specdec: pathlib.Path) -> None:
    """The server's variables and a request's, which go first; their text is a caller's, so it never is a control
    token."""
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'on' if enable_thinking else 'off' }}{{ name }}"
    options = ["--chat-template", template, "--chat-template-kwargs", '{"enable_thinking": true, "name": "x"}']
    with serving(specdec, *options) as running:

        def prompt(**variables: Any) -> Any:
            body = {"messages": [{"role": "user", "content": "a "}], "chat_template_kwargs": variables}
            return running.post("/apply-template", body).json["prompt"]

        assert prompt() == "a onx" and prompt(enable_thinking=False) == "a offx"
        assert prompt(name=7) == "a on7"
        assert prompt(messages=[], add_generation_prompt="b", bos_token="c") == "a onx"
        counts = [
            running.post("/v1/chat/completions/input_tokens", {**CHAT, "chat_template_kwargs": {"name": name}}).json
            for name in ("", "<|endoftext|>")
        ]
        assert counts[1]["input_tokens"] > counts[0]["input_tokens"] + 1
        error = running.post("/v1/chat/completions", {**CHAT, "chat_template_kwargs": [1]}).error
        assert error["param"] == "chat_template_kwargs"


def test_logit_bias(server: Server) -> None:
    """A token that is banned does not occur, in each of the forms; a text bans all of its tokens."""
    token = server.post(
        "/completion", {"prompt": PROMPT, "n_predict": 1, "temperature": 0, "return_tokens": True}
    ).json["tokens"][0]
    (text,) = [server.post("/detokenize", {"tokens": [token]}).json["content"]]
    for bias in (
        {str(token): -100},
        {str(token): "-inf"},
        [[token, False]],
        [[token, -100.5]],
        {text: -100},
        [[text, False]],
    ):
        body = {"prompt": PROMPT, "n_predict": 1, "temperature": 0, "return_tokens": True, "logit_bias": bias}
        reply = server.post("/completion", body)
        assert reply.status == 200, reply.text
        assert reply.json["tokens"] != [token], bias
    assert server.complete(max_tokens=1, logit_bias={str(token): 100}, temperature=0)["choices"][0]["text"] == text


def test_unknown_fields_are_ignored(server: Server) -> None:
    assert server.text(max_tokens=3, seed=1, user="me", store=False, metadata={"a": [1]}) == server.text(
        max_tokens=3, seed=1
    )


def test_ignore_eos(server: Server) -> None:
    reply = server.post("/completion", {"prompt": PROMPT, "n_predict": 3, "ignore_eos": True}).json
    assert reply["generation_settings"]["ignore_eos"] is True


def test_most_likely_tokens(server: Server, generator: sd.Generator) -> None:
    """In each endpoint's form, streamed or not."""
    pieces = list(generator.stream(PROMPT, max_tokens=6, seed=3, top_logprobs=4))
    expected = [[logprob for _, logprob in piece.top_logprobs] for piece in pieces]
    assert all(len(one) == 4 for one in expected)
    body: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 6, "seed": 3}
    lists = server.complete(**body, logprobs=4)["choices"][0]["logprobs"]
    for token, logprob, top, one in zip(
        lists["tokens"], lists["token_logprobs"], lists["top_logprobs"], expected, strict=True
    ):
        assert top[token] == logprob
        assert sorted({*top.values(), logprob}, reverse=True)[:4] == pytest.approx(one)
    native = server.post("/completion", {**body, "n_probs": 4}).json["completion_probabilities"]
    parts = server.post("/completion", {**body, "n_probs": 4, "stream": True}).events[:-1]
    assert native == [part["completion_probabilities"][0] for part in parts]
    chat: dict[str, Any] = {**CHAT, "max_tokens": 6, "seed": 3, "logprobs": True, "top_logprobs": 4}
    assert server.post("/v1/chat/completions", chat).json["choices"][0]["logprobs"]["content"] == native
    chunks = server.post("/v1/chat/completions", {**chat, "stream": True}).events[1:-1]
    assert [chunk["choices"][0]["logprobs"]["content"][0] for chunk in chunks] == native
    for entry, one in zip(native, expected, strict=True):
        assert [top["logprob"] for top in entry["top_logprobs"]] == pytest.approx(one)
        assert all(bytes(top["bytes"]).decode(errors="replace") == top["token"] for top in entry["top_logprobs"])


@pytest.mark.parametrize("max_tokens", [0, 3])
def test_echo_with_the_log_probabilities_of_the_prompt(
    server: Server, generator: sd.Generator, max_tokens: int
) -> None:
    """As evaluation harnesses ask for them; those of Generator.score."""
    score = generator.score(PROMPT, top_logprobs=2)
    body: dict[str, Any] = {"max_tokens": max_tokens, "seed": 1, "echo": True, "logprobs": 2}
    (choice,) = server.complete(**body)["choices"]
    logprobs = choice["logprobs"]
    assert choice["text"] == PROMPT + (server.text(max_tokens=max_tokens, seed=1) if max_tokens else "")
    assert len(logprobs["tokens"]) == len(score.tokens) + max_tokens
    assert logprobs["token_logprobs"][0] is logprobs["top_logprobs"][0] is None
    assert logprobs["token_logprobs"][1 : len(score.tokens)] == pytest.approx(list(score.logprobs)[1:])
    assert all(
        max(top.values()) >= own
        for top, own in zip(logprobs["top_logprobs"][1:], logprobs["token_logprobs"][1:], strict=True)
    )
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert choice["text"][offset:].startswith(token)
    chunks = server.post("/v1/completions", {"prompt": PROMPT, **body, "stream": True}).events[:-1]
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert {name: [one for part in parts for one in part[name]] for name in logprobs} == logprobs


def test_selected_fields_of_a_completion(server: Server) -> None:
    names = ["content", "generation_settings/n_predict", "timings/none", "none", "content/x"]
    reply = server.post("/completion", {"prompt": "a", "n_predict": 2, "seed": 1, "response_fields": names}).json
    assert set(reply) == {"content", "generation_settings/n_predict"} and reply["generation_settings/n_predict"] == 2
