"""Random structural tags: formats of every type, texts that they allow, and whether a text is one."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

import jsonschema
from tests.fuzz import grammar_texts
from tests.fuzz.schema_documents import Documents

Json = Any

FREE = "xyz \n"  # no mark has one of these
BEGINS = ["<a>", "<b>", "<ab ", "[", '{"f": ', "「", "<tool>\t"]
ENDS = ["</a>", "]", "\t</tool>", "}", "」", ""]
SEPARATORS = [",", "", "; ", "\t"]
TYPES = ["const_string", "json_schema", "regex", "grammar", "any_text", "sequence", "or", "optional", "plus", "star"]
TYPES += ["repeat", "tag", "triggered_tags", "tags_with_separator", "dispatch"]
TOKEN_TYPES = ["token", "exclude_token", "any_tokens", "token_triggered_tags", "token_dispatch"]
INNER = {"sequence", "or", "optional", "plus", "star", "repeat", "tag", "triggered_tags", "tags_with_separator"}
INNER |= {"dispatch", "token_triggered_tags", "token_dispatch"}

# Schemas with valid instances, and patterns with texts that match.
SCHEMAS: list[tuple[Json, list[str]]] = [
    ({"type": "integer", "minimum": 3, "maximum": 20}, ["3", "17"]),
    ({"enum": ["a", 1, "</a>"]}, ['"a"', "1", '"</a>"']),
    (
        {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False},
        ['{"a": true}'],
    ),
    ({"type": "array", "items": {"type": "null"}, "maxItems": 2}, ["[]", "[null]", "[null, null]"]),
    ({"type": "string", "pattern": "^[a-c]{1,2}$"}, ['"ab"']),
    ({"type": "object", "properties": {"l": {"$ref": "#"}}, "additionalProperties": False}, ["{}", '{"l": {"l": {}}}']),
    ({}, ["{}", '{"x": [1]}']),  # any object
    (True, ["1", "null", '{"x": [1]}', '"<a>"']),
]
PATTERNS = [
    ("[a-c]{2}", ["ab", "cc"]),
    ("(p|qr)*", ["", "pqr"]),
    (r"\d+", ["12"]),
    ("a?b?", ["", "b"]),
    ("[^<]+", ["q"]),
]
ANYTHING: list[Json] = [None, True, 0, -1, 3, 2**40, 1.5, "", "a", "\0", [], {}, ["a"], [None], {"type": "any_text"}]


class Tags:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(f"tag {seed}")
        self.rules: dict[str, grammar_texts.Rules] = {}  # by the text of a grammar
        self.is_exact = True  # the texts that it allows are known

    def document(self) -> Json:
        if self.random.random() < 0.1:
            tags = [self.tag(0, schemas_only=True) for _ in range(self.random.choice([1, 2]))]
            structures = [
                {"begin": one["begin"], "schema": one["content"]["json_schema"], "end": one["end"]} for one in tags
            ]
            document: Json = {"structures": structures, "triggers": self.triggers(tags)}
        else:
            document = {"format": self.format(self.random.choice([0, 1, 2, 2, 3]))}
        if self.random.random() < 0.3:
            document["type"] = "structural_tag"
        if self.random.random() < 0.12:
            self.is_exact = False
            self.spoil(document)
        return document

    def format(self, depth: int) -> Json:
        types = TYPES + TOKEN_TYPES if self.random.random() < 0.06 else TYPES
        kind = self.random.choice([one for one in types if depth > 0 or one not in INNER] or ["const_string"])
        inner = depth - 1
        choice = self.random.choice
        if kind in TOKEN_TYPES:
            self.is_exact = False
        if kind == "const_string":
            return {"type": kind, "value": "".join(self.random.choices("ab<é,", k=choice([1, 1, 2, 3])))}
        if kind == "json_schema":
            return {"type": kind, "json_schema": self.schema()}
        if kind == "regex":
            return {"type": kind, "pattern": choice(PATTERNS)[0]}
        if kind == "grammar":
            return {"type": kind, "grammar": self.grammar()}
        if kind == "any_text":
            return (
                {"type": kind}
                if self.random.random() < 0.8
                else {"type": kind, "excludes": ["<q>", "é"][: choice([1, 2])]}
            )
        if kind in ("sequence", "or"):
            return {"type": kind, "elements": [self.format(inner) for _ in range(choice([1, 2, 2, 3]))]}
        if kind in ("optional", "plus", "star"):
            return {"type": kind, "content": self.format(inner)}
        if kind == "repeat":
            least = choice([0, 1, 2])
            return {"type": kind, "min": least, "max": least + choice([0, 1, 3]), "content": self.format(inner)}
        if kind == "tag":
            return {"type": kind, **self.tag(inner)}
        if kind == "triggered_tags":
            tags = [self.tag(inner) for _ in range(choice([1, 1, 2, 3]))]
            return {"type": kind, "triggers": self.triggers(tags), "tags": tags, **self.how_many()}
        if kind == "tags_with_separator":
            tags = [self.tag(inner) for _ in range(choice([1, 2]))]
            return {"type": kind, "tags": tags, "separator": choice(SEPARATORS), **self.how_many()}
        if kind == "dispatch":
            rules = [[begin, self.format(inner)] for begin in self.random.sample(BEGINS, choice([1, 2]))]
            return {"type": kind, "rules": rules, **({"loop": choice([True, False])} if choice([0, 1]) else {})}
        token: Json = choice([3, 65, 270, 0, 10**6, "ab", "nothing"])
        if kind == "token":
            return {"type": kind, "token": token}
        if kind == "token_dispatch":
            return {"type": kind, "rules": [[token, self.format(inner)]]}
        if kind == "token_triggered_tags":
            begin = {"type": "token", "token": token}
            return {"type": kind, "trigger_tokens": [token], "tags": [{**self.tag(inner), "begin": begin}]}
        return {"type": kind, "exclude_tokens": [token]}

    def how_many(self) -> dict[str, bool]:
        names = [one for one in ("at_least_one", "stop_after_first") if self.random.random() < 0.25]
        return {name: self.random.random() < 0.8 for name in names}

    def tag(self, depth: int, schemas_only: bool = False) -> dict[str, Json]:
        content = {"type": "json_schema", "json_schema": self.schema()} if schemas_only else self.format(depth)
        end: Json = self.random.choice(ENDS)
        if not schemas_only and self.random.random() < 0.2:
            end = self.random.sample([one for one in ENDS if one], 2)
        return {"begin": self.random.choice(BEGINS), "content": content, "end": end}

    def triggers(self, tags: list[dict[str, Json]]) -> list[str]:
        return sorted({one["begin"][: self.random.randint(1, len(one["begin"]))] for one in tags})

    def schema(self) -> Json:
        if self.random.random() < 0.85:
            return copy.deepcopy(self.random.choice(SCHEMAS)[0])
        self.is_exact = False
        try:
            return json.loads(Documents(self.seed).document())
        except (ValueError, RecursionError):
            return {}

    def grammar(self) -> str:
        maker = grammar_texts.Grammars(self.random.randrange(10**9))
        rules = maker.rules()
        text = maker.written(rules)
        self.rules[text] = rules
        if grammar_texts.problem_of(rules):
            self.is_exact = False
        return text

    def spoil(self, document: Json) -> None:
        """A member or an element somewhere is lost, or another value."""
        places: list[tuple[Json, Any]] = []
        waiting = [document]
        while waiting:
            value = waiting.pop()
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                places.append((value, key))
                if isinstance(inner, dict | list):
                    waiting.append(inner)
        value, key = self.random.choice(places)
        if self.random.random() < 0.3:
            del value[key]
        else:
            value[key] = self.random.choice(ANYTHING)

    # ---- What a document means

    def text_of(self, document: Json) -> str:
        """One that it allows."""
        return self.derive(as_format(document))

    def derive(self, one: Json) -> str:
        kind, choice = one["type"], self.random.choice
        if kind == "const_string":
            return str(one["value"])
        if kind == "json_schema":
            return choice(next(texts for schema, texts in SCHEMAS if schema == one["json_schema"]))
        if kind == "regex":
            return choice(dict(PATTERNS)[one["pattern"]])
        if kind == "grammar":
            text = grammar_texts.sentence(self.rules[one["grammar"]], self.random, 60)
            if text is None:
                raise OverflowError
            return text
        if kind == "any_text":
            return self.free()
        if kind == "sequence":
            return "".join(self.derive(part) for part in one["elements"])
        if kind == "or":
            return self.derive(choice(one["elements"]))
        if kind in ("optional", "plus", "star", "repeat"):
            least, most = bounds(one)
            return "".join(self.derive(one["content"]) for _ in range(self.random.randint(least, min(most, least + 2))))
        if kind == "tag":
            return self.tagged(one)
        tags = tags_of(one)
        is_one = one.get("stop_after_first", False) or one.get("loop") is False
        least = int(one.get("at_least_one", False))
        number = self.random.randint(least, 1 if is_one else 2)
        if kind == "tags_with_separator":
            return one["separator"].join(self.tagged(choice(tags)) for _ in range(number))
        text = "" if least else self.free()
        for _ in range(number):
            text += self.tagged(choice(tags))
            if not is_one:
                text += self.free()
        return text

    def tagged(self, tag: Json) -> str:
        ends = tag["end"] if isinstance(tag["end"], list) else [tag["end"]]
        return tag["begin"] + self.derive(tag["content"]) + self.random.choice(ends)

    def free(self) -> str:
        return "".join(self.random.choices(FREE, k=self.random.choice([0, 1, 2, 5])))

    def allows(self, document: Json, text: str) -> bool:
        """Whether the text has the document's form; free text is not looked at closely."""
        return len(text) in Reader(self.rules, text).ends(as_format(document), 0)


def as_format(document: Json) -> Json:
    if "format" in document:
        return document["format"]
    tags = [
        {"begin": one["begin"], "content": {"type": "json_schema", "json_schema": one["schema"]}, "end": one["end"]}
        for one in document["structures"]
    ]
    return {"type": "triggered_tags", "triggers": document["triggers"], "tags": tags}


def bounds(one: Json) -> tuple[int, int]:
    if one["type"] == "repeat":
        return one["min"], one["max"]
    return int(one["type"] == "plus"), 1 if one["type"] == "optional" else 10**6


def tags_of(one: Json) -> list[Json]:
    if one["type"] != "dispatch":
        return list(one["tags"])
    return [{"begin": trigger, "content": content, "end": ""} for trigger, content in one["rules"]]


class Reader:
    """Where a format that begins at a place of the text may end."""

    def __init__(self, rules: dict[str, grammar_texts.Rules], text: str) -> None:
        self.rules, self.text = rules, text
        self.known: dict[tuple[int, int], set[int]] = {}

    def ends(self, one: Json, at: int) -> set[int]:
        place = (id(one), at)
        if place not in self.known:
            self.known[place] = self.found(one, at)
        return self.known[place]

    def after(self, one: Json, starts: set[int]) -> set[int]:
        return set().union(*(self.ends(one, start) for start in starts)) if starts else set()

    def some(self, at: int, is_one: Any) -> set[int]:
        return {end for end in range(at, len(self.text) + 1) if is_one(self.text[at:end])}

    def found(self, one: Json, at: int) -> set[int]:
        kind, text = one["type"], self.text
        if kind == "const_string":
            return {at + len(one["value"])} if text.startswith(one["value"], at) else set()
        if kind == "json_schema":
            return self.some(at, lambda part: is_instance(one["json_schema"], part))
        if kind == "regex":
            return self.some(at, lambda part: re.fullmatch(one["pattern"], part) is not None)
        if kind == "grammar":
            return self.some(at, lambda part: grammar_texts.matches(self.rules[one["grammar"]], part))
        if kind == "any_text":
            return self.some(at, lambda part: not any(word in part for word in one.get("excludes", [])))
        if kind == "sequence":
            ends = {at}
            for part in one["elements"]:
                ends = self.after(part, ends)
            return ends
        if kind == "or":
            return set().union(*(self.ends(part, at) for part in one["elements"]))
        if kind in ("optional", "plus", "star", "repeat"):
            return self.repeated(one, at)
        if kind == "tag":
            return self.tagged(one, {at})
        return self.with_separator(one, at) if kind == "tags_with_separator" else self.triggered(one, at)

    def repeated(self, one: Json, at: int) -> set[int]:
        least, most = bounds(one)
        ends = {at}
        for _ in range(least):
            ends = self.after(one["content"], ends)
        every, times = set(ends), least
        while ends and times < most:
            ends = self.after(one["content"], ends) - every
            every |= ends
            times += 1
        return every

    def tagged(self, tag: Json, starts: set[int]) -> set[int]:
        begun = {start + len(tag["begin"]) for start in starts if self.text.startswith(tag["begin"], start)}
        ends = tag["end"] if isinstance(tag["end"], list) else [tag["end"]]
        inside = self.after(tag["content"], begun)
        return {place + len(end) for place in inside for end in ends if self.text.startswith(end, place)}

    def with_separator(self, one: Json, at: int) -> set[int]:
        every = set() if one.get("at_least_one", False) else {at}
        starts, seen = {at}, set[int]()
        while starts:
            ends = set().union(*(self.tagged(tag, starts) for tag in one["tags"])) - seen
            seen |= ends
            every |= ends
            if one.get("stop_after_first", False):
                break
            separator = one["separator"]
            starts = {end + len(separator) for end in ends if self.text.startswith(separator, end)}
        return every

    def triggered(self, one: Json, at: int) -> set[int]:
        tags = tags_of(one)
        triggers = one.get("triggers", [tag["begin"] for tag in tags])
        is_one = one.get("stop_after_first", False) or one.get("loop") is False
        every, starts, seen = set(), {at}, set[int]()
        has_tag = not one.get("at_least_one", False)
        while starts:
            seen |= starts
            free = {
                end for start in starts for end in self.some(start, lambda part: not any(t in part for t in triggers))
            }
            every |= free if has_tag else set()
            ends = set().union(*(self.tagged(tag, free) for tag in tags))
            has_tag = True
            every |= ends
            starts = set() if is_one else ends - seen
        return every


def is_instance(schema: Json, text: str) -> bool:
    if text.strip() != text:
        return False
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))
