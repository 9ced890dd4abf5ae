"""/v1/embeddings and Ollama's /api/embed: those of Generator.embed."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import ollama
import openai
import pytest
from tests.models.tiny_models import make_encoder
from tests.server.running import PROMPT, Server, serving

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


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make_encoder("bert").write(tmp_path_factory.mktemp("models") / "bert.gguf")


@pytest.fixture(scope="module")
def encoding(specdec: pathlib.Path, encoder: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "-m", encoder) as server:
        yield server


def test_a_model_that_makes_embeddings_only(encoding: Server, encoder: pathlib.Path) -> None:
    with sd.Generator(target=encoder, n_threads=1) as gen:
        rows = gen.embed(TEXTS)
    client = openai.OpenAI(api_key="none", base_url=encoding.url + "/v1", max_retries=0)
    assert (np.array([one.embedding for one in client.embeddings.create(model="any", input=TEXTS).data]) == rows).all()
    local = ollama.Client(encoding.url)
    assert (np.array(local.embed("any", TEXTS).embeddings, np.float32) == rows).all()
    assert local.show("any").capabilities == ["embedding"]
    assert local.embed("any", "a" * 3000, truncate=True).prompt_eval_count == 1024


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "stream": True}),
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/responses", {"input": "a"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}),
        ("/completion", {"prompt": "a"}),
        ("/api/chat", {"messages": [{"role": "user", "content": "a"}]}),
        ("/api/generate", {"prompt": "a"}),
    ],
    ids=str,
)
def test_text_of_a_model_that_makes_embeddings_only(encoding: Server, path: str, body: dict[str, Any]) -> None:
    reply = encoding.post(path, body)
    assert reply.status == 400, reply.text
    assert "is an embedding model (bert), which generates no text: ask for embeddings" in reply.text
    assert "/v1/embeddings" in reply.text
    assert encoding.get("/health").status == 200
