"""Constraints over HTTP: answers obey them, streamed or not; what cannot be kept is a 400 that names the field."""

from __future__ import annotations

import enum
import json
import re
from typing import Annotated, Any

import jsonschema
import openai
import pydantic
import pytest
from openai.lib._pydantic import to_strict_json_schema
from tests.engine.test_pydantic import FIELDS, model_of
from tests.server.running import PROMPT, Server

MESSAGES = [{"role": "user", "content": PROMPT}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["name", "count"],
    "additionalProperties": False,
}


REPEATED = {"type": "repeat", "min": 0, "content": {"type": "const_string", "value": "a"}}


def text_of(server: Server, **body: Any) -> str:
    reply = server.post("/v1/chat/completions", {"messages": MESSAGES, "seed": 1, "max_tokens": 60, **body})
    assert reply.status == 200, reply.text
    assert reply.json["choices"][0]["finish_reason"] == "stop"
    content: str = reply.json["choices"][0]["message"]["content"]
    return content


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}},
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        {"json_schema": SCHEMA},
        {"json_schema": json.dumps(SCHEMA)},
    ],
    ids=["json_schema", "json_object", "object", "text"],
)
def test_schemas(server: Server, body: dict[str, Any]) -> None:
    jsonschema.validate(json.loads(text_of(server, **body)), SCHEMA)


def test_grammar_and_regex(server: Server) -> None:
    assert re.fullmatch("[ab]{5}", text_of(server, grammar="root ::= [ab]{5}"))
    assert re.fullmatch("[0-9]{3}-[a-c]{2,4}x", text_of(server, regex="[0-9]{3}-[a-c]{2,4}x"))
    assert server.text(seed=1, max_tokens=4, grammar="") == server.text(seed=1, max_tokens=4)


def test_streams_and_responses(server: Server) -> None:
    client = openai.OpenAI(api_key="none", base_url=server.url + "/v1", max_retries=0)
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    chunks = client.chat.completions.create(model="any", messages=MESSAGES, seed=1, response_format=form, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    jsonschema.validate(json.loads(text), SCHEMA)
    form = {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}
    reply = client.responses.create(model="any", input=PROMPT, text=form, extra_body={"seed": 1})
    assert reply.output_text == text


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Parcel(pydantic.BaseModel):
    colours: Annotated[set[Colour], pydantic.Field(min_length=2)]
    ids: Annotated[set[int], pydantic.Field(min_length=2, max_length=3)]
    marks: Annotated[dict[Colour, bool], pydantic.Field(min_length=2)]


def test_sets_as_the_openai_package_sends_them(server: Server) -> None:
    """Strictly: items and names differ."""
    client = openai.OpenAI(api_key="none", base_url=server.url + "/v1", max_retries=0)
    options: Any = {"model": "any", "seed": 1}
    reply = client.chat.completions.parse(messages=MESSAGES, response_format=Parcel, **options).choices[0].message
    response = client.responses.parse(model="any", input=PROMPT, text_format=Parcel, extra_body={"seed": 2})
    for text, parsed in ((reply.content, reply.parsed), (response.output_text, response.output_parsed)):
        assert text and parsed
        jsonschema.validate(json.loads(text), Parcel.model_json_schema())
        assert parsed.colours == set(Colour) and set(parsed.marks) == set(Colour)
        assert len(json.loads(text)["ids"]) == len(parsed.ids)
    assert (
        "X-Ignored-Schema-Keywords"
        not in client.chat.completions.with_raw_response.parse(
            messages=MESSAGES, response_format=Parcel, **options
        ).headers
    )


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_pydantics_as_the_openai_package_sends_it(server: Server, name: str) -> None:
    """Strictly, as a format and as the arguments of a required call, with nothing left to the client."""
    schema = to_strict_json_schema(model_of(FIELDS[name]))
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    for body in ({"response_format": form}, {"tools": [tool], "tool_choice": "required"}):
        reply = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2, **body})
        assert reply.status == 200, reply.text
        assert "X-Ignored-Schema-Keywords" not in reply.headers


CALLS: dict[str, Any] = {
    "type": "structural_tag",
    "structures": [{"begin": "<call>", "schema": SCHEMA, "end": "</call>"}],
    "triggers": ["<call>"],
}


def test_text_with_calls(server: Server) -> None:
    """Text is free up to a trigger; after it the schema holds."""
    expected = server.post(
        "/v1/chat/completions", {"messages": MESSAGES, "seed": 1, "max_tokens": 20, "temperature": 0}
    ).json["choices"][0]["message"]["content"]
    body = {"messages": MESSAGES, "seed": 1, "max_tokens": 20, "temperature": 0, "response_format": CALLS}
    assert server.post("/v1/chat/completions", body).json["choices"][0]["message"]["content"] == expected
    at_least_one = {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<call>"],
            "tags": [{"begin": "<call>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</call>"}],
            "at_least_one": True,
            "stop_after_first": True,
        },
    }
    text = text_of(server, response_format=at_least_one)
    assert text.startswith("<call>") and text.endswith("</call>")
    jsonschema.validate(json.loads(text.removeprefix("<call>").removesuffix("</call>")), SCHEMA)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"grammar": "root ::= this is (not valid GBNF"}, "grammar"),
        ({"regex": "(a"}, "regex"),
        ({"json_schema": {"type": "hiccup"}}, "json_schema"),
        ({"response_format": {"type": "json_object", "schema": {"type": 123}}}, "response_format.schema"),
        ({"grammar": 'root ::= "a"', "regex": "a"}, "grammar"),
        ({"response_format": {"type": "structural_tag"}}, "response_format cannot be used: it must have a format"),
        ({"response_format": CALLS, "regex": "a"}, "response_format.type and regex both constrain"),
        ({"structural_tag": {"format": {"type": "token", "token": 2**64 - 1}}}, "structural_tag"),
        ({"structural_tag": {"format": {**REPEATED, "max": 2**64 - 1}}}, "/format/max must be a whole number"),
    ],
    ids=str,
)
def test_what_cannot_be_kept(server: Server, body: dict[str, Any], words: str) -> None:
    for path, whole in (("/v1/chat/completions", {"messages": MESSAGES}), ("/completion", {"prompt": PROMPT})):
        reply = server.post(path, {**whole, **body, "max_tokens": 4})
        assert reply.status == 400, reply.text
        assert words in reply.error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_dead_end_is_the_requests_fault(server: Server, stream: bool) -> None:
    """The grammar and the allowed tokens exclude each other, which shows only once the mask is made."""
    body = {"prompt": "x", "grammar": 'root ::= "a"', "allowed_token_ids": [300], "max_tokens": 4, "stream": stream}
    reply = server.post("/v1/completions", body)
    error = reply.events[0]["error"] if stream else reply.error
    assert reply.status == (200 if stream else 400)
    assert error["code"] == 400 and error["param"] == "grammar" and "leave no token" in error["message"]
