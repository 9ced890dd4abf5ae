"""Instances of JSON schemas: whether one is valid (the jsonschema package decides), whether it can be written (by the
documented narrowings), and random ones."""

from __future__ import annotations

import datetime
import ipaddress
import itertools
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import jsonschema  # type: ignore[import-untyped]
import referencing.exceptions
from jsonschema import Draft202012Validator, ValidationError, validators

Json = Any
MISSING = object()
sys.setrecursionlimit(10_000)

DURATION = re.compile(r"P(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?")
TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
HEX = "[0-9a-f]"


def is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def is_address(text: str, kind: type) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


FORMAT_CHECKS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "time": lambda text: re.fullmatch(TIME, text) is not None,
    "date-time": lambda text: text[10:11] == "T" and is_date(text[:10]) and re.fullmatch(TIME, text[11:]) is not None,
    "duration": lambda text: len(text) > 1 and text[-1] != "T" and DURATION.fullmatch(text) is not None,
    "uuid": lambda text: re.fullmatch(f"{HEX}{{8}}(-{HEX}{{4}}){{3}}-{HEX}{{12}}", text) is not None,
    "uuid4": lambda text: re.fullmatch(f"{HEX}{{8}}-{HEX}{{4}}-4{HEX}{{3}}-{HEX}{{4}}-{HEX}{{12}}", text) is not None,
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+\.[A-Za-z]+", text) is not None,
    "uri": lambda text: re.fullmatch(r"[a-z][a-z0-9+.-]*:[!-~]+", text) is not None,
    "ipv4": lambda text: is_address(text, ipaddress.IPv4Address),
    "ipv6": lambda text: is_address(text, ipaddress.IPv6Address),
}
# Texts that have a format as it is documented.
OF_FORMAT = {
    "date": ["2024-02-29", "0001-01-01", "1999-12-31"],
    "time": ["00:00:00Z", "23:59:59.25+01:30"],
    "date-time": ["2024-02-29T01:02:03Z", "1999-12-31T23:59:59.999999-08:00"],
    "duration": ["P3D", "PT5M", "P1DT2H3M4S", "PT1H1S"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000"],
    "email": ["a@b.cd", "a.b-c+d@example.org"],
    "uri": ["https://example.org/a?b=c#d", "mailto:a@b.c", "urn:x"],
    "ipv4": ["0.0.0.0", "255.10.1.99"],
    "ipv6": ["::", "::1", "fe80::1:2", "1:2:3:4:5:6:7:8"],
}
STRINGS = [
    "",
    "a",
    "b",
    "ab",
    "bb",
    "abb",
    "aa",
    "bc",
    "c",
    "abc",
    "12",
    "7",
    "a.b",
    "axb",
    '"a"',
    "\n",
    "/",
    "\\",
    "é",
    "éa",
]
STRINGS += ["b" * 10, "a" * 33, "b" * 65, "\u0001", "a/b", "x y", "😀"]
POOL: list[Json] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    5,
    10,
    0.5,
    "",
    "a",
    "ab",
    [],
    [1],
    ["a"],
    [None, 1],
    {},
    {"a": 1},
    {"b": "a"},
]
KEYWORDS = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"),
    "object": (
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "propertyNames",
        "patternProperties",
    ),
}
COMBINED = ("$ref", "allOf", "anyOf", "oneOf", "nullable")


def kind_of(value: Json) -> str:
    for kind, types in (
        ("boolean", bool),
        ("number", (int, float)),
        ("string", str),
        ("array", list),
        ("object", dict),
    ):
        if isinstance(value, types):
            return kind
    return "null"


def is_equal(left: Json, right: Json) -> bool:
    if kind_of(left) != kind_of(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_equal(left[name], right[name]) for name in left)
    return bool(left == right)


def plain(value: Json) -> Json:
    """Equal numbers are written as one: 1 for 1.0."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64 else value


def at(document: Json, pointer: str) -> Json:
    """What a JSON pointer points to; MISSING: nothing."""
    if pointer and not pointer.startswith("/"):
        return MISSING
    value = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


# ---- Valid? ----

MOST_REFERENCES = 200  # that are followed for an instance


class Undecided(Exception):
    """A reference that leads back to itself, or too many of them."""


class Judge:
    """The jsonschema package, with formats, OpenAPI's nullable and the older form of items, without the keywords at
    some pointers."""

    asked: Judge  # that runs; its validator is made only once

    def __init__(self, document: Json, ignored: list[str] | tuple[str, ...] = ()) -> None:
        self.document = document
        self.ignored = set()
        for pointer in ignored:
            parent, _, name = pointer.rpartition("/")
            self.ignored.add((id(at(document, parent)), name.replace("~1", "/").replace("~0", "~")))
        self.open: set[tuple[int, int]] = set()
        self.left = 0

    def problem(self, instance: Json, part: Json = MISSING) -> str | None:
        """Why an instance is not valid, or not by this part of the document; "": it is; None: the package cannot
        say."""
        Judge.asked = self
        self.left = MOST_REFERENCES
        self.open.clear()
        try:
            error = next(VALIDATOR(self.document if part is MISSING else part).iter_errors(instance), None)
        except (Undecided, RecursionError, TypeError, AttributeError, KeyError, ValueError, ArithmeticError, re.error):
            return None
        except (jsonschema.exceptions.UnknownType, referencing.exceptions.Unresolvable):
            return None
        return "" if error is None else error.message


def checked(name: str, function: Any) -> Any:
    def check(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[ValidationError]:
        is_null = instance is None and schema.get("nullable") is True
        if not is_null and (id(schema), name) not in Judge.asked.ignored:
            yield from function(validator, value, instance, schema) or ()
        elif not is_null and name == "oneOf":  # what is ignored is that only one of them holds
            yield from Draft202012Validator.VALIDATORS["anyOf"](validator, value, instance, schema) or ()

    return check


def reference(validator: Any, value: Json, instance: Json, _: Json) -> Iterator[ValidationError]:
    judge = Judge.asked
    target = at(judge.document, unquote(value[1:])) if value.startswith("#") else MISSING
    key = (id(target), id(instance))
    judge.left -= 1
    if target is MISSING or key in judge.open or judge.left < 0:
        raise Undecided
    judge.open.add(key)
    try:
        yield from validator.descend(instance, target)
    finally:
        judge.open.discard(key)


def undecided(*_: Any) -> Iterator[ValidationError]:
    raise Undecided
    yield


def format_check(_: Any, value: Json, instance: Json, schema: Json) -> Iterator[ValidationError]:
    if isinstance(instance, str) and value in FORMAT_CHECKS and not FORMAT_CHECKS[value](instance):
        yield ValidationError(f"{instance!r} is not a {value}")


def items(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[ValidationError]:
    if not isinstance(value, list):
        yield from Draft202012Validator.VALIDATORS["items"](validator, value, instance, schema) or ()
    elif isinstance(instance, list):
        for item, part in zip(instance, value, strict=False):
            yield from validator.descend(item, part)


def additional_items(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[ValidationError]:
    if isinstance(instance, list) and isinstance(schema.get("items"), list):
        for item in instance[len(schema["items"]) :]:
            yield from validator.descend(item, value)


def pattern_properties(validator: Any, value: Json, instance: Json, _: Json) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, part in value.items():
            for name, item in instance.items():
                if (id(value), pattern) not in Judge.asked.ignored and re.search(pattern, name):
                    yield from validator.descend(item, part)


VALIDATOR: Any = validators.extend(
    Draft202012Validator,
    {
        name: checked(name, function)
        for name, function in {
            **Draft202012Validator.VALIDATORS,
            "$ref": reference,
            "$dynamicRef": undecided,
            "format": format_check,
            "items": items,
            "additionalItems": additional_items,
            "patternProperties": pattern_properties,
        }.items()
    },
)


# ---- Writable? ----


class TooMany(Exception):
    pass


class Writable:
    """Which instances a constraint promises to let through, if they are valid: in a schema that lists properties but
    does not state additionalProperties there are no others; likewise for items; a schema without a type means the kinds
    of values that its keywords speak of; numbers have at most 16 digits, beside an exclusive bound 15 in all, and no
    exponent."""

    def __init__(self, document: Json) -> None:
        self.document, self.judge = document, Judge(document)
        self.budget = 0

    def is_promised(self, instance: Json) -> bool:
        self.budget = 400
        try:
            return self.fits([self.document], instance)
        except (TooMany, RecursionError):
            return False

    def fits(self, schemas: list[Json], instance: Json) -> bool:
        return any(self.flat_fits(flat, instance) for flat in self.alternatives(schemas, instance, ()))

    def alternatives(self, schemas: list[Json], instance: Json, open_schemas: tuple[int, ...]) -> Iterator[list[Json]]:
        """Lists of schemas without $ref, allOf, anyOf, oneOf, one of which the instance must satisfy in all parts."""
        self.budget -= 1
        if self.budget < 0:
            raise TooMany
        if not schemas:
            yield []
            return
        first, rest = schemas[0], schemas[1:]
        if isinstance(first, bool):
            if first:
                yield from self.alternatives(rest, instance, open_schemas)
            return
        if id(first) in open_schemas:
            return
        if first.get("nullable") is True and instance is None:
            yield from ([{"const": None}, *more] for more in self.alternatives(rest, instance, open_schemas))
        own = {name: value for name, value in first.items() if name not in COMBINED}
        if not self.flat_could_fit(own, instance):
            return
        inner: list[list[Json]] = [list(first.get("allOf", []))]
        if "$ref" in first:
            inner[0].append(at(self.document, unquote(first["$ref"][1:])))
        choices = [first[name] for name in ("anyOf", "oneOf") if name in first]
        for chosen in itertools.product(*choices):
            if any(self.judge.problem(instance, one) for one in chosen):
                continue
            for some in self.alternatives([*inner[0], *chosen], instance, (*open_schemas, id(first))):
                for more in self.alternatives(rest, instance, open_schemas):
                    yield [own, *some, *more]

    def flat_could_fit(self, flat: Json, instance: Json) -> bool:
        """By the keywords that do not look into parts."""
        kind = kind_of(instance)
        if "type" in flat:
            types = flat["type"] if isinstance(flat["type"], list) else [flat["type"]]
            is_integer = kind == "number" and "integer" in types and isinstance(instance, int)
            if kind not in types and not is_integer:
                return False
        else:
            implied = [one for one, names in KEYWORDS.items() if any(name in flat for name in names)]
            if implied and kind not in implied:
                return False
        listed = [flat["const"]] if "const" in flat else flat.get("enum")
        return listed is None or any(is_equal(instance, value) for value in listed)

    def flat_fits(self, flat: list[Json], instance: Json) -> bool:
        listed = [value for one in flat for value in ([one["const"]] if "const" in one else one.get("enum", []))]
        is_listed = any(json.dumps(plain(value)) == json.dumps(instance) for value in listed)
        if listed and not is_listed:  # written in another order
            return False
        if isinstance(instance, float) and instance == int(instance) and not is_listed:
            return False
        if kind_of(instance) == "number":
            is_exclusive = any(name in one for one in flat for name in ("exclusiveMinimum", "exclusiveMaximum"))
            if is_exclusive and sum(map(str.isdigit, json.dumps(instance))) > 15:
                return False
            return re.fullmatch(r"-?\d{1,16}(\.\d{1,16})?", json.dumps(instance)) is not None
        if isinstance(instance, str):
            has_long_address = any(one.get("format") == "uri" and "maxLength" in one for one in flat)
            has_end = any("pattern" in one for one in flat) and instance.endswith("\n")  # Python's $ matches before it
            return is_listed or not (has_long_address or has_end)
        if isinstance(instance, list):
            return is_listed or self.array_fits(flat, instance)
        return is_listed or not isinstance(instance, dict) or self.object_fits(flat, instance)

    def array_fits(self, flat: list[Json], instance: list[Json]) -> bool:
        has_first, has_items = False, False
        forms = []
        for one in flat:
            is_older = isinstance(one.get("items"), list)
            first = one["items"] if is_older else one.get("prefixItems", [])
            items = one.get("additionalItems" if is_older else "items", MISSING)
            forms.append((first, items))
            has_first, has_items = has_first or bool(first), has_items or items is not MISSING
        length = max([len(first) for first, _ in forms], default=0)
        if len(instance) > length and has_first and not has_items:
            return False
        for i, item in enumerate(instance):
            schemas = [first[i] if i < len(first) else items for first, items in forms]
            if not self.fits([schema for schema in schemas if schema is not MISSING], item):
                return False
        return True

    def object_fits(self, flat: list[Json], instance: dict[str, Json]) -> bool:
        is_closed = any(one.get(name) for one in flat for name in ("properties", "patternProperties", "required"))
        is_stated = any("additionalProperties" in one for one in flat)
        for name, value in instance.items():
            if name.endswith("\n"):  # as above
                return False
            schemas, is_known = [], False
            for one in flat:
                parts = [one["properties"][name]] if name in one.get("properties", {}) else []
                parts += [
                    part for pattern, part in one.get("patternProperties", {}).items() if re.search(pattern, name)
                ]
                is_known = is_known or bool(parts) or name in one.get("required", [])
                if not parts and "additionalProperties" in one:
                    parts = [one["additionalProperties"]]
                schemas += parts
            if not is_known and is_closed and not is_stated:
                return False
            if not self.fits(schemas, value):
                return False
            if not self.fits([one["propertyNames"] for one in flat if "propertyNames" in one], name):
                return False
        return True


# ---- Random instances ----

MOST_ITEMS = 1000  # of an array: there are schemas that want 10**30


class Instances:
    def __init__(self, document: Json, rng: random.Random) -> None:
        self.document, self.random = document, rng

    def some(self, count: int) -> Iterator[Json]:
        for _ in range(count):
            try:
                yield self.build([self.document], 6)
            except (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError):
                continue

    def flat(self, schema: Json, depth: int) -> list[Json]:
        if not isinstance(schema, dict):
            return [] if schema is True else [{"enum": []}]
        if depth < 0:
            raise LookupError
        if schema.get("nullable") is True and self.random.random() < 0.3:
            return [{"const": None}]
        found = [schema]
        if "$ref" in schema:
            found += self.flat(at(self.document, unquote(schema["$ref"][1:])), depth - 1)
        for part in schema.get("allOf", []):
            found += self.flat(part, depth - 1)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                found += self.flat(self.random.choice(schema[name]), depth - 1)
        return found

    def build(self, schemas: list[Json], depth: int) -> Json:
        flat = [one for schema in schemas for one in self.flat(schema, depth)]
        for one in flat:
            if "const" in one:
                return one["const"]
        for one in flat:
            if "enum" in one:
                return self.random.choice(one["enum"])
        types: set[str] | None = None
        for one in flat:
            if "type" in one:
                some = set(one["type"] if isinstance(one["type"], list) else [one["type"]])
                some |= {"integer"} if "number" in some else set()
            elif implied := {kind for kind, names in KEYWORDS.items() if any(name in one for name in names)}:
                some = implied | ({"integer"} if "number" in implied else set())
            else:
                continue
            types = some if types is None else types & some
        if types is None:
            return self.random.choice(POOL)
        kind = self.random.choice(sorted(types))
        if kind in ("null", "boolean"):
            return None if kind == "null" else self.random.random() < 0.5
        if kind in ("integer", "number"):
            return self.number(flat, kind)
        if kind == "string":
            return self.string(flat)
        return self.array(flat, depth) if kind == "array" else self.object(flat, depth)

    @staticmethod
    def values(flat: list[Json], *names: str) -> list[Json]:
        return [one[name] for one in flat for name in names if name in one]

    def number(self, flat: list[Json], kind: str) -> Json:
        low = max(self.values(flat, "minimum", "exclusiveMinimum"), default=None)
        high = min(self.values(flat, "maximum", "exclusiveMaximum"), default=None)
        if low is None:
            low = (high if high is not None else 12) - 12
        if high is None:
            high = low + 12
        factor = max(self.values(flat, "multipleOf"), default=1)
        if kind == "integer":
            number = self.random.randint(int(low) - 1, int(high) + 1)
            return number - number % factor if isinstance(factor, int) and self.random.random() < 0.9 else number
        exact = self.random.choice([low, high, (low + high) / 2, low + 0.25, self.random.uniform(low, high)])
        return self.random.choice([exact, round(exact, 2), round(exact, 7)])

    def string(self, flat: list[Json]) -> str:
        least, most = max(self.values(flat, "minLength"), default=0), min(self.values(flat, "maxLength"), default=99)
        formats = self.values(flat, "format")
        texts = OF_FORMAT.get(formats[0], STRINGS) if formats else STRINGS
        patterns = self.values(flat, "pattern")
        some = [
            text
            for text in [*texts, "a" * int(least), "b" * int(least)]
            if least <= len(text) <= most and all(re.search(pattern, text) for pattern in patterns)
        ]
        return self.random.choice(some)

    def array(self, flat: list[Json], depth: int) -> list[Json]:
        least, most = max(self.values(flat, "minItems"), default=0), min(self.values(flat, "maxItems"), default=4)
        if least > MOST_ITEMS:
            raise LookupError
        made = []
        for i in range(self.random.randint(least, max(least, min(most, least + 2)))):
            schemas = []
            for one in flat:
                is_older = isinstance(one.get("items"), list)
                first = one["items"] if is_older else one.get("prefixItems", [])
                schemas.append(
                    first[i] if i < len(first) else one.get("additionalItems" if is_older else "items", True)
                )
            try:
                made.append(self.build(schemas, depth - 1))
            except LookupError:
                if len(made) >= least:
                    break
                raise
        return made

    def object(self, flat: list[Json], depth: int) -> dict[str, Json]:
        listed = list(dict.fromkeys(name for one in flat for name in one.get("properties", {})))
        required = list(dict.fromkeys(name for one in flat for name in one.get("required", [])))
        least, most = (
            max(self.values(flat, "minProperties"), default=0),
            min(self.values(flat, "maxProperties"), default=9),
        )
        wanted = {name for name in [*listed, *required] if name in required or self.random.random() < 0.5}
        others = [name for name in STRINGS[:14] if name not in wanted]
        if not listed or self.random.random() < 0.2:
            wanted |= set(self.random.sample(others, self.random.randint(0, 2)))
        self.random.shuffle(others)
        while len(wanted) < least and others:
            wanted.add(others.pop())
        made: dict[str, Json] = {}
        for name in [*[one for one in [*listed, *required] if one in wanted], *sorted(wanted)]:
            if name in made or (len(made) >= most and name not in required):
                continue
            schemas = []
            for one in flat:
                parts = [one["properties"][name]] if name in one.get("properties", {}) else []
                parts += [
                    part for pattern, part in one.get("patternProperties", {}).items() if re.search(pattern, name)
                ]
                if not parts and "additionalProperties" in one:
                    parts = [one["additionalProperties"]]
                schemas += parts
            try:
                made[name] = self.build(schemas, depth - 1)
            except LookupError:
                if name in required:
                    raise
        return made


def orders(instance: Json, most: int) -> list[Json] | None:
    """The instance with the properties of its objects in every order; None: there are more than `most`."""
    if isinstance(instance, list):
        parts = [orders(item, most) for item in instance]
        if any(part is None for part in parts):
            return None
        products = itertools.product(*parts)  # type: ignore[arg-type]
        made: list[Json] = [list(items) for items in itertools.islice(products, most + 1)]
    elif isinstance(instance, dict):
        values = {name: orders(value, most) for name, value in instance.items()}
        if any(value is None for value in values.values()) or len(instance) > 4:
            return None
        made = [
            dict(zip(names, chosen, strict=True))
            for names in itertools.permutations(instance)
            for chosen in itertools.islice(
                itertools.product(*[values[name] for name in names]),  # type: ignore[arg-type]
                most + 1,
            )
        ]
    else:
        return [instance]
    return made if len(made) <= most else None
