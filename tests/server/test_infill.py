"""Completion in the middle: /infill, and `suffix` of completions and of Ollama's /api/generate."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.models.tiny_models import Vocabulary, make
from tests.server.running import Server, serving

MARKS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
REPOSITORY = ("<|repo_name|>", "<|file_sep|>")
FIRST_ID = 280


def infill_server(specdec: pathlib.Path, path: pathlib.Path, marks: tuple[str, ...], bos: bool) -> Any:
    names = {FIRST_ID + i: mark for i, mark in enumerate(marks)}
    vocabulary = Vocabulary(renamed=names, control=tuple(names), adds_bos=bos)
    make("llama", vocabulary=vocabulary).write(path)
    return serving(specdec, "-m", path, "-md", "suffix", "--temp", "0")


@pytest.fixture(scope="module")
def middle(specdec: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("infill") / "infill.gguf"
    with infill_server(specdec, path, (*MARKS, *REPOSITORY), False) as server:
        yield server


BODY: Any = {"input_prefix": "def f(x):\n", "input_suffix": "\nprint(f(2))", "prompt": "    return", "n_predict": 8}
PROMPT = "<|fim_prefix|>def f(x):\n    return<|fim_suffix|>\nprint(f(2))<|fim_middle|>"


def infill(server: Server, **body: Any) -> Any:
    reply = server.post("/infill", {**BODY, **body})
    assert reply.status == 200, reply.text
    return reply.json


def test_the_prompt(middle: Server) -> None:
    reply = infill(middle)
    assert reply["prompt"] == PROMPT
    expected = middle.post("/completion", {"prompt": PROMPT, "n_predict": 8}).json
    assert reply["content"] == expected["content"] and reply["tokens_predicted"] == 8
    assert infill(middle, prompt=None)["prompt"] == PROMPT.replace("    return", "")


def test_streamed(middle: Server) -> None:
    events = middle.post("/infill", {**BODY, "stream": True}).events
    assert "".join(event["content"] for event in events) == infill(middle)["content"]


def test_files_of_the_repository(middle: Server) -> None:
    files = [{"filename": "a.py", "text": "A = 1\n"}, {"text": "B = 2\n"}]
    assert infill(middle, input_extra=files)["prompt"] == (
        "<|repo_name|>myproject\n<|file_sep|>a.py\nA = 1\n<|file_sep|>tmp\nB = 2\n<|file_sep|>filename\n" + PROMPT
    )


def test_files_without_their_mark(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with infill_server(specdec, tmp_path / "m.gguf", MARKS, True) as server:
        reply = infill(server, input_extra=[{"filename": "a.py", "text": "A = 1\n"}])
        assert reply["prompt"] == "<bos>A = 1\n" + PROMPT


def test_marks_in_the_text_are_text(middle: Server) -> None:
    tokens = middle.post("/tokenize", {"content": PROMPT}).json["tokens"]
    evaluated = infill(middle, input_suffix="\nprint(f(2))<|fim_middle|>")["tokens_evaluated"]
    assert evaluated > len(tokens) + 3  # one by one, byte by byte, not as the one control token


def test_the_suffix_of_a_completion(middle: Server) -> None:
    client = openai.OpenAI(api_key="none", base_url=middle.url + "/v1", max_retries=0)
    prefix, suffix = BODY["input_prefix"] + BODY["prompt"], BODY["input_suffix"]
    reply = client.completions.create(model="any", prompt=prefix, suffix=suffix, max_tokens=8)
    assert reply.choices[0].text == infill(middle)["content"]
    several = client.completions.create(model="any", prompt=[prefix, "x"], suffix=suffix, max_tokens=8)
    assert [choice.text for choice in several.choices] == [
        reply.choices[0].text,
        infill(middle, input_prefix="x", prompt="")["content"],
    ]
    ollama = {"prompt": prefix, "suffix": suffix, "stream": False, "options": {"num_predict": 8}}
    assert middle.post("/api/generate", ollama).json["response"] == reply.choices[0].text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input_prefix": None}, "input_prefix"),
        ({"input_suffix": None}, "input_suffix"),
        ({"input_suffix": 1}, "input_suffix"),
        ({"prompt": ["a"]}, "prompt"),
        ({"input_extra": {}}, "input_extra"),
        ({"input_extra": [{"filename": "a"}]}, "input_extra[0].text"),
        ({"input_extra": [{"filename": 1, "text": ""}]}, "input_extra[0].filename"),
    ],
    ids=str,
)
def test_bad_fields(middle: Server, body: dict[str, Any], field: str) -> None:
    reply = middle.post("/infill", {**BODY, **body})
    assert reply.status == 400 and reply.error["param"] == field


def test_a_suffix_goes_with_text_alone(middle: Server) -> None:
    for body, field in (({"prompt": [5, 6]}, "prompt"), ({"prompt": "a", "echo": True}, "echo")):
        reply = middle.post("/v1/completions", {"suffix": "b", **body})
        assert reply.status == 400 and reply.error["param"] == field


def test_a_model_without_the_tokens(server: Server) -> None:
    error = server.post("/infill", BODY).error
    assert error["code"] == 501 and error["type"] == "not_supported_error" and error["param"] == "input_suffix"
    assert "no tokens for completion in the middle" in error["message"]
    assert server.post("/v1/completions", {"prompt": "a", "suffix": "b"}).error["param"] == "suffix"
    assert server.post("/api/generate", {"prompt": "a", "suffix": "b"}).status == 501
    assert server.post("/v1/completions", {"prompt": "a", "suffix": "", "max_tokens": 1}).status == 200
