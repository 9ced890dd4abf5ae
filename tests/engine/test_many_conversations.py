"""Conversations in batches (generate_many, stream_many, Ray's GenerateText), and embeddings as handles."""

from __future__ import annotations

import asyncio
import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.models.chain_model import ARGUMENTS, MESSAGES, PIECES, TOOLS, chain, write_chain

import specdec_native as sd
from specdec_native.ray import MESSAGE_COLUMN, OUTPUT_COLUMNS, GenerateText

GREEDY: Any = {"temperature": 0.0, "max_tokens": 60}
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("chain") / "chain.gguf"
    write_chain(path, chain(PIECES))
    return path


@pytest.fixture(scope="module")
def gen(model: pathlib.Path) -> Iterator[sd.Generator]:
    with sd.Generator(model, "suffix", max_sequences=3, n_threads=1) as generator:
        yield generator


def test_lists_of_messages(gen: sd.Generator) -> None:
    answer = gen.chat(MESSAGES, **GREEDY)
    other = gen.chat([*MESSAGES, answer.message, *MESSAGES], **GREEDY)
    requests: list[Any] = [
        MESSAGES,
        {"messages": MESSAGES, "max_tokens": 3},
        "plain",
        [*MESSAGES, answer.message, *MESSAGES],
        [5, 9],
        {"messages": MESSAGES, "tools": TOOLS},
        {"messages": MESSAGES, "json_schema": SCHEMA},
    ]
    found = gen.generate_many(requests, **GREEDY)
    assert [one.error for one in found] == [None] * len(requests)
    first, short, plain, longer, ids, called, form = found
    assert isinstance(first, sd.ChatCompletion) and (first.text, first.message) == (answer.text, answer.message)
    assert isinstance(short, sd.ChatCompletion) and len(short.tokens) == 3 and short.finish_reason == "length"
    assert not isinstance(plain, sd.ChatCompletion) and not isinstance(ids, sd.ChatCompletion)
    assert longer.text == other.text and longer.stats.prompt_tokens == other.stats.prompt_tokens
    assert isinstance(called, sd.ChatCompletion) and called.finish_reason == "tool_calls"
    assert json.loads(called.message.tool_calls[0].function.arguments) == ARGUMENTS
    assert form.parsed == {"a": 1}


def test_options_of_chats_for_all(gen: sd.Generator) -> None:
    common: Any = {"tools": TOOLS, "tool_choice": "auto", **GREEDY}
    called, plain = gen.generate_many([MESSAGES, "x"], **common)
    assert isinstance(called, sd.ChatCompletion) and called.message.tool_calls
    assert plain.error is None
    sampled: Any = {"temperature": 1.5, "seed": 4, "max_tokens": 10}
    seeds = [one.seed for one in gen.generate_many([MESSAGES, MESSAGES], **sampled)]
    assert seeds[0] == 4 and seeds[1] != 4
    with gen.stream_many([MESSAGES, {"messages": MESSAGES}], **GREEDY) as events:
        texts = ["", ""]
        for event in events:
            texts[event.index] += event.piece.text if event.piece else ""
    assert texts == ["".join(PIECES)] * 2


def test_errors_name_the_way(gen: sd.Generator) -> None:
    bad: list[tuple[Any, str]] = [
        (MESSAGES[0], "a request is a single message; a conversation is a list of messages"),
        ({"messages": MESSAGES, "prompt": "x"}, 'either a "prompt" or "messages"'),
        ({"max_tokens": 3}, 'either a "prompt" or "messages"'),
        ({"prompt": "x", "tools": TOOLS}, 'tools needs a conversation: give "messages"'),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0] has the role 'robot'"),
        ({"messages": MESSAGES, "temprature": 1}, "did you mean temperature?"),
        ({"messages": MESSAGES, "tool_choise": "none"}, "did you mean tool_choice?"),
    ]
    found = gen.generate_many([one for request, _ in bad for one in (request, MESSAGES)], **GREEDY)
    for one, (_, message) in zip(found[::2], bad, strict=True):
        assert message in str(one.error)
    assert {one.text for one in found[1::2]} == {"".join(PIECES)}
    with pytest.raises(TypeError, match="use chat, stream_chat or submit_chat for conversations"):
        gen.generate(MESSAGES)
    for wrong in ("text", {"prompt": "x"}):
        with pytest.raises(TypeError, match="give a list of prompts or conversations"):
            gen.generate_many(wrong)  # type: ignore[arg-type]


def test_a_column_of_conversations(model: pathlib.Path) -> None:
    """As Ray Data passes it: arrays of dicts, in which other rows' fields are null; or JSON."""
    column = np.empty(3, object)
    column[0] = np.array([{**MESSAGES[0], "name": None, "tool_calls": None}], object)
    column[1] = json.dumps(MESSAGES)
    column[2] = "no JSON"
    sampling: Any = {**GREEDY, "tools": TOOLS}
    answers = GenerateText(model, messages_column="messages", sampling=sampling, n_threads=1)
    out = answers({"messages": column})
    assert tuple(out) == ("messages", *OUTPUT_COLUMNS, MESSAGE_COLUMN)
    assert list(out["text"][:2]) == ["".join(PIECES)] * 2
    for message in map(json.loads, out[MESSAGE_COLUMN][:2]):
        assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == ARGUMENTS
    assert out["text"][2] is None and "messages is str" in out["error"][2] and out[MESSAGE_COLUMN][2] is None
    with pytest.raises(ValueError, match="tools; it needs messages_column"):
        GenerateText(model, sampling={"tools": TOOLS})
    with pytest.raises(ValueError, match="only one of prompt_column and messages_column"):
        GenerateText(model, messages_column="a", prompt_column="b")


def test_embeddings_as_handles() -> None:
    texts = ["import os", [5, 6, 7], "class Stack:"]
    with sd.Generator(n_threads=1, max_sequences=2) as gen:
        expected = gen.embed(texts)
        with gen.submit_embed(texts) as handle:
            rows = handle.result()
            assert handle.done and (rows == expected).all()
        stream = gen.stream("import os\n", max_tokens=40, seed=1)

        async def both() -> Any:
            return await asyncio.gather(gen.aembed(texts), gen.aembed("import os"), gen.agenerate("x", max_tokens=4))

        several, one, _ = asyncio.run(both())
        assert (several == expected).all() and (one == expected[:1]).all()
        assert len(list(stream)) == 40
        with pytest.raises(ValueError, match="at least one text"):
            gen.submit_embed([])
        with pytest.raises(ValueError, match="the text has no tokens"):
            gen.submit_embed([[]]).result()
        cancelled = gen.submit_embed(["import os\n" * 150] * 200)
        cancelled.cancel()
        with pytest.raises(sd.Cancelled):
            cancelled.result()

        async def left() -> None:
            task = asyncio.ensure_future(gen.aembed(["import os\n" * 150] * 200))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(left())
        assert (gen.embed(texts) == expected).all()
    waiting = [thread for thread in threading.enumerate() if thread.name == "specdec_native embed"]
    for thread in waiting:
        thread.join(60)
    with pytest.raises(sd.Error, match="closed"):
        gen.submit_embed("x")


def test_a_stream_has_its_own_statistics() -> None:
    with sd.Generator(n_threads=1) as gen:
        first = gen.stream("import os\n", max_tokens=5, seed=7)
        assert len(list(first)) == 5
        gen.generate("x", max_tokens=2, seed=8)
        assert (first.seed, first.stats.tokens, first.verification) == (7, 5, "invariant")
        assert (gen.seed, gen.stats.tokens) == (8, 2)
