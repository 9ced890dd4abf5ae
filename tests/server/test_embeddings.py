"""/v1/embeddings and Ollama's /api/embed: those of Generator.embed."""

from __future__ import annotations

from typing import Any

import numpy as np
import ollama
import openai
import pytest
from tests.server.running import PROMPT, Server

import specdec_native as sd

TEXTS = [PROMPT, "import os", "class Stack:\n"]


@pytest.fixture(scope="module")
def rows() -> Any:
    with sd.Generator(n_threads=1) as gen:
        return gen.embed(TEXTS)


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url=server.url + "/v1", max_retries=0)


def test_openai(client: openai.OpenAI, server: Server, rows: Any) -> None:
    for options in ({}, {"encoding_format": "float"}):  # the package asks for base64 unless told otherwise
        reply = client.embeddings.create(model="any", input=TEXTS, **options)  # type: ignore[arg-type]
        assert [one.index for one in reply.data] == [0, 1, 2]
        assert (np.array([one.embedding for one in reply.data], np.float32) == rows).all()
        num_tokens = sum(len(server.post("/tokenize", {"prompt": text}).json["tokens"]) for text in TEXTS)
        assert reply.usage.prompt_tokens == reply.usage.total_tokens == num_tokens
    raw = server.post("/v1/embeddings", {"input": TEXTS[0]}).json
    assert raw["object"] == "list" and (np.array(raw["data"][0]["embedding"], np.float32) == rows[0]).all()


def test_tokens(client: openai.OpenAI, server: Server, rows: Any) -> None:
    tokens = [server.post("/tokenize", {"prompt": text}).json["tokens"] for text in TEXTS]
    several = client.embeddings.create(model="any", input=tokens).data
    assert (np.array([one.embedding for one in several], np.float32) == rows).all()
    [one] = client.embeddings.create(model="any", input=tokens[1]).data
    assert (np.array(one.embedding, np.float32) == rows[1]).all()


def test_fewer_dimensions(client: openai.OpenAI, rows: Any) -> None:
    [one] = client.embeddings.create(model="any", input=TEXTS[0], dimensions=8).data
    np.testing.assert_allclose(one.embedding, rows[0][:8] / np.linalg.norm(rows[0][:8]), rtol=1e-5)


def test_ollama(server: Server, rows: Any) -> None:
    client = ollama.Client(server.url)
    reply = client.embed("any", TEXTS)
    assert (np.array(reply.embeddings, np.float32) == rows).all() and reply.prompt_eval_count
    assert (np.array(client.embed("any", TEXTS[1]).embeddings, np.float32) == rows[1]).all()
    assert len(client.embed("any", TEXTS, dimensions=8).embeddings[2]) == 8
    assert (np.array(client.embeddings("any", TEXTS[1]).embedding, np.float32) == rows[1]).all()
    assert client.embed("any", []).embeddings == []


def test_texts_that_are_too_long(server: Server) -> None:
    long = "a b " * 4000
    assert server.post("/v1/embeddings", {"input": long}).error["type"] == "exceed_context_size_error"
    n_ctx = server.get("/props").json["default_generation_settings"]["n_ctx"]
    assert server.post("/api/embed", {"input": long}).json["prompt_eval_count"] == n_ctx  # as Ollama cuts it
    assert server.post("/api/embed", {"input": long, "truncate": False}).status == 400


def test_a_conversation_keeps_its_prefix(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "y = [" + "1, " * 80 + "]"}], "max_tokens": 1}
    server.post("/v1/chat/completions", body)
    server.post("/v1/embeddings", {"input": ["one text"] * 8})
    usage = server.post("/v1/chat/completions", body).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= usage["prompt_tokens"] - 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": [""]}, "input[0]"),
        ({"input": 1}, "input"),
        ({"input": ["a", 1]}, "input[1]"),
        ({"input": [[1, -1]]}, "input[0][1]"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 100000}, "dimensions"),
    ],
    ids=str,
)
def test_bad_fields(server: Server, body: dict[str, Any], field: str) -> None:
    reply = server.post("/v1/embeddings", body)
    assert reply.status == 400 and reply.error["param"] == field
