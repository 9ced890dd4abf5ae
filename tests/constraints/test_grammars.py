"""Grammars and structural tags as constraints: a sample of random ones (tests/fuzz/grammars.py), and those that once
were wrong."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.fuzz.grammars import KINDS
from tests.fuzz.schemas import Driver

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def driver(built: Callable[[str], pathlib.Path]) -> Iterator[Driver]:
    started = Driver(built("constraints/test_schema_driver"))
    yield started
    started.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_random_ones(driver: Driver, kind: str) -> None:
    findings, counts = [], {"accepted": 0, "walks": 0, "wishes": 0}
    for seed in range(1, 301):
        result = KINDS[kind](driver, seed)
        findings += result.findings
        for name in counts:
            counts[name] += result.counts[name]
    assert not findings
    assert counts["accepted"] > 150 and counts["walks"] > 400 and counts["wishes"] > 400, counts


def asked(driver: Driver, kind: str, text: str, *wishes: str) -> Any:
    return driver.ask({kind: text, "strict": False, "wishes": wishes, "walks": 3, "seed": 1})


@pytest.mark.parametrize(
    ("grammar", "allowed", "forbidden"),
    [
        ('root ::= "a" {2} | "b" *', ["aa", "", "bb"], ["a", "aaa"]),
        ('root ::= "a"\n  {2,3}\n', ["aa", "aaa"], ["a"]),
        ('root ::= "b" root{0}', ["b"], ["bb"]),
        ('root ::= "a"{0}* "b"', ["b"], ["ab"]),
        ("root ::= root{,2}", [""], ["a"]),
        ('root ::= a{0,3} "b"\na ::= c{0,2}\nc ::= a{1,2}', ["b"], ["a"]),
        ("root ::= [\\^a]", ["^", "a"], ["b", "2"]),
        ("root ::= [\\x5E-b]", ["^", "_", "b"], ["]", "c"]),
        ("root ::= [^^]", ["a"], ["^"]),
    ],
)
def test_grammars_that_were_wrong(driver: Driver, grammar: str, allowed: list[str], forbidden: list[str]) -> None:
    reply = asked(driver, "grammar", grammar, *allowed, *forbidden)
    assert reply["faults"] == [], reply
    assert [one is None for one in reply["wishes"]] == [True] * len(allowed) + [False] * len(forbidden)


def test_errors_name_places_of_the_older_form(driver: Driver) -> None:
    structures = [{"begin": "<a>", "schema": {}, "end": "</a>"}, {"begin": "<b>", "schema": {"type": "x"}, "end": ""}]
    reply = asked(driver, "structural_tag", json.dumps({"structures": structures, "triggers": ["<"]}))
    assert "/structures/1/schema has a part that cannot be used: /type" in reply["error"]
    structures[1]["schema"] = {"not": {"type": "null"}}
    reply = asked(driver, "structural_tag", json.dumps({"structures": structures, "triggers": ["<"]}))
    assert reply["ignored"] == ["/structures/1/schema/not"]


def test_masks_are_not_those_of_other_tokens(driver: Driver) -> None:
    for kind in ("token", "exclude_token"):
        for token in (65, 66, 67):
            form = {"type": kind, "token": token} if kind == "token" else {"type": kind, "exclude_tokens": [token]}
            reply = asked(driver, "structural_tag", json.dumps({"format": form}), "A", "B", "C")
            is_allowed = [(65 + i == token) == (kind == "token") for i in range(3)]
            assert [one is None for one in reply["wishes"]] == is_allowed, (form, reply)


def test_masks_are_not_those_of_a_grammar_before(driver: Driver) -> None:
    asked(driver, "grammar", 'root ::= other | "a"\nother ::= "" | . other ("" | other)')
    for seed in range(40):
        request = {"grammar": 'root ::= "a" | root{2,}', "strict": False, "wishes": ["ab"], "walks": 3, "seed": seed}
        reply = driver.ask(request)
        assert reply["faults"] == [] and reply["wishes"] == [1], reply


TEXT = {"type": "any_text"}
TAG = {"type": "tag", "begin": "<a>", "content": {"type": "const_string", "value": "x"}, "end": "</a>"}
TOKEN = {"type": "token", "token": "nothing"}


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"type": "sequence", "elements": [TAG, {**TAG, "content": TEXT, "end": ""}]}, "/elements/1 has content that"),
        ({"type": "repeat", "min": 1, "max": 2, "content": TOKEN}, '/content names the token "nothing", which'),
        (
            {"type": "dispatch", "rules": [["<", {"type": "optional", "content": TOKEN}]]},
            "/rules/0/1/content names the",
        ),
        ({"type": "token", "token": 1_000_000}, "/token is not a token: the vocabulary has "),
        ({"type": "any_tokens", "exclude_tokens": ["a", 1.5]}, "/exclude_tokens/1 must be a token"),
        ({"type": "token_dispatch", "rules": [[-1, TEXT]]}, "/rules/0/0 must be a token"),
        ({"type": "triggered_tags", "triggers": ["<", "<a"], "tags": [TAG]}, "/tags/0/begin begins with more than one"),
        ({"type": "triggered_tags", "triggers": ["<b"], "tags": [TAG]}, "/tags/0/begin begins with none of"),
        ({"type": "triggered_tags", "triggers": ["<", "["], "tags": [TAG]}, "/triggers/1 is the beginning of no tag"),
        ({"type": "triggered_tags", "triggers": ["", "<"], "tags": [TAG]}, "/triggers/0 must be a text"),
        ({"type": "tags_with_separator", "separator": "", "tags": [{**TAG, "begin": 1}]}, "/tags/0/begin must be a"),
        ({"type": "tags_with_separator", "separator": "", "tags": [{**TAG, "end": []}]}, "/tags/0/end must be a text"),
        ({"type": "tags_with_separator", "separator": "", "tags": [TEXT]}, '/tags/0/type must be "tag"'),
        ({"type": "dispatch", "rules": [["<", TEXT]], "loop": 1}, "/loop must be true or false"),
        ({"type": "any_text", "excludes": "a"}, "/excludes must be a list"),
        ({"type": "repeat", "min": 3, "max": 2, "content": TAG}, "/max must not be below min"),
    ],
)
def test_errors_of_tags_name_a_place(driver: Driver, form: Any, problem: str) -> None:
    reply = asked(driver, "structural_tag", json.dumps({"format": form}))
    assert reply["error"].startswith("structural_tag cannot be used: /format" + problem), reply
    older = {"structures": [{"begin": "<a>", "schema": {}, "end": ""}], "triggers": ["<b"]}
    reply = asked(driver, "structural_tag", json.dumps(older))
    assert reply["error"].startswith("structural_tag cannot be used: /structures/0/begin begins with none"), reply


def test_counts_of_a_cycle_are_its_own(driver: Driver) -> None:
    for most in (1, 2, 3):
        grammar = f'root ::= "(" inner{{0,{most}}} ")"\ninner ::= "[" root "]"'
        texts = ["(" + "[()]" * number + ")" for number in range(5)]
        reply = asked(driver, "grammar", grammar, *texts)
        assert [one is None for one in reply["wishes"]] == [number <= most for number in range(5)]


def test_tokens_within_a_repeat(driver: Driver) -> None:
    def repeated(form: Any) -> str:
        return json.dumps({"format": {"type": "repeat", "min": 1, "max": 2, "content": form}})

    reply = asked(driver, "structural_tag", repeated({"type": "exclude_token", "exclude_tokens": [65]}), "B", "A")
    assert [one is None for one in reply["wishes"]] == [True, False]
    rules = [["nothing", {"type": "const_string", "value": "a"}]]
    reply = asked(driver, "structural_tag", repeated({"type": "token_dispatch", "rules": rules}))
    assert "nothing" in reply["error"]
