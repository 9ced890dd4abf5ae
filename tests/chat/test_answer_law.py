"""No byte of an answer is lost: every mark of every template at every place, whole and in pieces.

Each answer consists of words that occur once and of marks. A word must come back once, in the content, in the
reasoning or in the arguments of a call, and in pieces the answer must be what it is as a whole. Only marks, and white
space next to them, may be missing.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from specdec_native import _core

pytestmark = pytest.mark.quick

MESSAGES = [{"role": "user", "content": "Hi"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "kind": {}},
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
    },
]
# What looks like a mark in the source of a template.
MARK = re.compile(r"</?[A-Za-z_:|\uff5c][^<>\s{}'\"%]{1,40}>|\[/?[A-Z_]{3,20}\]|<\|\"\|>|```")
# Marks of templates that others of the same family write.
ALWAYS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "{", "```json", '{"name": "weather"']
PLACES = [
    "alpha {m} beta",
    "{m}alpha beta",
    "alpha beta{m}",
    "alpha {m}{m} beta",
    "alpha\n{m}\nbeta {n} gamma",
    "{n}alpha {m} beta",
    "alpha `{m}` beta {n} gamma {m} delta",
]
BEGINNINGS = ["", "zeta</think>\n\n", "<think>zeta</think>", "zeta[/THINK]", "<|channel>thought\nzeta<channel|>"]
# How an answer with one call is written, with a place for text in its argument.
JSON = '<tool_call>\n{{"name": "weather", "arguments": {{"city": "alpha{m}beta", "days": 3}}}}\n</tool_call>'
XML = "<tool_call>\n<function=weather>\n<parameter={k}>\nalpha{m}beta\n</parameter>\n</function>\n</tool_call>"
CALLS = {
    "Qwen-Qwen2.5-7B-Instruct": JSON,
    "Qwen-Qwen3-0.6B": JSON,
    "Qwen3-Coder": XML,
    "Qwen3.5-4B": "</think>\n\n" + XML,
    "GLM-4.6": "<tool_call>weather\n<arg_key>{k}</arg_key>\n<arg_value>alpha{m}beta</arg_value>\n</tool_call>",
    "google-gemma-4-31B-it": '<|tool_call>call:weather{{{k}:<|"|>alpha{m}beta<|"|>}}<tool_call|>',
    "openai-gpt-oss-120b": "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
    '{{"city": "alpha{m}beta"}}',
    "mistralai-Mistral-Nemo-Instruct-2407": '[TOOL_CALLS][{{"name": "weather", "arguments": {{"city": '
    '"alpha{m}beta"}}, "id": "abcdefghi"}}]',
    "openbmb-MiniCPM5-1B": '<function name="weather"><param name="{k}">alpha{m}beta</param></function>',
    "upstage-Solar-Open-100B": "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>weather<|tool_call:args|>"
    '{{"city": "alpha{m}beta"}}<|tool_call:end|><|calls|>',
    "Mistral-Small-3.2-24B-Instruct-2506": '[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{{"city": "alpha{m}beta"}}',
}
WORDS = re.compile(r"alpha|beta|gamma|delta|zeta")
Output = tuple[str, str, list[tuple[str, str, str]]]


def marks_of(source: str) -> list[str]:
    return list(dict.fromkeys([*MARK.findall(source), *ALWAYS]))


def words(output: Output) -> list[str]:
    content, reasoning, calls = output
    return sorted(WORDS.findall(" ".join([content, reasoning, *(call[2] for call in calls)])))


def read(source: str, texts: list[str], *, tools: Any, step: int, is_cut: bool = False) -> list[Output]:
    return _core.parse_chat_outputs(source, json.dumps(MESSAGES), json.dumps(tools), texts, step, is_cut)


def check(source: str, texts: list[str], *, tools: Any = TOOLS, is_cut: bool = False) -> list[Output]:
    whole = read(source, texts, tools=tools, step=1 << 20, is_cut=is_cut)
    for step in (1, 7):
        pieces = read(source, texts, tools=tools, step=step, is_cut=is_cut)
        for text, one, other in zip(texts, whole, pieces, strict=True):
            assert other[:2] == one[:2] and [c[1:] for c in other[2]] == [c[1:] for c in one[2]], text
    for text, output in zip(texts, whole, strict=True):
        assert words(output) == sorted(WORDS.findall(text)), (text, output)
    return whole


@pytest.mark.parametrize("tools", [TOOLS, None], ids=["tools", "no tools"])
def test_marks_in_text(templates: dict[str, str], tools: Any) -> None:
    for name, source in templates.items():
        marks = marks_of(source)
        texts = [
            begin + place.format(m=mark, n=marks[(i + 1) % len(marks)])
            for i, mark in enumerate(marks)
            for place in PLACES
            for begin in [*BEGINNINGS[:2], BEGINNINGS[2 + i % 3]]
        ]
        try:
            check(source, texts, tools=tools)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("name", CALLS)
def test_marks_in_arguments(templates: dict[str, str], name: str) -> None:
    marks, texts = [], []
    for mark in marks_of(templates[name]):
        inside = json.dumps(mark)[1:-1] if "arguments" in CALLS[name] or '": "' in CALLS[name] else mark
        for key in ("city", "kind", "unknown"):
            marks.append(mark)
            texts.append(CALLS[name].format(m=inside, k=key))
    for mark, text, (content, _, calls) in zip(marks, texts, check(templates[name], texts), strict=True):
        if mark in text[: text.index("alpha")] + text[text.index("beta") :]:  # it may end the argument
            continue
        assert [call[1] for call in calls] == ["weather"] and content.strip() == "", text
        assert f"alpha{mark}beta" in json.loads(calls[0][2]).values(), text


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_cut", [True, False])
def test_an_answer_that_ends_anywhere(templates: dict[str, str], name: str, is_cut: bool) -> None:
    text = CALLS[name].format(m=" ", k="city")
    if name != "openai-gpt-oss-120b":
        text = "gamma " + text + "\ndelta"
    check(templates[name], [text[:end] for end in range(len(text) + 1)], is_cut=is_cut)
