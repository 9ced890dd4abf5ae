"""JSON schemas as constraints: a sample of the random ones (tests/fuzz/schemas.py), and those that once were wrong."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.fuzz.schemas import Driver, check

pytestmark = pytest.mark.quick

SAMPLE = range(1, 1201)


@pytest.fixture(scope="module")
def driver(built: Callable[[str], pathlib.Path]) -> Iterator[Driver]:
    started = Driver(built("constraints/test_schema_driver"))
    yield started
    started.close()


def test_a_sample_of_random_schemas(driver: Driver) -> None:
    findings, counts = [], {"accepted": 0, "walks": 0, "wishes": 0}
    for seed in SAMPLE:
        result = check(driver, seed)
        findings += result.findings
        for name in counts:
            counts[name] += result.counts[name]
    assert not findings
    assert counts["accepted"] > 400 and counts["walks"] > 1000 and counts["wishes"] > 300, counts


def doubled(length: int, keyword: str, last: Any) -> dict[str, Any]:
    definitions = {
        f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": last}}


ANY_OF_ITSELF = {"anyOf": [{"const": 1}, {"$ref": "#/$defs/A"}]}
EACH_OTHER = {"A": {"$ref": "#/$defs/B"}, "B": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}}
TREE = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"type": "integer"}}, "required": ["b"]}
OBJECT = {"type": "object", "properties": {"c": {"type": "boolean"}}}

# Schemas, texts that may be written, and texts that may not.
CASES: dict[str, tuple[Any, list[str], list[str]]] = {
    "a set of values that names itself": (
        {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/A"}, "$defs": {"A": ANY_OF_ITSELF}},
        ["[]", "[1]"],
        ["[1, 1]", "[2]"],
    ),
    "definitions that name each other": ({"$ref": "#/$defs/A", "$defs": EACH_OTHER}, ["null"], ["1", "{}"]),
    "a tree": (TREE, ['{"b": 1}', '{"a": {"a": {"b": 3}, "b": 2}, "b": 1}'], ['{"a": {}, "b": 1}', "{}"]),
    "doubled anyOf": (doubled(60, "anyOf", {"const": "x"}), ['"x"'], ['"y"']),
    "doubled allOf": (doubled(60, "allOf", {"const": "x"}), ['"x"'], ['"y"']),
    "a minimum of three digits": ({"type": "integer", "minimum": 100}, ["100", "1000", "1024"], ["10", "99", "-100"]),
    "a negated class is not a control character": (
        {"type": "string", "pattern": "^[^a-z]{1,3}$"},
        ['"AB"', '"\\n"'],
        ['"\n"', '"a"', '""'],
    ),
    "allOf of one integer": ({"allOf": [{"type": "integer"}]}, ["5"], ["{}", '"a"']),
    "siblings of a reference": (
        {"$ref": "#/$defs/a", "maximum": 5, "$defs": {"a": {"type": "integer", "minimum": 3}}},
        ["3", "5"],
        ["2", "6"],
    ),
    "siblings of enum": ({"enum": ["a", 1, 7], "type": "integer", "maximum": 5}, ["1"], ["7", '"a"']),
    "siblings of anyOf": (
        {"type": "string", "anyOf": [{"minLength": 2}, {"const": "a"}]},
        ['"a"', '"ab"'],
        ['"b"', '""', "1"],
    ),
    "lengths beside a pattern": (
        {"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 3},
        ['"aa"', '"aaa"'],
        ['"a"', '"aaaa"', '"ab"'],
    ),
    "prefixItems beside items": (
        {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "integer"}},
        ["[]", "[null]", "[null, 1, 2]"],
        ["[1]", "[null, null]"],
    ),
    "bounds of a list of types": (
        {"type": ["integer", "null"], "minimum": 3, "maximum": 20},
        ["null", "3", "20"],
        ["2", "21"],
    ),
    "zod's integers": (
        {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
        ["0", "-12", "9007199254740991", "-9007199254740991"],
        ["9007199254740992", "-9007199254740992", "1.5"],
    ),
    "a string of exactly ten": (
        {"type": "string", "minLength": 10, "maxLength": 10},
        ['"aaaaaaaaaa"'],
        ['"aaaaaaaaa"'],
    ),
    "a narrow range": (
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e-6},
        ["0.0000005"],
        ["0", "0.000001", "", "1"],
    ),
    "a narrow range in an object": (
        {"type": "object", "properties": {"c": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e-6}}},
        ["{}", '{"c": 0.00000025}'],
        ['{"c": }', '{"c": 0.5}'],
    ),
    "multiples of 7": ({"type": "integer", "multipleOf": 7}, ["0", "7", "-14", "700000007"], ["1", "8", "7" * 40]),
    "multiples of 1000": ({"type": "integer", "multipleOf": 1000}, ["0", "-5000"], ["10", "100", "1500"]),
    "names by a reference": (
        {"type": "object", "propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": ["a", 1]}}},
        ["{}", '{"a": 1}'],
        ["{1: 1}", '{"b": 1}'],
    ),
    "no additional names beside propertyNames": (
        {**OBJECT, "additionalProperties": False, "propertyNames": {"pattern": "^[a-c]$"}},
        ["{}", '{"c": true}'],
        ['{"a": 1}'],
    ),
    "the shortest name beside a longest that is ignored": (
        {"propertyNames": {"minLength": 3, "maxLength": 1000000}},
        ['{"abc": 1}'],
        ['{"ab": 1}', '{"": 1}'],
    ),
    "a long maxLength belongs to its place": (
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "maxLength": 40},
                "b": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
            "patternProperties": {"^c": {"type": "string", "maxLength": 50}},
        },
        [json.dumps({"a": "x" * 40, "b": {"a": "x" * 99}}), json.dumps({"c1": "x" * 50})],
        [json.dumps({"a": "x" * 41}), json.dumps({"c1": "x" * 51})],
    ),
    "an escape does not spell a listed name": (
        {**OBJECT, "additionalProperties": {"type": "integer"}},
        ['{"c": true, "d": 1}'],
        ['{"\\u0063": 1}', '{"d": true}'],
    ),
    "a reference into oneOf": (
        {"oneOf": [{"type": "null"}, OBJECT], "properties": {"d": {"$ref": "#/oneOf/1"}}},
        ["null", "{}"],
        ["1"],
    ),
    "a reference into a counted, nullable object": (
        {
            "type": "object",
            "properties": {
                "a": {
                    "type": "object",
                    "nullable": True,
                    "minProperties": 1,
                    "properties": {"x": {}, "y": {"type": "null"}},
                },
                "b": {"$ref": "#/properties/a/properties/y"},
            },
        },
        ['{"a": null, "b": null}', '{"a": {"y": null}}'],
        ['{"a": {}}', '{"b": 1}'],
    ),
    "an integer above 2^63 is not negative": (
        {"exclusiveMaximum": -1, "enum": [9223372036854775808, -3]},
        ["-3"],
        ["9223372036854775808"],
    ),
    "2^64 - 1 is not -1": ({"enum": [18446744073709551615, 2], "allOf": [{"enum": [-1, 2]}]}, ["2"], ["-1"]),
    "a bound above 2^63": (
        {"type": "integer", "minimum": 9223372036854775808, "maximum": 9223372036854775810},
        ["9223372036854775809"],
        ["5", "-3", "9223372036854775811"],
    ),
    "multiples of 2^63": (
        {"enum": [0, 9223372036854775808, 5], "minimum": 9223372036854775808},
        ["9223372036854775808"],
        ["0", "5"],
    ),
    "1.0 is 1": ({"allOf": [{"anyOf": [{"enum": [1.0]}]}, {"enum": [1]}]}, ["1"], ["1.0", "2"]),
    "one text for equal numbers": (
        {"enum": [1e0, -0.0, [2.0, {"a": 3.0}], 0.5, 1e300]},
        ["1", "0", '[2, {"a": 3}]', "0.5", "1e+300"],
        ["-0", "1.0"],
    ),
    "a number of 64 bits with a point": (
        {"const": 9223372036854775808.0},
        ["9223372036854775808"],
        ["9.223372036854776e+18"],
    ),
    "1.0 and 1 are not unique items": (
        {"type": "array", "items": {"enum": [1.0, 1, 0.5]}, "uniqueItems": True},
        ["[1, 0.5]", "[0.5]"],
        ["[1, 1]", "[0.5, 0.5]", "[1, 0.5, 1]"],
    ),
    "a reference into x-": ({"$ref": "#/x-shapes/a~1b%25", "x-shapes": {"a/b%": {"const": 3}}}, ["3"], ["4"]),
}


@pytest.mark.parametrize("name", CASES)
def test_schemas_that_were_wrong(driver: Driver, name: str) -> None:
    schema, allowed, forbidden = CASES[name]
    request = {"schema": json.dumps(schema), "strict": False, "wishes": allowed + forbidden, "walks": 20, "seed": 1}
    reply = driver.ask(request)
    assert reply.get("faults") == [], reply
    refused = dict(zip(allowed + forbidden, reply["wishes"], strict=True))
    assert [text for text in allowed if refused[text] is not None] == [], reply["ignored"]
    assert [text for text in forbidden if refused[text] is None] == [], reply["ignored"]
    assert check(driver, 1, json.dumps(schema), is_strict=False).findings == []


REJECTED = [
    ({"type": "object", "minProperties": 2, "maxProperties": 1}, "its keywords exclude each other"),
    ({"$ref": "#"}, "refers to itself"),
    (doubled(60, "oneOf", {"$ref": "#/$defs/d0"}), "refers to itself"),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}, "refers to itself"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "allows no value"),
    ({"$ref": "#/nowhere"}, "points nowhere"),
    ({"enum": [9223372036854775808], "exclusiveMaximum": -1}, "allows no value"),
    (
        {"additionalProperties": True, "patternProperties": {"^[^a]+$": {}}, "propertyNames": {"maxLength": 2083}},
        "needs too many states",
    ),
]


def test_each_unique_items_is_named(driver: Driver) -> None:
    schema = {"allOf": [{"uniqueItems": True}, {"minItems": 3, "uniqueItems": True}]}
    reply = driver.ask({"schema": json.dumps(schema), "strict": False, "wishes": [], "walks": 0, "seed": 1})
    assert reply["ignored"] == ["/allOf/0/uniqueItems", "/allOf/1/uniqueItems"]


def test_a_oneof_beside_anything_is_named(driver: Driver) -> None:
    schema = {"oneOf": [{"properties": {"c": {}}, "minProperties": 3}, {}]}
    reply = driver.ask({"schema": json.dumps(schema), "strict": False, "wishes": [], "walks": 0, "seed": 1})
    assert "/oneOf" in reply["ignored"]


def test_counts_of_a_part_are_named_where_they_stand(driver: Driver) -> None:
    schema = {"propertyNames": {}, "maxProperties": 2, "anyOf": [{"minProperties": 2}]}
    reply = driver.ask({"schema": json.dumps(schema), "strict": True, "wishes": [], "walks": 0, "seed": 1})
    assert "/anyOf/0/minProperties is not supported" in reply["error"]


@pytest.mark.parametrize(("schema", "words"), REJECTED)
def test_rejected_with_a_place(driver: Driver, schema: Any, words: str) -> None:
    reply = driver.ask({"schema": json.dumps(schema), "strict": False, "wishes": [], "walks": 0, "seed": 1})
    assert words in reply["error"]
    assert check(driver, 1, json.dumps(schema), is_strict=False).findings == []
