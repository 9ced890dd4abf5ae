"""Generator.chat with tools: tool calls and reasoning of the answer as a message, whole and while it is written."""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.models.chain_model import (
    ARGUMENTS,
    FORECAST,
    FUNCTION,
    HESITANT,
    HESITANT_CONTROL,
    MESSAGES,
    MUSING,
    PIECES,
    START,
    TEMPLATE,
    TOOLS,
    chain,
    write_chain,
)

import specdec_native as sd

GREEDY: sd.StreamOptions = {"temperature": 0.0, "max_tokens": 60}


@pytest.fixture(scope="module")
def gen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sd.Generator]:
    path = tmp_path_factory.mktemp("chain") / "chain.gguf"
    write_chain(path, chain(PIECES))
    with sd.Generator(path, "suffix", max_sequences=2) as generator:
        yield generator


@pytest.fixture(scope="module")
def hesitant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sd.Generator]:
    path = tmp_path_factory.mktemp("hesitant") / "chain.gguf"
    write_chain(path, HESITANT, HESITANT_CONTROL)
    with sd.Generator(path, "suffix") as generator:
        yield generator


def check(answer: sd.ChatCompletion) -> None:
    assert answer.finish_reason == "tool_calls" and answer.text == "".join(PIECES)
    message = answer.message
    [call] = message.tool_calls
    assert call.id and call.type == "function" and call.function.name == "weather"
    assert json.loads(call.function.arguments) == ARGUMENTS
    assert (message.content or "").strip() == "I look." and message.reasoning_content == "Hm."


def test_a_call(gen: sd.Generator) -> None:
    answer = gen.chat(MESSAGES, tools=TOOLS, **GREEDY)
    check(answer)
    assert answer.pieces[-1].finish_reason == "stop" and answer.stats.tokens == len(PIECES) + 1
    check(gen.submit_chat(MESSAGES, tools=TOOLS, **GREEDY).result())
    check(asyncio.run(gen.achat(MESSAGES, tools=TOOLS, **GREEDY)))


def test_the_conversation_goes_on_with_the_message(gen: sd.Generator) -> None:
    answer = gen.chat(MESSAGES, tools=TOOLS, **GREEDY)
    call = answer.message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    as_dict = {
        "role": "assistant",
        "content": answer.message.content,
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": "weather", "arguments": call.function.arguments}}
        ],
    }
    assert answer.message.to_dict() == as_dict
    prompts = [
        gen.apply_chat_template([*MESSAGES, message, result], tools=TOOLS) for message in (answer.message, as_dict)
    ]
    assert prompts[0] == prompts[1] and '"Paris"' in prompts[0]
    check(gen.chat([*MESSAGES, answer.message, result], tools=TOOLS, **GREEDY))


def test_while_it_is_written(gen: sd.Generator) -> None:
    contents, arguments = [], []
    with gen.stream_chat(MESSAGES, tools=TOOLS, **GREEDY) as stream:
        assert stream.message == sd.AssistantMessage("", None, [])
        for _ in stream:
            contents.append(stream.message.content or "")
            arguments += [call.function.arguments for call in stream.message.tool_calls]
            ids = {call.id for call in stream.message.tool_calls}
    assert len(set(contents)) > 2 and len(set(arguments)) > 2
    for longer, shorter in zip(arguments[1:], arguments, strict=False):
        assert longer.startswith(shorter)
    assert json.loads(arguments[-1]) == ARGUMENTS and stream.message.reasoning_content == "Hm."
    assert {call.id for call in stream.message.tool_calls} == ids, "a call keeps its id"

    handle = gen.submit_chat(MESSAGES, tools=TOOLS, **GREEDY)
    assert handle.result().message == handle.message


def test_a_call_that_is_cut(gen: sd.Generator) -> None:
    answer = gen.chat(MESSAGES, tools=TOOLS, temperature=0, max_tokens=11)
    assert answer.finish_reason == "length"
    assert json.dumps(ARGUMENTS).startswith(answer.message.tool_calls[0].function.arguments)


def test_without_tools(gen: sd.Generator) -> None:
    for answer in (gen.chat(MESSAGES, **GREEDY), gen.chat(MESSAGES, tools=TOOLS, tool_choice="none", **GREEDY)):
        assert answer.finish_reason == "stop" and answer.message.tool_calls == []
        assert answer.message.reasoning_content == "Hm." and "<tool_call>" in (answer.message.content or "")


def test_constrained_text_is_content(gen: sd.Generator) -> None:
    text = "<think>Hm.</think>I look."
    answer = gen.chat(MESSAGES, tools=TOOLS, regex=text.replace(".", "[.]"), **GREEDY)
    assert answer.message == sd.AssistantMessage(text, None, []) and answer.finish_reason == "stop"


@pytest.mark.parametrize(
    ("tool_choice", "name"), [("required", "weather"), (FUNCTION, "forecast")], ids=["any", "named"]
)
def test_a_call_that_is_required(hesitant: sd.Generator, tool_choice: Any, name: str) -> None:
    tools = [*TOOLS, FORECAST]
    assert hesitant.chat(MESSAGES, tools=tools, **GREEDY).message == sd.AssistantMessage("I look.", None, [])
    answer = hesitant.chat(MESSAGES, tools=tools, tool_choice=tool_choice, **GREEDY)
    [call] = answer.message.tool_calls
    assert answer.finish_reason == "tool_calls" and answer.message.content is None
    assert call.function.name == name and json.loads(call.function.arguments) == {"city": "Paris"}


def test_an_answer_ends_after_its_first_call(tmp_path: pathlib.Path) -> None:
    """The model calls without end."""
    pieces = ["<tool_call>", '{"name": "wea', 'ther", "argu', 'ments": {"ci', 'ty": "Pa', 'ris"', "}}", "</tool_call>"]
    write_chain(tmp_path / "chain.gguf", [*chain(pieces)[:-1], ("</tool_call>", "<tool_call>", 10)])
    with sd.Generator(tmp_path / "chain.gguf", "suffix") as generator:
        many = generator.chat(MESSAGES, tools=TOOLS, **GREEDY)
        assert len(many.message.tool_calls) > 3
        for options in ({"parallel_tool_calls": False}, {"tool_choice": {**FUNCTION, "function": {"name": "weather"}}}):
            answer = generator.chat(MESSAGES, tools=TOOLS, **options, **GREEDY)  # type: ignore[arg-type]
            [call] = answer.message.tool_calls
            assert call.function.name == "weather" and json.loads(call.function.arguments) == {"city": "Paris"}
            assert answer.finish_reason == "tool_calls" and answer.stats.tokens <= 2 * len(pieces)


@pytest.fixture(scope="module")
def musing(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("musing") / "chain.gguf"
    write_chain(path, MUSING)
    return path


@pytest.mark.parametrize("num_tokens", [0, 1, 6, 20])
def test_a_budget_of_reasoning(musing: pathlib.Path, num_tokens: int) -> None:
    with sd.Generator(musing, "suffix") as gen:
        for k in (0, 5):
            answer = gen.chat(MESSAGES, reasoning_budget=num_tokens, num_draft_tokens=k, **GREEDY)
            assert (
                answer.text == "<think>" + ("Hm.Well " * 20)[: num_tokens // 2 * 8 + num_tokens % 2 * 3] + "</think>ok."
            )
            assert answer.message.content == "ok." and answer.finish_reason == "stop"
        assert gen.chat(MESSAGES, **GREEDY).finish_reason == "length"


def test_a_budget_where_the_prompt_begins_the_reasoning(tmp_path: pathlib.Path) -> None:
    write_chain(tmp_path / "chain.gguf", [(START, "Hm.", 10), *MUSING[1:]])
    template = TEMPLATE.replace('"<|assistant|>\\n"', '"<|assistant|>\\n<think>\\n"')
    assert template != TEMPLATE
    with sd.Generator(tmp_path / "chain.gguf", "suffix", chat_template=template) as gen:
        answer = gen.chat(MESSAGES, reasoning_budget=3, **GREEDY)
        assert answer.text == "Hm.Well Hm.</think>ok." and answer.message.content == "ok."


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tool_choice": "always", "tools": TOOLS}, "tool_choice is 'always'"),
        ({"tool_choice": "required"}, "there are no tools"),
        ({"tool_choice": {"type": "x"}, "tools": TOOLS}, "tool_choice is "),
        ({"tool_choice": FUNCTION, "tools": TOOLS}, 'tool_choice is "forecast", but no tool has that name'),
        ({"tool_choice": "required", "tools": TOOLS, "regex": "a"}, "the text is constrained"),
    ],
    ids=["word", "no tools", "dict", "name", "regex"],
)
def test_calls_that_cannot_be_required(hesitant: sd.Generator, options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        hesitant.chat(MESSAGES, **options)


def test_a_template_without_calls() -> None:
    with sd.Generator(chat_template="chatml") as bundled:
        answer = bundled.chat(MESSAGES, max_tokens=4, seed=1)
        assert answer.message == sd.AssistantMessage(answer.text, None, [])
