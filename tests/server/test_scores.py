"""SGLang's /v1/score: the scores of Generator.score_choices."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.server.running import PROMPT, Server

import specdec_native as sd

LABELS = ["    return", "    for", "\n"]


@pytest.fixture(scope="module")
def expected() -> Any:
    with sd.Generator(n_threads=1) as gen:
        return [[one.logprob for one in gen.score_choices(PROMPT + item, LABELS)] for item in ("", "\n")]


def test_texts_as_labels(server: Server, expected: Any) -> None:
    body = {"model": "any", "query": PROMPT, "items": ["", "\n"], "labels": LABELS}
    reply = server.post("/v1/score", body).json
    assert reply["object"] == "scoring" and reply["logprobs"] == expected
    assert reply["scores"] == [[math.exp(one) for one in row] for row in expected]
    shares = server.post("/v1/score", {**body, "apply_softmax": True}).json["scores"]
    for row, logprobs in zip(shares, expected, strict=True):
        total = sum(map(math.exp, logprobs))
        assert row == pytest.approx([math.exp(one) / total for one in logprobs]) and sum(row) == pytest.approx(1)


def test_token_ids_as_sglangs_clients_send_them(server: Server) -> None:
    tokens = server.post("/tokenize", {"prompt": PROMPT}).json["tokens"]
    labels = [tokens[1], tokens[2], tokens[0]]
    body = {"query": PROMPT, "items": "\n", "label_token_ids": labels}
    reply = server.post("/v1/score", body).json
    with sd.Generator(n_threads=1) as gen:
        rows = [gen.score_choices(PROMPT + "\n", [[label]])[0].logprob for label in labels]
    assert reply["logprobs"] == [rows]
    assert reply["usage"]["prompt_tokens"] == len(server.post("/tokenize", {"prompt": PROMPT + "\n"}).json["tokens"])
    first = server.post("/v1/score", {"query": "\n", "items": [PROMPT], "item_first": True, "label_token_ids": labels})
    assert first.json["logprobs"] == [rows]
    ids = server.post("/v1/score", {"query": tokens, "items": [[tokens[3]]], "label_token_ids": labels}).json
    assert len(ids["scores"]) == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"query": "x"}, "label_token_ids"),
        ({"query": "x", "labels": ["a"], "label_token_ids": [1]}, "label_token_ids"),
        ({"query": "x", "labels": []}, "labels"),
        ({"query": "x", "labels": ["a", ""]}, "labels[1]"),
        ({"query": "x", "labels": "a"}, "labels"),
        ({"query": "x", "label_token_ids": [1, 10**8]}, "label_token_ids[1]"),
        ({"query": 5, "labels": ["a"]}, "query"),
        ({"query": "", "labels": ["a"]}, "query"),
        ({"query": "x", "items": [], "labels": ["a"]}, "items"),
        ({"query": "x", "items": [7.5, "a"], "labels": ["a"]}, "items[0]"),
        ({"query": "x", "items": ["a"] * 200, "labels": ["b"] * 200}, "items"),
        ({"query": "x", "labels": ["a"], "item_first": 3}, "item_first"),
    ],
)
def test_bad_fields(server: Server, fields: dict[str, Any], param: str) -> None:
    reply = server.post("/v1/score", fields)
    assert reply.status == 400 and reply.error["param"] == param, reply.text


def test_a_text_that_does_not_fit(server: Server) -> None:
    assert server.post("/v1/score", {"query": "x " * 20000, "labels": ["a"]}).status == 400
