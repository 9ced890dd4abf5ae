"""Conversations that chat templates are tried with: name -> messages, tools, whether an answer is begun."""

from __future__ import annotations

from typing import Any, NamedTuple


class Conversation(NamedTuple):
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": 'You are "terse".\nAnswer in one line.'}
TURNS = [user("Hello, wörld! 🙂"), assistant("Hi.\n\n"), user("  What is 1 < 2 & 'so' on?  ")]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "its name, e.g. Zürich"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "description": "how many"},
            },
            "required": ["city"],
        },
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time.",
        "parameters": {"type": "object", "properties": {}, "required": []},
    },
}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "type": "function",
            "id": "call00001",
            "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}},
        }
    ],
}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": '{"sky": "blue"}'}

CONVERSATIONS = {
    "a question": Conversation([user("Who are you?")]),
    "with a system prompt": Conversation([SYSTEM, user("Who are you?")]),
    "several turns": Conversation(TURNS),
    "several turns with a system prompt": Conversation([SYSTEM, *TURNS]),
    "a finished answer": Conversation([SYSTEM, user("Hello"), assistant("Hi.")], add_generation_prompt=False),
    "a thinking answer": Conversation([user("1 + 1?"), assistant("<think>\neasy\n</think>\n\n2"), user("And 2 + 2?")]),
    "tools": Conversation([SYSTEM, user("Is it sunny in Zürich?")], [WEATHER, TIME]),
    "tools without a system prompt": Conversation([user("Is it sunny in Zürich?")], [WEATHER]),
    "a call and its result": Conversation([user("Is it sunny in Zürich?"), CALL, RESULT], [WEATHER, TIME]),
    "after a call": Conversation(
        [SYSTEM, user("Sunny?"), CALL, RESULT, assistant("Yes."), user("Thanks.\nAnd tomorrow?")], [WEATHER]
    ),
}
