"""Arguments of required calls obey the schemas of their tools, in the form of every template that llama.cpp collects.

For each template and schema, the conversation is rendered with a call whose argument is valid, and with one whose
argument is not. What the template writes for the first must be allowed, and for the second must not be, unless the
reply names the keyword as ignored.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

MESSAGES = [{"role": "user", "content": "Please set it."}]
ZOD = {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}
UPPER = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^[^a-z]{1,3}$"}}, "required": ["s"]}
PAIR = {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}}
TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "value": {"type": "integer"}}, "required": ["value"]}

# Schemas of the argument n, values that it allows and values that it does not.
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "a minimum of three digits": ({"type": "integer", "minimum": 100}, [100, 1000, 1024], [10, 99, -100]),
    "the bounds of zod": (ZOD, [5, -5], [9007199254740992]),
    "a pattern": (UPPER, [{"s": "AB"}], [{"s": "ab"}, {"s": "ABCD"}]),
    "allOf": ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, [4], [2]),
    "siblings of $ref": ({"$ref": "#/$defs/a", "maximum": 5}, [3], [9]),
    "siblings of enum": ({"enum": [1, 2, 3], "maximum": 2}, [2], [3, 4]),
    "siblings of anyOf": ({"anyOf": [{"minimum": 1}, {"type": "null"}], "type": "integer"}, [2], [0]),
    "a list of types": ({"type": ["integer", "null"], "minimum": 7}, [8], [6]),
    "prefixItems beside items": (PAIR, [[1, True]], [[True, True], [1, 2]]),
    "lengths of items": ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [[1, 2]], [[1]]),
    "a tree": (TREE, [{"value": 1}], [{"left": {"value": None}}]),
    "a text": ({"type": "string", "maxLength": 3}, ["ab"], ["abcd"]),
    "a choice of texts": ({"enum": ["north", "south"]}, ["north"], ["west"]),
    "a choice of several types": ({"enum": ["2", 3]}, ["2", 3], ["5", 7]),
    "a text or a number": ({"type": ["string", "integer"], "maximum": 5}, ["2", 3], [7]),
}

# What a string, alone or within other arguments, must be; a value that is, and one that is not.
STRINGS: dict[str, tuple[Any, str, str]] = {
    "minLength": ({"type": "string", "minLength": 3}, "north", "up"),
    "maxLength": ({"type": "string", "maxLength": 3}, "up", "north"),
    "a long maxLength": ({"type": "string", "maxLength": 40}, "up", "north" * 9),
    "pattern": ({"type": "string", "pattern": "^[A-Z]{1,3}$"}, "UP", "north"),
    "format": ({"type": "string", "format": "date"}, "2024-02-29", "tomorrow"),
    "enum": ({"type": "string", "enum": ["north", "south"]}, "north", "west"),
    "const": ({"const": "north"}, "north", "west"),
    "anyOf": ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}, "up", "north"),
    "a list of types": ({"type": ["string", "null"], "maxLength": 3}, "up", "north"),
    "$ref": ({"$ref": "#/$defs/short"}, "up", "north"),
    "propertyNames": ({"type": "object", "propertyNames": {"maxLength": 3}}, '{"up": 1}', '{"north": 1}'),
}
WITHIN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "alone": (lambda schema: schema, lambda value: value),
    "in an object": (
        lambda schema: {"type": "object", "properties": {"s": schema}, "required": ["s"]},
        lambda value: {"s": value},
    ),
    "in an array": (lambda schema: {"type": "array", "items": schema}, lambda value: [value]),
    "in objects of an array": (
        lambda schema: {"type": "array", "items": {"type": "object", "properties": {"s": schema}}},
        lambda value: [{"s": value}],
    ),
    "under a name": (
        lambda schema: {"type": "object", "additionalProperties": schema},
        lambda value: {"s": value},
    ),
    "beside numbers": (lambda schema: {"anyOf": [{"type": "integer"}, schema]}, lambda value: value),
}


def tool(schema: Any) -> Any:
    definitions = {"a": {"type": "integer"}, "short": {"type": "string", "maxLength": 3}}
    parameters = {"type": "object", "properties": {"n": schema}, "required": ["n"], "$defs": definitions}
    if schema == TREE:
        parameters["properties"] = {
            "n": {**TREE, "properties": {**TREE["properties"], "left": {"$ref": "#/properties/n"}}}
        }
    return {"type": "function", "function": {"name": "set_it", "description": "Sets it.", "parameters": parameters}}


def calling(value: Any) -> Any:
    function = {"name": "set_it", "arguments": {"n": value}}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "id": "call00000", "function": function}],
    }


@pytest.fixture(scope="module")
def ask(built: Callable[[str], pathlib.Path]) -> Iterator[Callable[[Any], Any]]:
    with subprocess.Popen(
        [built("engine/test_call_driver")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:

        def send(request: Any) -> Any:
            assert driver.stdin and driver.stdout
            driver.stdin.write(json.dumps(request) + "\n")
            driver.stdin.flush()
            return json.loads(driver.stdout.readline())

        yield send
        assert driver.stdin
        driver.stdin.close()


def ends_behind(answer: Any, value: Any) -> bool:
    """Whether the grammar lets the answer end where its argument has been written."""
    leaf = value
    while isinstance(leaf, dict | list):
        leaf = list(leaf.values() if isinstance(leaf, dict) else leaf)[-1]
    is_python = isinstance(value, dict | list) and json.dumps(value) != str(value) and str(value) in answer["text"]
    if "'n'" in answer["text"] or is_python:  # as Python writes it, not as JSON
        raise ValueError
    written = answer["text"].rindex(leaf if isinstance(leaf, str) else json.dumps(leaf))
    return any(end > written for end in answer["ends"])


def test_arguments_obey_their_schemas(ask: Callable[[Any], Any], templates: dict[str, str]) -> None:
    judged, enforced, problems = set(), 0, []
    for name, source in templates.items():
        for case, (schema, valid, wrong) in CASES.items():
            answers = [calling(value) for value in valid + wrong]
            reply = ask({"template": source, "tools": [tool(schema)], "messages": MESSAGES, "answers": answers})
            if "answers" not in reply:
                assert "error" not in reply, (name, case, reply)
                continue
            for i, (value, answer) in enumerate(zip(valid + wrong, reply["answers"], strict=True)):
                if answer is None:
                    continue
                try:
                    is_allowed = ends_behind(answer, value)
                except ValueError:  # written in another way
                    continue
                judged.add(name)
                is_ignored = any(place.startswith("set_it: /properties/n") for place in reply["ignored"])
                is_valid = i < len(valid)
                if is_valid > is_allowed or (is_allowed and not is_valid and not is_ignored):
                    problems.append((name, case, value, answer, reply["ignored"]))
                enforced += not is_valid and not is_allowed
    assert not problems, problems[:5]
    assert len(judged) > 30 and enforced > 500, (len(judged), enforced)


def test_strings_obey_or_their_keywords_are_named(ask: Callable[[Any], Any], templates: dict[str, str]) -> None:
    """A template gets a sixth of the cases, those with tags for the parts of arguments, and Gemma's, get all."""
    judged, enforced, problems = set(), 0, []
    for turn, (name, source) in enumerate(templates.items()):
        has_all = "MiniMax-M3" in name or "gemma-4" in name
        for i, (keyword, (of_string, right, wrong)) in enumerate(STRINGS.items()):
            for j, (place, (schema_within, value_within)) in enumerate(WITHIN.items()):
                if not has_all and (i + j + turn) % len(WITHIN) != 0:
                    continue
                values = [json.loads(one) if one[0] == "{" else one for one in (right, wrong)]
                answers = [calling(value_within(value)) for value in values]
                schema = schema_within(of_string)
                reply = ask({"template": source, "tools": [tool(schema)], "messages": MESSAGES, "answers": answers})
                assert "answers" in reply or "error" not in reply, (name, keyword, place, reply)
                if None in reply.get("answers", [None]):
                    continue
                try:
                    is_allowed = [
                        ends_behind(answer, value_within(value))
                        for answer, value in zip(reply["answers"], values, strict=True)
                    ]
                except ValueError:  # written in another way
                    continue
                judged.add(name)
                is_named = any(one.startswith("set_it: /properties/n") for one in reply["ignored"])
                if is_named < (is_allowed != [True, False]):
                    problems.append((name, keyword, place, is_allowed, reply))
                enforced += not is_allowed[1]
    assert not problems, (len(problems), problems[:5])
    assert len(judged) > 30 and enforced > 200, (len(judged), enforced)


def test_required_arguments_come(ask: Callable[[Any], Any], templates: dict[str, str]) -> None:
    """A call without them is not allowed, one without others is."""
    parameters = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "note": {"type": "string"}, "more": {"type": "boolean"}},
        "required": ["n"],
    }
    tools = [{"type": "function", "function": {"name": "set_it", "description": "Sets it.", "parameters": parameters}}]
    answers = []
    for arguments in ({}, {"note": "x"}, {"n": 317}):
        message = calling(0)
        message["tool_calls"][0]["function"]["arguments"] = arguments
        answers.append(message)
    judged = 0
    for name, source in templates.items():
        reply = ask({"template": source, "tools": tools, "messages": MESSAGES, "answers": answers})
        if "answers" not in reply or None in reply["answers"]:
            continue
        *wrong, right = reply["answers"]
        if "317" not in right["text"]:
            continue
        judged += any(end > right["text"].rindex("317") for end in right["ends"])
        is_ignored = "set_it: /required" in reply["ignored"]
        assert is_ignored == any(answer["ends"] for answer in wrong), (name, wrong, reply["ignored"])
    assert judged > 30


def test_errors_name_the_tool_and_the_place(ask: Callable[[Any], Any], templates: dict[str, str]) -> None:
    source = templates["Qwen-Qwen3-0.6B"]
    for schema, problem in (
        ({"$ref": "#/nowhere"}, "tools cannot be used: set_it: /properties/n/$ref points nowhere: set_it: /nowhere"),
        ({"type": "integer", "minimum": 2, "maximum": 1}, "tools cannot be used: set_it: "),
    ):
        reply = ask({"template": source, "tools": [tool(schema)], "messages": MESSAGES, "answers": []})
        assert reply["error"].startswith(problem), reply
