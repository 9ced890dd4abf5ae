"""What models write, taken apart as their chat templates have it: tool calls, reasoning, hostile text, beginnings."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from typing import Any

import pytest

from specdec_native import _core

pytestmark = pytest.mark.quick

MESSAGES = [{"role": "user", "content": "How is the weather in Paris?"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
    for name in ("weather", "forecast")
]
PARIS = {"city": 'Pa"ris\\ \u00e9', "days": 3}
Output = tuple[str, str, list[tuple[str, str, str]]]

# How an answer with one call is written: template -> the text for a tool and its arguments.
CALLS = {
    "Qwen-Qwen2.5-7B-Instruct": '<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>',
    "Qwen-Qwen3-0.6B": '<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>',
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": '<tool_call>\n{{"name": "{name}", "arguments": '
    "{arguments}}}\n</tool_call>",
    "meta-llama-Llama-3.1-8B-Instruct": '{{"name": "{name}", "parameters": {arguments}}}',
    "meta-llama-Llama-3.3-70B-Instruct": '{{"name": "{name}", "parameters": {arguments}}}',
    "mistralai-Mistral-Nemo-Instruct-2407": '[TOOL_CALLS][{{"name": "{name}", "arguments": {arguments}, "id": '
    '"abcdefghi"}}]',
    "deepseek-ai-DeepSeek-V3.1": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "Qwen3-Coder": "<tool_call>\n<function={name}>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
    "ibm-granite-granite-4.0": '<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>',
}


def parse(source: str, *texts: str, tools: Any = TOOLS) -> list[Output]:
    """All but the last are beginnings."""
    return _core.parse_chat_outputs(source, json.dumps(MESSAGES), json.dumps(tools), list(texts))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_the_templates_own_form(templates: dict[str, str], name: str) -> None:
    arguments = {"city": "Paris"} if name == "Qwen3-Coder" else PARIS
    text = CALLS[name].format(name="weather", arguments=json.dumps(arguments, ensure_ascii=False))
    [(content, reasoning, calls)] = parse(templates[name], text)
    assert (content.strip(), reasoning) == ("", "")
    assert [call[1] for call in calls] == ["weather"]
    assert json.loads(calls[0][2]) == arguments


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_without_a_call(templates: dict[str, str], name: str) -> None:
    for text in ("It is sunny.", "x < y and [1, 2] {a: b}", "Ünïcode 🎉 \n\n```c\nint x;\n```"):
        assert parse(templates[name], text) == [(text, "", [])]


# Templates that write nothing of the calls of an earlier answer.
WITHOUT_CALLS = {
    "HuggingFaceTB-SmolLM3-3B",
    "LFM2-8B-A1B",
    "LFM2.5-Instruct",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "google-gemma-2-2b-it",
    "ibm-granite-granite-3.3-2B-Instruct",
    "llama-cpp-rwkv-world",
    "microsoft-Phi-3.5-mini-instruct",
}


def test_every_template_reads_the_call_that_it_writes(templates: dict[str, str]) -> None:
    arguments = {"city": "Rome", "days": 3}
    wanted = ("weather", json.dumps(arguments))

    def compact(output: Output) -> Output:
        content, reasoning, calls = output
        with contextlib.suppress(ValueError):
            calls = [(id, name, json.dumps(json.loads(text))) for id, name, text in calls]
        return content, reasoning, calls

    tools = [{"type": "function", "function": {**TOOLS[0]["function"], "description": "d"}}]
    without = set()
    for name, source in templates.items():
        found = False
        for value in (arguments, json.dumps(arguments)):
            function = {"name": "weather", "arguments": value}
            call = {"id": "call00000", "type": "function", "function": function}
            answer = {"role": "assistant", "content": "", "tool_calls": [call]}
            try:
                texts = [
                    "".join(
                        part
                        for part, _ in _core.render_chat_template(
                            source, json.dumps(messages), json.dumps(tools), begins, "<s>", "</s>"
                        )
                    )
                    for messages, begins in ((MESSAGES, True), (MESSAGES, False), ([*MESSAGES, answer], False))
                ]
            except RuntimeError:  # it takes only the other kind of arguments
                continue
            # The call begins near where the two prompts end: one may add a block of reasoning, or share the first
            # letters of a mark.
            ends = [
                sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(texts[2], text, strict=False)))
                for text in texts[:2]
            ]
            thoughts = ("", "</think>\n\n", "<|END_THINKING|>")  # the prompt may end inside reasoning
            written = {
                thought + texts[2][end + shift :] for end in ends for shift in range(-24, 24) for thought in thoughts
            }
            outputs = _core.parse_chat_outputs(
                source, json.dumps(MESSAGES), json.dumps(tools), sorted(written), 1 << 20
            )
            found = found or any([call[1:] for call in calls] == [wanted] for _, _, calls in map(compact, outputs))
        if not found:
            without.add(name)
    assert without == WITHOUT_CALLS


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{'a': [True, None, 1.5], 'b': \"it's\"}", {"a": [True, None, 1.5], "b": "it's"}),
        ("{'a': 'x\\ny \\\\ \\''}", {"a": "x\ny \\ '"}),
        ('{"a": "True"}', {"a": "True"}),
        ("{'a': }", "{'a': }"),
        ("{'a': '\\q'}", "{'a': '\\q'}"),
        ("print('a')", "print('a')"),
        ("{'a", "{'a"),
    ],
)
def test_objects_as_python_writes_them(templates: dict[str, str], written: str, value: Any) -> None:
    parameters = {"type": "object", "properties": {"o": {"type": "object"}}}
    tools = [{"type": "function", "function": {"name": "put", "description": "d", "parameters": parameters}}]
    for name, form in {
        "openbmb-MiniCPM5-1B": '<function name="put"><param name="o">{}</param></function>',
        "ByteDance-Seed-OSS": "<seed:tool_call>\n<function=put>\n<parameter=o>{}</parameter>\n</function>\n"
        "</seed:tool_call>",
    }.items():
        [(_, _, calls)] = parse(templates[name], form.replace("{}", written), tools=tools)
        assert json.loads(calls[0][2]) == {"o": value}, name


@pytest.mark.parametrize(
    ("schema", "written", "value"),
    [
        ({"type": ["string", "integer"]}, "1.5", "1.5"),
        ({"type": ["string", "integer"]}, "7", 7),
        ({"type": ["string", "integer"]}, "7.0", 7.0),
        ({"type": ["string", "number"]}, "1.5", 1.5),
        ({"anyOf": [{"type": "string"}, {"enum": [1, 2]}]}, "1.5", "1.5"),
        ({"enum": ["x", 1.5]}, "2", "2"),
        ({"enum": ["x", 1.5]}, "1.5", 1.5),
        ({"enum": ["2", 3]}, "2", "2"),
        ({"enum": ["2", 3]}, "3", 3),
        ({"anyOf": [{"const": "true"}, {"type": "integer"}]}, "true", "true"),
    ],
)
def test_a_value_is_of_a_type_that_the_schema_has(
    templates: dict[str, str], schema: Any, written: str, value: Any
) -> None:
    """Beside texts, which tags write without quotes."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": schema}}}}
    for name, text in (
        ("Qwen3-Coder", "<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n</function>\n</tool_call>"),
        ("GLM-4.6", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>"),
    ):
        (output,) = parse(templates[name], text.format(written), tools=[tool])
        assert [json.loads(call[2]) for call in output[2]] == [{"a": value}]


@pytest.mark.parametrize(("is_string", "value"), [("true", "[1]"), ("false", [1])])
def test_a_tag_that_says_whether_it_is_a_string(templates: dict[str, str], is_string: str, value: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}}}}}
    text = '<X_calls>\n<Xinvoke name="f">\n<Xparameter name="a" string="{}">[1]</Xparameter>\n</Xinvoke>\n</X_calls>'
    text = text.replace("_calls", "function_calls").replace("X", "｜DSML｜").format(is_string)
    [(_, _, calls)] = parse(templates["deepseek-ai-DeepSeek-V3.2"], text, tools=[tool])
    assert json.loads(calls[0][2]) == {"a": value}


def test_a_mark_of_llama_before_json(templates: dict[str, str]) -> None:
    source = templates["meta-llama-Llama-3.1-8B-Instruct"]
    for text in ('<|python_tag|>{"name": "weather", "parameters": {"city": "Rome"}}', "<|python_tag|>print(1)"):
        [(content, _, calls)] = parse(source, text)
        assert (content, [call[1] for call in calls]) == (("", ["weather"]) if "weather" in text else (text, []))


def test_solar_open(templates: dict[str, str]) -> None:
    source = templates["upstage-Solar-Open-100B"]
    part, call = (
        "<|end|><|begin|>assistant",
        "<|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>weather<|tool_call:args|>{}<|tool_call:end|>",
    )
    for text, expected in {
        f"<|think|>Hm.{part}<|content|>It is sunny.<|end|>": ("It is sunny.", "Hm.", 0),
        f"<|think|>Hm.{part}<|tool_calls|>{call}{call}<|calls|>": ("", "Hm.", 2),
        f"<|think|>Hm.{part}<|content|>I look.{part}<|tool_calls|>{call}<|calls|>": ("I look.", "Hm.", 1),
        "<|content|>Sunny <|end|> for now.<|end|>": ("Sunny <|end|> for now.", "", 0),
        "It is sunny.": ("It is sunny.", "", 0),
    }.items():
        [(content, reasoning, calls)] = parse(source, text)
        assert (content, reasoning, len(calls)) == expected, text


def test_several_calls(templates: dict[str, str]) -> None:
    text = "I look.\n" + "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Rome"}}}}\n</tool_call>'
        for name in ("weather", "forecast")
    )
    [(content, _, calls)] = parse(templates["Qwen-Qwen2.5-7B-Instruct"], text)
    assert content.strip() == "I look."
    assert [(call[1], json.loads(call[2])) for call in calls] == [
        ("weather", {"city": "Rome"}),
        ("forecast", {"city": "Rome"}),
    ]


def test_thoughts(templates: dict[str, str]) -> None:
    text = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
    [(content, reasoning, calls)] = parse(templates["Qwen-Qwen3-0.6B"], text)
    assert (content.strip(), reasoning.strip(), [call[1] for call in calls]) == ("", "Hm.", ["weather"])
    [(content, reasoning, calls)] = parse(templates["Qwen-Qwen3-0.6B"], "<think>\nHm.\n</think>\n\nYes.", tools=None)
    assert (content.strip(), reasoning.strip(), calls) == ("Yes.", "Hm.", [])


@pytest.mark.parametrize("name", CALLS)
def test_beginnings_only_grow(templates: dict[str, str], name: str) -> None:
    """Content, reasoning and arguments of a beginning stay: a stream can send them."""
    text = CALLS[name].format(name="weather", arguments=json.dumps(PARIS))
    outputs = parse(templates[name], *(text[:i] for i in range(len(text) + 1)))
    for before, after in itertools.pairwise(outputs):
        assert after[0].startswith(before[0])
        assert after[1].startswith(before[1])
        for one, other in zip(before[2], after[2], strict=False):
            assert one[1] == other[1] and other[2].startswith(one[2])


@pytest.mark.parametrize("name", CALLS)
def test_malformed_calls_are_content_or_calls(templates: dict[str, str], name: str) -> None:
    text = CALLS[name].format(name="weather", arguments=json.dumps(PARIS))
    for broken in (
        text[: len(text) // 2],
        text[::-1],
        text.replace('"', "'"),
        text + text,
        text.replace("weather", "nothing"),
    ):
        [(content, reasoning, calls)] = parse(templates[name], broken)
        assert content or reasoning or calls


HOSTILE = {
    "brackets": "[" * 100_000,
    "braces": '{"a":' * 20_000,
    "calls": '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>\n' * 1500,
    "starts of calls": "<tool_call>" * 9000,
    "starts of JSON": '<tool_call>\n{"name": "weather", "arguments": {"city": "' * 2000,
    "a long string": '<tool_call>\n{"name": "weather", "arguments": {"city": "' + "\\u00e9\\\\" * 12_000,
    "nested": '<tool_call>\n{"name": "weather", "arguments": {"city": '
    + "[" * 50_000
    + "]" * 50_000
    + "}}\n</tool_call>",
    "reasoning": "<think>" * 14_000,
    "ends of reasoning": "</think>" * 12_000,
    "spaces": " " * 100_000,
    "less-than signs": "<" * 100_000,
    "words": "word " * 20_000,
    "one unclosed": "a" * 100_000 + "<tool_call>",
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("is_partial", [False, True])
def test_hostile_text_takes_bounded_time(templates: dict[str, str], what: str, is_partial: bool) -> None:
    for name in (
        "Qwen-Qwen2.5-7B-Instruct",
        "Qwen-Qwen3-0.6B",
        "meta-llama-Llama-3.1-8B-Instruct",
        "deepseek-ai-DeepSeek-V3.1",
    ):
        start = time.process_time()
        parse(templates[name], *([HOSTILE[what], ""] if is_partial else [HOSTILE[what]]))
        assert time.process_time() - start < 20  # exponential or cubic time would take hours


def test_any_template_of_the_collection(templates: dict[str, str]) -> None:
    for source in templates.values():
        [(content, reasoning, calls)] = parse(source, "Hello there.")
        assert (reasoning + content).endswith("Hello there.") and calls == []  # some prompts begin the reasoning


@pytest.mark.parametrize(
    "source", ["{{", "{% for i in range(10**9) %}{% endfor %}", "", "{{ raise_exception('no') }}", "x" * 2_000_000]
)
def test_odd_templates_have_no_marks(source: str) -> None:
    text = "<think>\nWell.</think> <function=weather></function>"
    assert parse(source, text) == [(text, "", [])]
