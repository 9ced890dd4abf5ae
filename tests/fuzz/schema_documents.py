"""Random JSON schemas: every keyword next to every other, references of every shape, and documents that are wrong.

A document is made in two steps. The first makes schemas with placeholders for references; the second puts a pointer to
any place of the finished document into each placeholder, so that schemas name themselves and each other in all ways.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Json = Any

NAMES = ["a", "b", "ab", "c", "a/b", "a~b", "50%", "", "x y", 'q"', "é", "\u0001", "\\", "a.b", "type", "$ref", "0"]
PLAIN_NAMES = NAMES[:4]
PATTERNS = [
    "^a",
    "^[ab]+$",
    "b$",
    "^(a|bb)*$",
    "^.{1,3}$",
    "^[a-c]{2}$",
    "^$",
    "a|b",
    "^[^a]+$",
    "^[0-9]{1,3}$",
    "^\\d+$",
    "^a.b$",
    "^(?:ab)?c$",
    '^"a"$',
    "^\\n$",
    "^[\\\\/]$",
    "^é.?$",
    "",
]
ODD_PATTERNS = ["(", "^(?=a)b$", "(a)\\1", "^[a-z]{40,60}$", "\\bword\\b", "[z-a]", "a{3,1}", "^\\p{L}+$", "(?<=a)b"]
FORMATS = [
    "date",
    "time",
    "date-time",
    "duration",
    "uuid",
    "uuid4",
    "email",
    "uri",
    "ipv4",
    "ipv6",
    "hostname",
    "color",
]
BOUNDS = [0, 1, -1, 2, 3, 5, 7, 10, 99, 100, -10, 0.5, -0.5, 1e-6, 0.1, 1.25, 2.0, 1e3, 9007199254740991]
HUGE_BOUNDS = [-9007199254740991, 1e300, -1e-300, 18446744073709551615, -9223372036854775808, 10**25, 1e16, 123456.789]
FACTORS = [1, 2, 3, 5, 7, 10, 64, 100, 1000, 0.5, 0.1, 0.01, 1.0, 65, 127, 128, 1e-9, 2.5]
VALUES: list[Json] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    10,
    1.0,
    0.5,
    -0.25,
    1e300,
    1e-7,
    2**63,
    "",
    "a",
    "ab",
    "b",
    'a"b',
    "é\n",
    "😀",
    "\u007f\u0000",
    "2024-02-29",
    [],
    [1],
    ["a", "a"],
    [None, {}],
    {},
    {"a": 1},
    {"b": "x", "a": [True]},
]
# Where a keyword's value has a wrong type, or one that few readers expect.
ODD_VALUES: list[Json] = [
    None,
    True,
    False,
    -1,
    0,
    1.5,
    2.0,
    1e400,
    10**30,
    "",
    "a",
    "object",
    [],
    [None],
    [[]],
    {},
    {"a": None},
    ["a", "a"],
    {"type": "string"},
]
UNSUPPORTED = ["not", "if", "then", "else", "contains", "minContains", "maxContains", "dependentRequired"]
UNSUPPORTED += [
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "dependencies",
    "$anchor",
]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


class Placeholder(dict[str, Json]):
    """A schema whose $ref is not known yet."""


def escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


class Documents:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.placeholders: list[Placeholder] = []
        self.left = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self) -> str:
        return self.random.choice(PLAIN_NAMES if self.chance(0.75) else NAMES)

    def document(self) -> str:
        """The text of a schema."""
        self.placeholders = []
        self.left = self.random.choice([1, 2, 3, 4, 6, 8, 12, 16])
        depth = self.random.choice([1, 2, 2, 3, 3, 4])
        root = self.schema(depth)
        if isinstance(root, dict):
            if self.placeholders or self.chance(0.1):
                for place in self.random.sample(["$defs", "definitions", "x-shapes"], self.random.choice([1, 1, 1, 2])):
                    self.left += 4
                    root[place] = {self.name(): self.schema(depth - 1) for _ in range(self.random.randint(1, 3))}
            if self.placeholders and self.chance(0.08):
                root["$defs"] = root.get("$defs", {}) | self.doubled()
            if self.chance(0.06):
                self.make_odd(root)
        self.connect(root)
        if self.chance(0.01):
            root = self.nested(root)
        text = json.dumps(root, ensure_ascii=self.chance(0.5))
        if self.chance(0.02):
            text = self.with_repeated_key(text)
        if self.chance(0.01):
            at = self.random.randrange(len(text))
            text = text[:at] + self.random.choice(["", "{", "]", "\\", "\u0000", "1e", '"']) + text[at + 1 :]
        return text

    # ---- Keywords ----

    def schema(self, depth: int) -> Json:
        self.left -= 1
        if depth <= 0 or self.left < 0 or self.chance(0.12):
            return self.leaf()
        made: dict[str, Json] = {}
        makers: list[Callable[[dict[str, Json], int], None]] = [
            self.object,
            self.object,
            self.object,
            self.array,
            self.array,
            self.string,
            self.number,
            self.combined,
            self.combined,
            self.values,
            self.reference,
        ]
        for _ in range(self.random.choice([1, 1, 1, 1, 2, 2, 3])):
            self.random.choice(makers)(made, depth)
        if self.chance(0.05):
            self.unsupported(made, depth)
        if self.chance(0.05):
            made["nullable"] = self.chance(0.8)
        if self.chance(0.05):
            made[self.random.choice(["title", "description", "default", "x-order", "$comment", "examples"])] = "a"
        if "$ref" in made:
            placeholder = Placeholder(made)
            self.placeholders.append(placeholder)
            return placeholder
        return made

    def leaf(self) -> Json:
        kind = self.random.randrange(20)
        made: dict[str, Json] = {}
        if kind < 8:
            return {"type": self.random.choice(TYPES)}
        if kind == 8:
            return self.chance(0.7)
        if kind == 9:
            return {}
        if kind < 12:
            self.number(made, 0)
        elif kind < 15:
            self.string(made, 0)
        elif kind < 18:
            self.values(made, 0)
        else:
            placeholder = Placeholder({"$ref": None})
            self.placeholders.append(placeholder)
            return placeholder
        return made

    def type(self, made: dict[str, Json], *usual: str) -> None:
        if self.chance(0.75):
            made["type"] = self.random.choice(usual)
        elif self.chance(0.5):
            made["type"] = self.random.sample(TYPES, self.random.randint(1, 3))
        elif self.chance(0.2):
            made["type"] = self.random.choice(TYPES)

    def number(self, made: dict[str, Json], _: int) -> None:
        self.type(made, "integer", "number")
        bounds = BOUNDS if self.chance(0.85) else BOUNDS + HUGE_BOUNDS
        for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            if self.chance(0.3):
                made[name] = self.random.choice(bounds)
        if self.chance(0.05):
            made["minimum"], made["maximum"] = -9007199254740991, 9007199254740991
        if self.chance(0.3):
            made["multipleOf"] = self.random.choice(FACTORS)

    def string(self, made: dict[str, Json], _: int) -> None:
        self.type(made, "string")
        if self.chance(0.4):
            made["pattern"] = self.random.choice(PATTERNS if self.chance(0.95) else ODD_PATTERNS)
        if self.chance(0.3):
            made["minLength"] = self.random.choice([0, 1, 2, 3, 10, 2.0])
        if self.chance(0.35):
            made["maxLength"] = self.random.choice([0, 1, 2, 3, 5, 10, 32, 33, 40, 64, 65, 2083, 10**6])
        if self.chance(0.2):
            made["format"] = self.random.choice(FORMATS)

    def array(self, made: dict[str, Json], depth: int) -> None:
        self.type(made, "array")
        if self.chance(0.7):
            made["items"] = self.schema(depth - 1)
        if self.chance(0.3):
            made["prefixItems"] = [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]
        if self.chance(0.04):
            made["items"] = [self.schema(depth - 1) for _ in range(self.random.randint(0, 2))]
            made["additionalItems"] = self.schema(depth - 1)
        if self.chance(0.3):
            made["minItems"] = self.random.choice([0, 1, 2, 3, 4])
        if self.chance(0.3):
            made["maxItems"] = self.random.choice([0, 1, 2, 3, 5])
        if self.chance(0.25):
            made["uniqueItems"] = self.chance(0.9)

    def object(self, made: dict[str, Json], depth: int) -> None:
        self.type(made, "object")
        names = list(dict.fromkeys(self.name() for _ in range(self.random.choice([1, 1, 2, 2, 3, 4]))))
        if self.chance(0.75):
            made["properties"] = {name: self.schema(depth - 1) for name in names}
        if self.chance(0.5):
            made["required"] = [name for name in [*names, self.name()] if self.chance(0.5)]
        if self.chance(0.3):
            made["additionalProperties"] = self.schema(depth - 1) if self.chance(0.6) else self.chance(0.4)
        if self.chance(0.15):
            patterns = self.random.sample(PATTERNS[:-1], self.random.choice([1, 1, 2, 3]))
            # The package takes the pattern "" for none.
            made["patternProperties"] = {pattern: self.schema(depth - 1) for pattern in patterns}
        if self.chance(0.15):
            made["propertyNames"] = self.schema(0) if self.chance(0.4) else self.names()
        if self.chance(0.15):
            made["minProperties"] = self.random.choice([0, 1, 2, 3])
        if self.chance(0.15):
            made["maxProperties"] = self.random.choice([0, 1, 2, 3])

    def names(self) -> Json:
        return self.random.choice(
            [
                {"pattern": self.random.choice(PATTERNS)},
                {"enum": self.random.sample(NAMES, 3)},
                {"type": "string", "maxLength": 2},
                {"minLength": 1, "pattern": "^[ab]*$"},
                {"type": ["string", "null"]},
                {"type": "integer"},
                {"anyOf": [{"const": "a"}, {"pattern": "^b"}]},
            ]
        )

    def combined(self, made: dict[str, Json], depth: int) -> None:
        for name in self.random.sample(["anyOf", "oneOf", "allOf"], self.random.choice([1, 1, 1, 2])):
            made[name] = [self.schema(depth - 1) for _ in range(self.random.choice([1, 2, 2, 2, 3]))]

    def values(self, made: dict[str, Json], _: int) -> None:
        if self.chance(0.3):
            made["const"] = self.random.choice(VALUES)
        else:
            made["enum"] = [self.random.choice(VALUES) for _ in range(self.random.randint(1, 4))]

    def reference(self, made: dict[str, Json], _: int) -> None:
        made["$ref"] = None

    def unsupported(self, made: dict[str, Json], depth: int) -> None:
        name = self.random.choice(UNSUPPORTED)
        if name in ("minContains", "maxContains"):
            made[name] = self.random.randint(0, 2)
        elif name == "dependentRequired":
            made[name] = {self.name(): [self.name()]}
        elif name in ("dependentSchemas", "dependencies"):
            made[name] = {self.name(): self.schema(depth - 1)}
        elif name.startswith("$"):
            made[name] = "#a"
        else:
            made[name] = self.schema(depth - 1)

    # ---- Documents ----

    def doubled(self) -> dict[str, Json]:
        """Each definition names the next one twice."""
        length = self.random.choice([3, 10, 40])
        keyword = self.random.choice(["anyOf", "oneOf", "allOf"])
        chain: dict[str, Json] = {
            f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(length)
        }
        chain[f"d{length}"] = self.random.choice([{"type": "string"}, {"const": 1}, {"$ref": "#/$defs/d0"}])
        return chain

    def connect(self, root: Json) -> None:
        """Puts pointers into the placeholders."""
        pointers = list(self.pointers(root, ""))
        schemas = [pointer for pointer, is_schema in pointers if is_schema]
        definitions = [pointer for pointer in schemas if pointer.count("/") == 2 and "properties" not in pointer]
        for placeholder in self.placeholders:
            kind = self.random.randrange(100)
            if kind < 50 and definitions:
                pointer = self.random.choice(definitions)
            elif kind < 95 or not pointers:
                pointer = self.random.choice(schemas or [""])
            elif kind < 98:
                pointer = self.random.choice(pointers)[0]
            else:
                placeholder["$ref"] = self.random.choice(
                    ["#/nowhere", "http://x/y", "a", "", "#a", 3, None, "#/a~2", "#%"]
                )
                continue
            if self.chance(0.15):
                pointer = "".join(
                    f"%{byte:02X}" if byte in b'%"\\ ' or byte > 126 else chr(byte) for byte in pointer.encode()
                )
            else:
                pointer = pointer.replace("%", "%25")
            placeholder["$ref"] = "#" + pointer

    def pointers(self, value: Json, pointer: str, depth: int = 0) -> Any:
        """All places, and whether a schema is there (as far as it is an object or a boolean)."""
        if depth > 12:
            return
        yield (
            pointer,
            isinstance(value, dict) and not (pointer.endswith(("/properties", "/patternProperties", "/$defs"))),
        )
        if isinstance(value, dict):
            for name, part in value.items():
                yield from self.pointers(part, f"{pointer}/{escaped(name)}", depth + 1)
        elif isinstance(value, list):
            for i, part in enumerate(value):
                yield from self.pointers(part, f"{pointer}/{i}", depth + 1)

    def make_odd(self, root: dict[str, Json]) -> None:
        """Replaces the value of one keyword somewhere."""
        found: list[dict[str, Json]] = []

        def collect(value: Json) -> None:
            if isinstance(value, dict):
                found.append(value)
                for part in value.values():
                    collect(part)
            elif isinstance(value, list):
                for part in value:
                    collect(part)

        collect(root)
        schema = self.random.choice(found)
        if schema:
            name = self.random.choice(list(schema))
            if name != "$ref":
                schema[name] = self.random.choice(ODD_VALUES)

    def nested(self, root: Json) -> Json:
        for _ in range(self.random.choice([5, 31, 33, 200])):
            root = self.random.choice([{"items": root}, {"anyOf": [root]}, {"properties": {"a": root}}])
        return root

    def with_repeated_key(self, text: str) -> str:
        at = text.find("{")
        return text if at < 0 else text[: at + 1] + f'"type": "{self.random.choice(TYPES)}", ' + text[at + 1 :].lstrip()
