"""Every field means the same at every endpoint, streamed or not: what the option of that name means to the engine."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from tests.server.running import PROMPT, Server, serving

import specdec_native as sd

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"enum": ["list", "dict"]}, "size": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["kind", "size"],
    "additionalProperties": False,
}
TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<n>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</n>"},
}
INPUTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": PROMPT}]},
    "/v1/completions": {"prompt": PROMPT},
    "/completion": {"prompt": PROMPT},
    "/v1/responses": {"input": PROMPT},
}
COMMON: dict[str, Any] = {"max_tokens": 24, "seed": 3}


@pytest.fixture(scope="module")
def generator() -> sd.Generator:
    return sd.Generator(n_threads=1)


def reply_of(server: Server, path: str, stream: bool, **body: Any) -> list[Any]:
    """The reply, or its chunks."""
    reply = server.post(path, {**INPUTS[path], **body, "stream": stream})
    assert reply.status == 200, reply.text
    return reply.events if stream else [reply.json]


def text_of(path: str, replies: list[Any], index: int = 0) -> str:
    if path == "/completion":
        return "".join(one["content"] for one in replies)
    if path == "/v1/responses":
        last = replies[-1].get("response", replies[-1])
        text: str = last["output"][0]["content"][0]["text"]
        return text
    choices = [choice for one in replies for choice in one["choices"] if choice["index"] == index]
    if path == "/v1/completions":
        return "".join(choice["text"] for choice in choices)
    return "".join(
        choice.get("message", choice.get("delta"))["content"] or ""
        for choice in choices
        if choice.get("message", choice.get("delta"))
    )


# The fields, and the engine's options.
FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 0}, {"temperature": 0}),
    ({"temperature": 1.7, "top_k": 0}, {"temperature": 1.7, "top_k": 0}),
    ({"top_k": 1}, {"top_k": 1}),
    ({"top_p": 0.1}, {"top_p": 0.1}),
    ({"min_p": 0.9}, {"min_p": 0.9}),
    ({"seed": 4}, {"seed": 4}),
    ({"seed": -5}, {"seed": 2**64 - 5}),
    ({"stop": ["zzz", "\n\n"]}, {"stop": ["zzz", "\n\n"]}),
    ({"stop": "    "}, {"stop": "    "}),
    ({"max_tokens": None, "max_completion_tokens": 7}, {"max_tokens": 7}),
    ({"max_tokens": None, "n_predict": 7}, {"max_tokens": 7}),
    ({"max_tokens": None, "max_output_tokens": 7}, {"max_tokens": 7}),
    ({"presence_penalty": 2}, {"presence_penalty": 2}),
    ({"frequency_penalty": 1.5}, {"frequency_penalty": 1.5}),
    ({"repeat_penalty": 1.5, "repeat_last_n": 16}, {"repeat_penalty": 1.5, "penalty_last_n": 16}),
    ({"logit_bias": {"300": 50}}, {"logit_bias": {300: 50.0}}),
    ({"logit_bias": [[300, 50]]}, {"logit_bias": {300: 50.0}}),
    ({"regex": "[a-z]{5}=[0-9]{2}"}, {"regex": "[a-z]{5}=[0-9]{2}"}),
    ({"grammar": 'root ::= "x = " [0-9]+ "\\n"'}, {"grammar": 'root ::= "x = " [0-9]+ "\\n"'}),
    ({"json_schema": SCHEMA}, {"json_schema": SCHEMA}),
    ({"repetition_penalty": 1.5}, {"repeat_penalty": 1.5, "penalty_last_n": -1}),
    ({"guided_json": SCHEMA}, {"json_schema": SCHEMA}),
    ({"guided_regex": "[a-z]{5}"}, {"regex": "[a-z]{5}"}),
    ({"guided_choice": ['say "no"\n', "a\\b"]}, {"grammar": 'root ::= "say \\"no\\"\\n" | "a\\\\b"'}),
    ({"structured_outputs": {"json": SCHEMA}}, {"json_schema": SCHEMA}),
    ({"structured_outputs": {"choice": ["zebra"]}}, {"grammar": 'root ::= "zebra"'}),
    ({"structural_tag": TAG}, {"structural_tag": TAG}),
    ({"response_format": TAG}, {"structural_tag": TAG}),
    ({"structured_outputs": {"structural_tag": json.dumps(TAG)}}, {"structural_tag": TAG}),
    ({"structured_outputs": {"json_object": True}}, {"json_schema": {"type": "object"}}),
    ({"allowed_token_ids": [300, 301]}, {"allowed_token_ids": [300, 301]}),
    ({"bad_words": [" boolean", " of"]}, {"bad_words": [" boolean", " of"]}),
    ({"dry_multiplier": 40, "dry_allowed_length": 0}, {"dry_multiplier": 40, "dry_allowed_length": 0}),
    (
        {"dry_multiplier": 40, "dry_allowed_length": 0, "dry_sequence_breakers": ["("]},
        {"dry_multiplier": 40, "dry_allowed_length": 0, "dry_sequence_breakers": "("},
    ),
    ({"xtc_probability": 1, "xtc_threshold": 0.02}, {"xtc_probability": 1, "xtc_threshold": 0.02}),
    ({"ebnf": 'root ::= "x = " [0-9]+'}, {"grammar": 'root ::= "x = " [0-9]+'}),
    ({"response_format": {"type": "json_object"}}, {"json_schema": {"type": "object"}}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        {"json_schema": SCHEMA},
    ),
]


@pytest.mark.parametrize("case", FIELDS, ids=lambda case: json.dumps(case[0]))
def test_options(server: Server, generator: sd.Generator, case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    fields, options = case
    expected = generator.generate(PROMPT, **{**COMMON, **options})
    assert expected.text != generator.generate(PROMPT, **COMMON).text, "it shows nothing"
    for path in INPUTS:
        for stream in (False, True):
            assert text_of(path, reply_of(server, path, stream, **{**COMMON, **fields})) == expected.text, path


@pytest.mark.parametrize(
    ("field", "value", "off"),
    [
        ("mirostat", 2, 0),
        ("typical_p", 0.9, 1.0),
        ("lora", [{"id": 0}], []),
        ("functions", [{"name": "f"}], None),
        ("samplers", ["top_k"], None),
        ("skip_special_tokens", False, True),
        ("reasoning_format", "none", "auto"),
        ("use_beam_search", True, False),
    ],
)
def test_what_would_change_the_text_and_is_not_supported(server: Server, field: str, value: Any, off: Any) -> None:
    for path in INPUTS:
        error = server.post(path, {**INPUTS[path], **COMMON, field: value}).error
        assert error["param"] == field and "not supported" in error["message"]
        assert text_of(path, reply_of(server, path, False, **COMMON, **{field: off})) == server.text(**COMMON)


def test_tokens_that_end_an_output(server: Server, generator: sd.Generator) -> None:
    tokens = generator.generate(PROMPT, **COMMON).tokens
    for path in INPUTS:
        (reply,) = reply_of(server, path, False, **COMMON, stop_token_ids=[tokens[9]])
        assert reply["timings"]["predicted_n"] == tokens.index(tokens[9]) + 1, path
        for field, value in (("stop_token_ids", [10**6]), ("allowed_token_ids", [-1]), ("allowed_token_ids", "1")):
            assert server.post(path, {**INPUTS[path], **COMMON, field: value}).error["param"] == field


def test_a_schema_that_is_not_strict(server: Server) -> None:
    """What cannot be enforced is an error that names the client's field and the remedy, or left to the client."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"enum": [[], 2]}, "uniqueItems": True}},
    }
    schema |= {"required": ["a"]}
    form: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for path, field, body in [
        ("/v1/chat/completions", "response_format.json_schema.schema", {"response_format": form}),
        ("/v1/completions", "guided_json", {"guided_json": schema}),
        ("/completion", "json_schema", {"json_schema": schema}),
        ("/v1/completions", "structured_outputs.json", {"structured_outputs": {"json": schema}}),
        ("/v1/responses", "text.format.schema", {"text": {"format": {"type": "json_schema", "schema": schema}}}),
    ]:
        error = server.post(path, {**INPUTS[path], **body}).error
        assert error["param"] == field, error
        assert error["message"].startswith(f"{field} cannot be used: /properties/a/uniqueItems is not supported")
        assert "leave it out, or ask for a schema that is not strict" in error["message"]
        reply = server.post(path, {**INPUTS[path], **COMMON, **body, "strict_schema": False})
        assert reply.status == 200 and reply.headers["X-Ignored-Schema-Keywords"] == '["/properties/a/uniqueItems"]'
    form["json_schema"]["strict"] = False
    for stream in (False, True):
        body = {**INPUTS["/v1/chat/completions"], **COMMON, "response_format": form, "stream": stream}
        reply = server.post("/v1/chat/completions", body)
        assert reply.headers["X-Ignored-Schema-Keywords"] == '["/properties/a/uniqueItems"]'
    assert "X-Ignored-Schema-Keywords" not in server.post("/v1/completions", {"prompt": PROMPT, **COMMON}).headers
    content = {"type": "json_schema", "json_schema": schema}
    tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<n>", "content": content, "end": "</n>"}}
    body = {**INPUTS["/v1/completions"], **COMMON, "response_format": tag}
    assert "/format/content/json_schema" in server.post("/v1/completions", body).error["message"]
    reply = server.post("/v1/completions", {**body, "strict_schema": False})
    place = "/format/content/json_schema/properties/a/uniqueItems"
    assert json.loads(reply.headers["X-Ignored-Schema-Keywords"]) == [place]
    ollama = {"prompt": PROMPT, "format": schema, "options": {"num_predict": 8, "strict_schema": False}}
    for stream in (False, True):
        reply = server.post("/api/generate", {**ollama, "stream": stream})
        assert reply.headers["X-Ignored-Schema-Keywords"] == '["/properties/a/uniqueItems"]'
    assert server.post("/api/generate", {**ollama, "options": {}}).status == 400


def test_a_prediction(server: Server) -> None:
    """It changes how fast the same text comes, and the usage says how much of it was right."""
    path = "/v1/chat/completions"
    text = text_of(path, reply_of(server, path, False, **COMMON, temperature=0))
    parts = [{"type": "text", "text": text[:20]}, {"type": "text", "text": text[20:]}]
    for content in (text, parts):
        prediction = {"type": "content", "content": content}
        (reply,) = reply_of(server, path, False, **COMMON, temperature=0, prediction=prediction, num_draft_tokens=8)
        assert text_of(path, [reply]) == text
        assert (
            reply["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] > 0
        )  # others copy earlier outputs
    wrong = {"type": "content", "content": text[: len(text) // 2] + " zq zq zq"}
    (reply,) = reply_of(server, path, False, **COMMON, temperature=0, prediction=wrong, num_draft_tokens=8)
    assert text_of(path, [reply]) == text
    assert reply["usage"]["completion_tokens_details"]["rejected_prediction_tokens"] > 0
    for given, param in [
        ({"type": "x", "content": text}, "prediction.type"),
        ({"type": "content"}, "prediction.content"),
        ({"type": "content", "content": [{"type": "image", "text": ""}]}, "prediction.content[0].type"),
        (3, "prediction"),
    ]:
        assert server.post(path, {**INPUTS[path], "prediction": given}).error["param"] == param


def test_unknown_fields(specdec: pathlib.Path) -> None:
    """Ignored unless the server is strict."""
    with serving(specdec, "--strict-fields") as strict:
        for path in INPUTS:
            error = strict.post(path, {**INPUTS[path], "temprature": 0.1}).error
            assert error["param"] == "temprature" and "is an unknown field" in error["message"]
            body = {**INPUTS[path], **COMMON, "user": "u", "metadata": {"a": "b"}, "stream": False, "n_probs": 0}
            assert strict.post(path, body).status == 200


def test_structured_outputs_that_are_wrong(server: Server) -> None:
    for form, param in [
        ({"choice": []}, "structured_outputs.choice"),
        ({"choice": ["a", ""]}, "structured_outputs.choice"),
        ({"regex": "a", "choice": ["a"]}, "structured_outputs.choice"),
        ({"structural_tag": "x"}, "structured_outputs.structural_tag"),
        ({"structural_tag": {"format": {"type": "x"}}}, "structured_outputs.structural_tag"),
        ({"whitespace_pattern": " "}, "structured_outputs.whitespace_pattern"),
    ]:
        assert server.post("/v1/completions", {"prompt": PROMPT, "structured_outputs": form}).error["param"] == param


@pytest.mark.parametrize("stream", [False, True])
def test_what_every_reply_says(server: Server, stream: bool) -> None:
    """Which build made it, how many drafts there were, and how many of them were accepted."""
    for path in INPUTS:
        *_, last = reply_of(server, path, stream, **COMMON, num_draft_tokens=4, temperature=0)
        last = last.get("response", last)
        timings = last["timings"]
        assert 0 < timings["draft_n_accepted"] <= timings["draft_n"], path
        assert timings["predicted_n"] == 24 and timings["predicted_per_second"] > 0
        if path != "/completion":
            assert "a seed repeats its text" in last["system_fingerprint"]
        *_, last = reply_of(server, path, stream, **COMMON, num_draft_tokens=0, temperature=0)
        assert last.get("response", last)["timings"]["draft_n"] == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/completion"])
def test_several_answers(server: Server, path: str) -> None:
    texts = [choice["text"] for choice in server.complete(**COMMON, n=3)["choices"]]
    (reply,) = reply_of(server, path, False, **COMMON, n=3)
    answers = reply if path == "/completion" else [{"choices": [choice]} for choice in reply["choices"]]
    assert [text_of(path, [answer], index) for index, answer in enumerate(answers)] == texts
    chunks = reply_of(server, path, True, **COMMON, n=3)
    if path == "/completion":
        assert ["".join(chunk["content"] for chunk in chunks if chunk["index"] == i) for i in range(3)] == texts
        assert server.post(path, {**INPUTS[path], **COMMON, "n_cmpl": 3}).json[2]["content"] == texts[2]
        assert server.post(path, {**INPUTS[path], "n_cmpl": 3, "n": 2}).error["param"] == "n_cmpl"
    else:
        assert [text_of(path, chunks, i) for i in range(3)] == texts


def test_a_token_that_alone_is_allowed_is_a_draft(server: Server) -> None:
    """Here what begins the object; further on the model and earlier texts have drafts, too."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    chunks = reply_of(server, "/v1/chat/completions", True, seed=3, response_format=form, num_draft_tokens=4)
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    forced = [choice["delta"]["content"] for choice in choices if choice.get("draft_source") == "constraint"]
    assert forced[:3] == ["{", '"', "k"]
    timings = chunks[-1]["timings"]
    assert timings["draft_n"] >= timings["draft_n_accepted"] >= len(forced)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_log_probabilities_of_a_response(server: Server, is_stopped: bool) -> None:
    """As OpenAI's responses have them: on request, in the whole text and in its deltas. The tokens of a stop string
    have no text, so no delta has them."""
    chat = {"messages": [{"role": "user", "content": PROMPT}], **COMMON, "logprobs": True, "top_logprobs": 3}
    text = server.post("/v1/chat/completions", chat).json["choices"][0]["message"]["content"]
    stop = [text[9:14]] if is_stopped else []
    expected = server.post("/v1/chat/completions", {**chat, "stop": stop}).json["choices"][0]["logprobs"]["content"]
    body = {**COMMON, "include": ["message.output_text.logprobs", "other"], "top_logprobs": 3, "stop": stop}
    (reply,) = reply_of(server, "/v1/responses", False, **body)
    assert reply["output"][0]["content"][0]["logprobs"] == expected
    events = reply_of(server, "/v1/responses", True, **body)
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == expected
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    of_deltas = [entry for event in deltas for entry in event["logprobs"]]
    assert of_deltas == expected[: len(of_deltas)] and (len(of_deltas) < len(expected)) == is_stopped
    (done,) = [event for event in events if event["type"] == "response.output_text.done"]
    assert done["logprobs"] == expected
    (plain,) = reply_of(server, "/v1/responses", False, **COMMON)
    assert plain["output"][0]["content"][0]["logprobs"] == []
    assert server.post("/v1/responses", {**INPUTS["/v1/responses"], "include": "x"}).error["param"] == "include"
