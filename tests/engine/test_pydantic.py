"""Fields of pydantic's models, one by one: their schemas are accepted, and the output is a model."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import uuid
from typing import Annotated, Any, Literal

import jsonschema
import pydantic
import pytest

import specdec_native as sd


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = pydantic.Field(ge=1, le=9)


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    secret: pydantic.SecretStr


class Tree(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(max_length=4)]
    leaves: list[Tree] = pydantic.Field(max_length=2)


Short = Annotated[str, pydantic.Field(max_length=40)]

FIELDS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "positive": pydantic.PositiveInt,
    "not negative": pydantic.NonNegativeFloat,
    "bool": bool,
    "none": None,
    "literal": Literal["a", "b", 3],
    "enum": Colour,
    "optional": int | None,
    "union": int | bool | list[int],
    "url": pydantic.HttpUrl,
    "email": pydantic.EmailStr,
    "timedelta": datetime.timedelta,
    "date": datetime.date,
    "time": datetime.time,
    "datetime": datetime.datetime,
    "uuid": uuid.UUID,
    "uuid4": pydantic.UUID4,
    "path": pathlib.Path,
    "bytes": bytes,
    "secret": pydantic.SecretStr,
    "ipv4": ipaddress.IPv4Address,
    "short": Short,
    "long": Annotated[str, pydantic.Field(max_length=2000)],
    "some length": Annotated[str, pydantic.Field(min_length=3, max_length=1000)],
    "pattern": Annotated[str, pydantic.Field(pattern="^[A-Z]{2}-[0-9]+$")],
    "list": Annotated[list[Literal["x", "y"]], pydantic.Field(min_length=1, max_length=3)],
    "tuple": tuple[int, bool],
    "dict": dict[str, int],
    "names of a dict": dict[Literal["one", "two"], int],
    "pattern of a dict": dict[Annotated[str, pydantic.Field(pattern="^x_[a-z]+$")], int],
    "some of a dict": Annotated[dict[str, bool], pydantic.Field(min_length=1, max_length=3)],
    "several of a dict": Annotated[dict[str, bool], pydantic.Field(min_length=2, max_length=4)],
    "several names of a dict": Annotated[dict[Colour, int], pydantic.Field(min_length=2)],
    "set": set[Literal[1, 2, 3]],
    "set of an enum": Annotated[set[Colour], pydantic.Field(min_length=2)],
    "set of flags": Annotated[frozenset[bool | None], pydantic.Field(min_length=1)],
    "set of integers": Annotated[set[int], pydantic.Field(min_length=2, max_length=5)],
    "set of texts": Annotated[set[str], pydantic.Field(min_length=2, max_length=5)],
    "set of digits": Annotated[set[Annotated[int, pydantic.Field(ge=0, le=9)]], pydantic.Field(min_length=9)],
    "optional set": set[Colour] | None,
    "nested": Cat,
    "discriminated": Annotated[Cat | Dog, pydantic.Field(discriminator="kind")],
    "recursive": Tree,
    "extra": Annotated[int, pydantic.Field(json_schema_extra={"x-order": 3, "examples": [1], "readOnly": True})],
    "optional url": pydantic.HttpUrl | None,
    "urls": Annotated[list[pydantic.HttpUrl], pydantic.Field(max_length=2)],
}
NOT_STRICT: dict[str, Any] = {
    "frozenset": Annotated[frozenset[Annotated[int, pydantic.Field(ge=-5)]], pydantic.Field(max_length=3)],
    "addresses": Annotated[set[uuid.UUID], pydantic.Field(max_length=2)],
}


@pytest.fixture(scope="module")
def gen() -> sd.Generator:
    return sd.Generator(n_ctx=2048, n_threads=2)


def model_of(field: Any) -> Any:
    return pydantic.create_model("Model", value=(field, ...))


def written(gen: sd.Generator, model: Any, seed: int, **options: Any) -> sd.Completion:
    """What ends values is made likely, because the little model would write most strings without end."""
    ends = {token: 6.0 for text in ('"', "}", "]", '"}', "/", "@") for token in gen.tokenize(text)[-1:]}
    return gen.generate("value = ", json_schema=model, seed=seed, max_tokens=600, logit_bias=ends, **options)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field(gen: sd.Generator, name: str) -> None:
    model = model_of(FIELDS[name])
    for seed in range(3):
        completion = written(gen, model, seed)
        assert completion.finish_reason == "stop", completion.text
        assert isinstance(completion.parsed, model)
        jsonschema.validate(json.loads(completion.text), model.model_json_schema())


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_greedily(gen: sd.Generator, name: str) -> None:
    """Nothing goes on for ever, but strings may: here they end."""
    model = model_of(FIELDS[name])
    completion = written(gen, model, 0, temperature=0)
    assert completion.finish_reason == "stop", completion.text
    assert isinstance(completion.parsed, model)


@pytest.mark.parametrize("name", NOT_STRICT)
def test_a_field_that_is_left_to_the_caller(gen: sd.Generator, name: str) -> None:
    model = model_of(NOT_STRICT[name])
    completion = written(gen, model, 1, strict_schema=False)
    assert isinstance(completion.parsed, model)
    assert completion.ignored_keywords == sd.ignored_keywords(model) == ["/properties/value/uniqueItems"]
    with pytest.raises(ValueError, match=r"/properties/value/uniqueItems is not supported .*; leave it out, or ask "):
        written(gen, model, 1)


def test_what_a_structural_tag_leaves_to_the_caller(gen: sd.Generator) -> None:
    content = {"type": "json_schema", "json_schema": {"type": "object", "not": {"required": ["a"]}}}
    tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<n>", "content": content, "end": "</n>"}}
    assert sd.ignored_keywords(structural_tag=tag) == ["/format/content/json_schema/not"]
    assert sd.ignored_keywords({"type": "integer"}) == [] == gen.generate("x = ", max_tokens=2).ignored_keywords
    with pytest.raises(ValueError, match="json_schema is not JSON"):
        sd.ignored_keywords("{")


def test_a_decimal(gen: sd.Generator) -> None:
    adapter = pydantic.TypeAdapter(decimal.Decimal)
    for seed in range(4):
        completion = gen.generate("x = ", json_schema=adapter, seed=seed, max_tokens=100, logit_bias=number_only(gen))
        assert isinstance(completion.parsed, decimal.Decimal)


def number_only(gen: sd.Generator) -> dict[int, float]:
    """Without quotes: the schema allows any string, too."""
    return {token: float("-inf") for token in gen.tokenize('"') if gen.detokenize([token]) == '"'}


def test_numbers_end(gen: sd.Generator) -> None:
    """A model that would write the digit for ever."""
    for kind, digit in ((int, "0"), (int, "7"), (float, "3"), (float, "9")):
        bias = {gen.tokenize("x" + digit)[-1]: 50.0}
        completion = gen.generate("x = 1", json_schema=pydantic.TypeAdapter(kind), temperature=0, logit_bias=bias)
        assert completion.finish_reason == "stop" and len(completion.text) < 40, completion.text
        assert isinstance(completion.parsed, kind)


def test_a_long_string_ends(gen: sd.Generator) -> None:
    """As long as the schema allows, and no longer, where the model would not end it."""
    bias = {gen.tokenize("x")[-1]: 50.0}
    for length in (33, 100, 700):
        model = model_of(Annotated[str, pydantic.Field(max_length=length)])
        completion = gen.generate("x = ", json_schema=model, temperature=0, logit_bias=bias, max_tokens=1000)
        assert completion.finish_reason == "stop"
        assert len(completion.parsed.value) == length


def test_a_schema_with_a_big_number(gen: sd.Generator) -> None:
    schema = {"type": "integer", "minimum": 10**17, "maximum": 10**18}
    assert 10**17 <= gen.generate("x = ", json_schema=schema, seed=1).parsed <= 10**18
    assert gen.generate("x = ", json_schema={"const": 1234567890123456789}, seed=1).parsed == 1234567890123456789


def test_what_parsed_is(gen: sd.Generator) -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    for given in (schema, json.dumps(schema)):
        assert gen.generate("x = ", json_schema=given).parsed == {"a": 1}
    assert gen.submit("x = ", json_schema=schema).result().parsed == {"a": 1}
    assert asyncio.run(gen.agenerate("x = ", json_schema=schema)).parsed == {"a": 1}
    assert [one.parsed for one in gen.generate_many(["x", "y"], json_schema=schema)] == [{"a": 1}] * 2
    with pytest.raises(ValueError, match="has no json_schema"):
        _ = gen.generate("x = ", max_tokens=2).parsed
    with pytest.raises(pydantic.ValidationError):
        _ = gen.generate("x = ", max_tokens=2, json_schema=model_of(int)).parsed


def test_results_as_json(gen: sd.Generator) -> None:
    completion = gen.generate("x = ", max_tokens=4, seed=1, top_logprobs=1)
    values = json.loads(completion.to_json())
    assert values["text"] == completion.text and values["tokens"] == completion.tokens and values["error"] is None
    assert values["stats"]["tokens"] == 4 and values["pieces"][0]["top_logprobs"][0][0] >= 0
    assert set(values) == {
        "text", "tokens", "pieces", "finish_reason", "stats", "seed", "verification", "error"
    }  # fmt: skip
    failed = gen.generate_many(["x", [-1]], max_tokens=1)[1]
    assert json.loads(failed.to_json())["error"] == str(failed.error)
