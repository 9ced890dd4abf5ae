"""What replies count, and how they end."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.models.chain_model import MESSAGES, PIECES, TOOLS, Edge, chain, write_chain
from tests.server.running import PROMPT, Server, serving


def test_a_prompt_counts_once_for_all_its_choices(server: Server) -> None:
    first, second = PROMPT, "class A:\n    pass"
    count = {text: server.complete(prompt=text, max_tokens=1)["usage"]["prompt_tokens"] for text in (first, second)}
    assert count[first] != count[second]
    for n in (1, 2, 3):
        body = {"prompt": [first, second], "n": n, "max_tokens": 2, "ignore_eos": True}
        usage = server.complete(**body)["usage"]
        assert usage["prompt_tokens"] == count[first] + count[second]
        assert usage["completion_tokens"] == 2 * n * 2
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        assert server.post("/v1/completions", body).events[-1]["usage"]["prompt_tokens"] == sum(count.values())


def test_drafts_are_not_reported_as_accepted(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 60, "temperature": 1.5, "seed": 7}
    body |= {"num_draft_tokens": 6, "stream": True, "logprobs": True}  # a chunk for each token
    events = server.post("/v1/chat/completions", body).events
    timings = [event["timings"] for event in events if "timings" in event][-1]
    accepted = sum("draft_source" in choice for event in events for choice in event["choices"])
    assert 0 < accepted == timings["draft_n_accepted"] < timings["draft_n"]


@pytest.fixture(scope="module")
def talker(specdec: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A model that calls again and again."""
    path = tmp_path_factory.mktemp("talker") / "chain.gguf"
    edges: list[Edge] = [edge for edge in chain(PIECES) if edge[0] != "</tool_call>"]
    write_chain(path, [*edges, ("</tool_call>", "<tool_call>", 10)])
    with serving(specdec, "-m", path, "-md", "suffix", "-np", 1, "--temp", "0", "-c", 2048) as running:
        yield running


@pytest.mark.parametrize("n", [1, 2])
def test_an_answer_ends_after_its_only_call(talker: Server, n: int) -> None:
    body: dict[str, Any] = {"messages": MESSAGES, "tools": TOOLS, "parallel_tool_calls": False, "n": n}
    body["max_tokens"] = 400
    whole = talker.post("/v1/chat/completions", body).json
    assert len(whole["choices"]) == n
    for choice in whole["choices"]:
        assert choice["finish_reason"] == "tool_calls" and len(choice["message"]["tool_calls"]) == 1
    assert whole["usage"]["completion_tokens"] < 100 * n
    assert whole["timings"]["predicted_n"] < 200 * n
    events = talker.post("/v1/chat/completions", {**body, "stream": True}).events
    reasons = [choice["finish_reason"] for event in events for choice in event["choices"] if choice["finish_reason"]]
    assert reasons == ["tool_calls"] * n
    assert len(events) < 100 * n
    assert talker.num_unfinished() == 0


def test_truncated(specdec: pathlib.Path) -> None:
    with serving(specdec, "-c", 64) as running:
        for stream in (False, True):

            def last(count: int, stream: bool = stream) -> Any:
                body = {"prompt": PROMPT, "n_predict": count, "ignore_eos": True, "stream": stream}
                reply = running.post("/completion", body)
                return reply.events[-1] if stream else reply.json

            assert last(4)["truncated"] is False and last(4)["stop_type"] == "limit"
            assert last(-1)["truncated"] is True
