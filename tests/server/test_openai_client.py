"""The `openai` package against `specdec serve`."""

from __future__ import annotations

from typing import Any, Literal

import openai
import pydantic
import pytest
from tests.server.running import PROMPT, Server


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url=server.url + "/v1", max_retries=0)


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["stdlib-target-f16.gguf"]
    assert client.models.retrieve("stdlib-target-f16.gguf") == client.models.list().data[0]
    assert client.models.retrieve("owner/gpt") == client.models.list().data[0], "as messages may name it"


def test_chat(client: openai.OpenAI) -> None:
    options = {"model": "any", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 16, "seed": 5}
    reply = client.chat.completions.create(**options, logprobs=True)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage and reply.usage.completion_tokens == 16
    assert reply.choices[0].logprobs and len(reply.choices[0].logprobs.content) == 16
    stream = client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert (
        "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        == reply.choices[0].message.content
    )
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == 16


def test_completions(client: openai.OpenAI) -> None:
    options = {"model": "any", "prompt": PROMPT, "max_tokens": 16, "seed": 5, "temperature": 0.5, "n": 2}
    reply = client.completions.create(**options)
    texts = ["", ""]
    for chunk in client.completions.create(**options, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in reply.choices]


def test_responses(client: openai.OpenAI) -> None:
    options = {"model": "any", "input": PROMPT, "max_output_tokens": 16, "extra_body": {"seed": 5}}
    reply = client.responses.create(**options)
    assert reply.id.startswith("resp_") and reply.status == "incomplete"
    events = list(client.responses.create(**options, stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == reply.output_text


class Colours(pydantic.BaseModel):
    best: Literal["red", "blue"]
    others: list[Literal["green", "yellow"]] = pydantic.Field(max_length=2)


def test_structured_output(client: openai.OpenAI) -> None:
    """With a class of pydantic's, as OpenAI's own examples have it."""
    messages: Any = [{"role": "user", "content": PROMPT}]
    reply = client.chat.completions.parse(model="any", messages=messages, seed=5, response_format=Colours)
    parsed = reply.choices[0].message.parsed
    assert isinstance(parsed, Colours)
    with client.chat.completions.stream(model="any", messages=messages, seed=5, response_format=Colours) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.parsed == parsed
    response = client.responses.parse(model="any", input=PROMPT, text_format=Colours, extra_body={"seed": 5})
    assert response.output_parsed == parsed


def test_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="any", messages=[{"role": "user", "content": "a"}], temperature=-1)
    assert raised.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.moderations.create(model="any", input="a")
