"""Constrained output with the bundled pair: it obeys, with any draft, and a seed gives the same one with and without
drafts."""

from __future__ import annotations

import datetime
import enum
import json
import pathlib
import re
import subprocess
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema
import pydantic
import pytest

import specdec_native as sd

PERSON: dict[str, Any] = {
    "type": "object",
    "title": "Person",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "height": {"type": "number", "minimum": 0.5, "exclusiveMaximum": 3},
        "kind": {"enum": ["aa", "bb", 3, None]},
    },
    "required": ["name", "age", "height", "kind"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {
    "person": PERSON,
    "list": {"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 2, "maxItems": 4},
    "point": {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "x"}], "items": False, "minItems": 2},
    "choice": {
        "anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/code"}],
        "$defs": {"code": {"type": "string", "pattern": "^[A-C]{3}$"}},
    },
    "when": {"type": "object", "properties": {"at": {"type": "string", "format": "date"}}, "required": ["at"]},
}
PROMPT = "def person():\n    return "


@pytest.fixture(scope="module")
def gen() -> sd.Generator:
    return sd.Generator(max_sequences=4, n_threads=1)


@pytest.fixture(scope="module")
def copier(target_path: pathlib.Path) -> sd.Generator:
    return sd.Generator(target_path, draft="suffix", n_threads=1)


@pytest.mark.parametrize("name", SCHEMAS)
def test_output_is_json_of_the_schema(gen: sd.Generator, copier: sd.Generator, name: str) -> None:
    schema = SCHEMAS[name]
    finished = 0
    for seed in range(4):
        plain = gen.generate(PROMPT, json_schema=schema, max_tokens=120, seed=seed, num_draft_tokens=0)
        for other in (
            gen.generate(PROMPT, json_schema=schema, max_tokens=120, seed=seed, num_draft_tokens=5),
            gen.generate(PROMPT, json_schema=schema, max_tokens=120, seed=seed),
            copier.generate(PROMPT, json_schema=schema, max_tokens=120, seed=seed, num_draft_tokens=5),
        ):
            assert other.tokens == plain.tokens
        block = gen.generate(PROMPT, json_schema=schema, max_tokens=120, num_draft_tokens=5, verification="block")
        for completion in (plain, block):
            if completion.finish_reason == "stop":
                finished += 1
                jsonschema.validate(json.loads(completion.text), schema)
    assert finished >= 4


def test_greedy_output_is_the_plain_one(gen: sd.Generator, copier: sd.Generator) -> None:
    grammar = 'root ::= ("ab" | "c" [0-9]+ "\\n"){2,9}'
    forms: list[dict[str, Any]] = [{"json_schema": PERSON}, {"regex": "[a-z]{2,6}( [a-z]+){3}"}, {"grammar": grammar}]
    for options in forms:
        plain = gen.generate(PROMPT, temperature=0, max_tokens=60, num_draft_tokens=0, **options)
        for generator in (gen, copier):
            for k in (1, 6):
                other = generator.generate(PROMPT, temperature=0, max_tokens=60, num_draft_tokens=k, **options)
                assert other.tokens == plain.tokens
                assert other.finish_reason == plain.finish_reason


def test_regular_expressions_and_grammars(gen: sd.Generator) -> None:
    for seed in range(6):
        dated = gen.generate("on ", regex="[0-9]{4}-[01][0-9]-[0-3][0-9]", seed=seed, max_tokens=40)
        assert dated.finish_reason == "stop" and re.fullmatch("[0-9]{4}-[01][0-9]-[0-3][0-9]", dated.text)
        answer = gen.generate("is it? ", grammar='root ::= "yes" | "no" more\nmore ::= "!"+', seed=seed, max_tokens=9)
        assert re.fullmatch("yes|no!+", answer.text)
        obj = gen.generate("x = ", json_schema={}, seed=seed, max_tokens=60)
        assert obj.text.startswith("{")
        if obj.finish_reason == "stop":
            assert isinstance(json.loads(obj.text), dict)


def test_many_requests_with_constraints_of_their_own(gen: sd.Generator) -> None:
    requests: list[Any] = [{"prompt": PROMPT, "json_schema": schema} for schema in SCHEMAS.values()]
    requests += [{"prompt": PROMPT, "regex": "[ab]{5}"}, PROMPT, {"prompt": PROMPT, "json_schema": {"not": {}}}]
    together = gen.generate_many(requests, seed=7, max_tokens=80)
    for request, completion in zip(requests[:-1], together[:-1], strict=True):
        own = {"prompt": request} if isinstance(request, str) else dict(request)
        alone = gen.generate(own.pop("prompt"), seed=completion.seed, max_tokens=80, **own)
        assert alone.tokens == completion.tokens
    assert re.fullmatch("[ab]{5}", together[-3].text)
    assert isinstance(together[-1].error, ValueError) and "/not is not supported" in str(together[-1].error)


def test_submitted_requests(gen: sd.Generator) -> None:
    with sd.Generator(max_sequences=3) as shared:
        handles = [shared.submit(PROMPT, json_schema=PERSON, seed=seed, max_tokens=80) for seed in range(6)]
        texts = [handle.result().text for handle in handles]
    assert texts == [gen.generate(PROMPT, json_schema=PERSON, seed=seed, max_tokens=80).text for seed in range(6)]


def test_max_tokens_and_stop_strings_cut_it(gen: sd.Generator) -> None:
    full = gen.generate(PROMPT, json_schema=PERSON, seed=3, max_tokens=120)
    cut = gen.generate(PROMPT, json_schema=PERSON, seed=3, max_tokens=5)
    assert cut.finish_reason == "length" and cut.tokens == full.tokens[:5]
    stopped = gen.generate(PROMPT, json_schema=PERSON, seed=3, max_tokens=120, stop='"age"')
    assert stopped.finish_reason == "stop" and stopped.text == full.text.split('"age"')[0]
    assert (
        gen.generate(PROMPT, json_schema=PERSON, seed=3, max_tokens=120).text == full.text
    )  # nothing of the cut ones is left


def test_the_schema_may_be_text_or_a_class(gen: sd.Generator) -> None:
    class Person:
        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:  # as pydantic's classes have it
            return PERSON

    given = [PERSON, json.dumps(PERSON), Person]
    assert len({gen.generate(PROMPT, json_schema=schema, seed=1, max_tokens=80).text for schema in given}) == 1


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(pydantic.BaseModel):
    """With a description, which is no part of the form."""

    x: int = pydantic.Field(ge=-9, le=9)
    y: int | None


class Drawing(pydantic.BaseModel):
    colour: Colour
    kind: Literal["line", "dot"]
    points: list[Point] = pydantic.Field(min_length=1, max_length=2)
    name: str = pydantic.Field(max_length=5, description="what it is called")


def test_a_model_of_pydantics(gen: sd.Generator) -> None:
    for seed in range(4):
        completion = gen.generate(PROMPT, json_schema=Drawing, seed=seed, max_tokens=120)
        assert completion.finish_reason == "stop"
        drawing = Drawing.model_validate_json(completion.text)
        assert 1 <= len(drawing.points) <= 2 and len(drawing.name) <= 5


def test_pydantic_models_as_people_write_them(gen: sd.Generator) -> None:
    class Cat(pydantic.BaseModel):
        kind: Literal["cat"]
        lives: int = pydantic.Field(ge=1, le=9)

    class Dog(pydantic.BaseModel):
        kind: Literal["dog"]
        secret: pydantic.SecretStr

    class Owner(pydantic.BaseModel):
        pet: Cat | Dog = pydantic.Field(discriminator="kind")
        home: pathlib.Path
        photo: bytes
        waits: datetime.timedelta = pydantic.Field(json_schema_extra={"x-order": 3, "examples": ["PT5M"]})
        note: str | None = None

    begin = 'owner = {"pet": {"kind": '
    text = gen.generate("owner = ", json_schema=Owner, seed=1, max_tokens=40).text
    assert begin.removeprefix("owner = ") in text and re.search('"kind": "(cat|dog)", "(lives|secret)": ', text)

    class Tags(pydantic.BaseModel):
        tags: set[float]

    with pytest.raises(ValueError, match="/properties/tags/uniqueItems is not supported"):
        gen.generate("tags = ", json_schema=Tags)


def test_a_type_adapter_of_pydantics(gen: sd.Generator) -> None:
    @dataclass
    class Size:
        width: Literal[1, 2]
        unit: Colour

    adapter = pydantic.TypeAdapter(Size)
    assert adapter.validate_json(gen.generate(PROMPT, json_schema=adapter, seed=1, max_tokens=60).text).width in (1, 2)
    with pytest.raises(TypeError, match=r"json_schema is <class .*pydantic.TypeAdapter makes one"):
        gen.generate(PROMPT, json_schema=Size)


def test_bad_constraints(gen: sd.Generator) -> None:
    def error(**options: Any) -> str:
        with pytest.raises(ValueError) as caught:
            gen.generate(PROMPT, **options)
        return str(caught.value)

    assert "/properties/a/uniqueItems is not supported" in error(
        json_schema={"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    )
    assert "not JSON" in error(json_schema="{")
    assert "json_schema is empty" in error(json_schema="")
    assert "line 1, character 10" in error(grammar='root ::= "a')
    assert "regex" in error(regex="(")
    assert "at most one" in error(regex="a", grammar='root ::= "a"')
    with pytest.raises(TypeError, match="json_schema is"):
        gen.generate(PROMPT, json_schema=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="regex is"):
        gen.generate(PROMPT, regex=3)  # type: ignore[arg-type]
    banned = {
        token: float("-inf")
        for token in range(gen.metadata and len(gen.metadata["tokenizer.ggml.tokens"]))
        if token > 2
    }
    with pytest.raises(sd.Error, match="leave no token"):
        gen.generate(PROMPT, regex="a", logit_bias=banned)
    assert gen.generate(PROMPT, regex="a", max_tokens=4).text == "a"


def test_on_the_command_line(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def run(*arguments: str | pathlib.Path, code: int = 0) -> str:
        command = [specdec, "generate", "-p", PROMPT, "-n", "90", "-s", "1", "--no-display-prompt", *arguments]
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
        assert result.returncode == code, result.stderr
        return result.stdout if code == 0 else result.stderr

    schema, grammar = tmp_path / "schema.json", tmp_path / "grammar.gbnf"
    schema.write_text(json.dumps(PERSON))
    grammar.write_text('root ::= "yes" | "no"\n')
    jsonschema.validate(json.loads(run("-j", json.dumps(PERSON))), PERSON)
    assert run("--json-schema-file", schema) == run("-j", json.dumps(PERSON))
    assert run("--grammar-file", grammar).strip() in {"yes", "no"}
    assert re.fullmatch("[a-c]{4}", run("--regex", "[a-c]{4}").strip())
    assert "/not is not supported" in run("-j", '{"not": {}}', code=2)
    assert "at most one" in run("-j", "{}", "--regex", "a", code=2)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": PROMPT, "json_schema": PERSON}) + "\n")
    output = tmp_path / "output.jsonl"
    subprocess.run([specdec, "generate", "--prompts", prompts, "--output", output, "-n", "90"], check=True, timeout=60)
    jsonschema.validate(json.loads(json.loads(output.read_text())["text"]), PERSON)
