"""Converts conversations to the engine's form (JSON, because chat templates read any fields that they know), and
answers to the form of the OpenAI API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from . import _core


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`arguments` is JSON as the model wrote it; of a call that is cut off or still being written, only the
    beginning."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. The message with the tool's result refers to `id` as "tool_call_id"."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """An assistant's answer, parsed according to the chat template; text that does not match the template is content.

    It can be added to the conversation: `messages.append(answer.message)`.
    """

    content: str | None  #: None if there are only calls
    reasoning_content: str | None  #: the reasoning, if the template marks it
    tool_calls: list[ToolCall]
    role: Literal["assistant"] = "assistant"

    def to_dict(self) -> dict[str, Any]:
        """The message in the form of the OpenAI API, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value or name == "content"}


Message = Mapping[str, Any] | AssistantMessage
Tool = Mapping[str, Any]
ToolChoice = Literal["auto", "none", "required"] | Mapping[str, Any]


class Answer:
    """Parses the model's answer to a prompt into a message. Calls that have no id in the text get one here."""

    def __init__(self, prompt: _core.ChatPrompt) -> None:
        self._prompt = prompt
        self._ids: list[str] = []

    def message(self, text: str, is_whole: bool) -> AssistantMessage:
        """is_whole: the model has ended the answer."""
        content, thoughts, calls = self._prompt.parse(text, not is_whole)
        while len(self._ids) < len(calls):
            self._ids.append(calls[len(self._ids)][0] or f"call_{uuid.uuid4().hex[:24]}")
        found = [
            ToolCall(id, FunctionCall(name, given)) for id, (_, name, given) in zip(self._ids, calls, strict=False)
        ]
        return AssistantMessage(None if found and not content else content, thoughts or None, found)


class Conversation(NamedTuple):
    """The arguments of the engine's `chat`."""

    messages: str
    tools: str  #: the tools that the template shows
    callable: str  #: the tools that the answer may call
    is_required: bool
    is_parallel: bool
    continues_answer: bool  #: the last message is the beginning of the answer


def _listed(name: str, values: Sequence[Mapping[str, Any] | AssistantMessage]) -> str:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Sequence):
        raise TypeError(f"{name} is {type(values).__name__}; it must be a list of dicts")
    dicts = [value.to_dict() if isinstance(value, AssistantMessage) else value for value in values]
    for i, value in enumerate(dicts):
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}[{i}] is {type(value).__name__}; it must be a dict")
    try:
        text = json.dumps([dict(value) for value in dicts], ensure_ascii=False, allow_nan=False)
        text.encode()  # UnicodeEncodeError, a ValueError, for a lone surrogate
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must hold JSON values only: {error}") from error
    return text


_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def _check_messages(messages: Sequence[Message]) -> None:
    """Rejects messages with missing fields: templates would write nothing for them, or a wrong conversation."""
    if not messages:
        raise ValueError("messages is empty; it must have at least one")
    for i, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            continue
        role = message.get("role")
        if not isinstance(role, str):
            raise ValueError(f'messages[{i}] has no "role"; it must be "system", "user", "assistant" or "tool"')
        if role not in _ROLES:
            raise ValueError(
                f'messages[{i}] has the role {role!r}; it must be "system", "developer", "user", "assistant" or "tool"'
            )
        if role in ("system", "developer", "user") and message.get("content") is None:
            raise ValueError(f'messages[{i}] has no "content"')


def _as_templates_know_them(messages: Sequence[Message]) -> list[Message]:
    """Replaces the role "developer" by "system", which templates know."""
    return [
        {**message, "role": "system"}
        if isinstance(message, Mapping) and message.get("role") == "developer"
        else message
        for message in messages
    ]


def _continues(messages: Sequence[Message], asked: bool | None) -> bool:
    """Whether the last message is the beginning of the answer. asked None: it is if the assistant wrote it."""
    last = messages[-1]
    values = last.to_dict() if isinstance(last, AssistantMessage) else last
    is_answer = values.get("role") == "assistant" and not values.get("tool_calls")
    if asked and not is_answer:
        raise ValueError("continue_final_message needs an assistant message without tool calls at the end")
    return is_answer if asked is None else asked


def _function_name(tool: object) -> object:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return function.get("name") if isinstance(function, Mapping) else None


def _named(tools: Sequence[Tool], choice: Mapping[str, Any]) -> list[Tool]:
    name = _function_name(choice)
    if choice.get("type") != "function" or not isinstance(name, str):
        raise ValueError(
            f'tool_choice is {dict(choice)}; a dict must be {{"type": "function", "function": {{"name": ...}}}}'
        )
    found = [tool for tool in tools if _function_name(tool) == name]
    if not found:
        raise ValueError(f'tool_choice is "{name}", but no tool has that name')
    return found[:1]


def conversation(
    messages: Sequence[Message],
    tools: Sequence[Tool] | None,
    tool_choice: ToolChoice = "auto",
    parallel_tool_calls: bool = True,
    continue_final_message: bool | None = None,
) -> Conversation:
    """The engine's arguments. Raises TypeError or ValueError that names the argument."""
    listed = _listed("messages", messages)
    _check_messages(messages)
    listed = _listed("messages", _as_templates_know_them(messages))
    goes_on = _continues(messages, continue_final_message)
    shown = "null" if not tools else _listed("tools", tools)
    if isinstance(tool_choice, Mapping):
        return Conversation(listed, shown, _listed("tools", _named(tools or [], tool_choice)), True, False, goes_on)
    if tool_choice not in ("auto", "none", "required"):
        raise ValueError(
            f'tool_choice is {tool_choice!r}; it must be "auto", "none", "required" or a dict with a function'
        )
    if tool_choice == "none":
        return Conversation(listed, "null", "null", False, parallel_tool_calls, goes_on)
    if tool_choice == "required" and not tools:
        raise ValueError("tool_choice requires a call, but there are no tools")
    return Conversation(listed, shown, shown, tool_choice == "required", parallel_tool_calls, goes_on)
