"""`specdec generate` for conversations: `--prompts` with messages and in OpenAI's batch format, read as a server reads
them; `--chat -p`; labels with `--score-choices`."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest
from tests.cli.test_generate_many import read, run, write_lines
from tests.models.chain_model import ARGUMENTS, MESSAGES, PIECES, TOOLS, chain, write_chain
from tests.server.running import serving

import specdec_native as sd

ASKED: dict[str, Any] = {"messages": MESSAGES, "temperature": 0, "max_tokens": 60}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("chain") / "chain.gguf"
    write_chain(path, chain(PIECES))
    return path


def results(
    specdec: pathlib.Path, folder: pathlib.Path, lines: list[Any], *options: object, code: int = 0
) -> list[Any]:
    output = folder / "out.jsonl"
    run(specdec, write_lines(folder / "in.jsonl", lines), output, "--force", *options, code=code)
    return read(output)


def test_messages_with_tools(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines = [{**ASKED, "tools": TOOLS, "id": 7}, {**ASKED, "seed": 3}, {"prompt": "x", "max_tokens": 2}]
    called, plain, prompt = results(specdec, tmp_path, lines, "-m", model)
    assert called["id"] == 7 and called["finish_reason"] == "tool_calls" and called["text"] == "".join(PIECES)
    (call,) = called["message"]["tool_calls"]
    assert call["function"]["name"] == "weather" and json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert called["message"]["content"].strip() == "I look." and called["message"]["reasoning_content"] == "Hm."
    assert plain["seed"] == 3 and "tool_calls" not in plain["message"] and plain["message"]["role"] == "assistant"
    assert "message" not in prompt and prompt["stats"]["tokens"] == 2
    with sd.Generator(model, n_threads=1) as gen:
        assert gen.chat(MESSAGES, temperature=0.0, max_tokens=60).text == plain["text"]


def test_a_response_format(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    (result,) = results(specdec, tmp_path, [{**ASKED, "response_format": form}], "-m", model)
    assert json.loads(result["message"]["content"]) == {"a": 1}


def test_a_template_of_ones_own(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Without one, the bundled model's messages are joined as plain text, as a note says once."""
    note = "note: the model has no chat template; messages are joined as plain text"
    prompts = write_lines(tmp_path / "in.jsonl", [{**ASKED, "max_tokens": 4}] * 2)
    joined = "\n".join(message["content"] for message in MESSAGES)
    with sd.Generator(n_threads=1) as gen:
        plain, own = (gen.generate(text, max_tokens=4, temperature=0.0).text for text in (joined, "def f(x"))
    for options, text, notes in (
        ([], plain, 1),
        (["--chat-template", "{% if messages %}def f(x{% endif %}"], own, 0),
    ):
        output = tmp_path / f"{notes}.jsonl"
        assert run(specdec, prompts, output, *options).stderr.count(note) == notes
        assert [line["text"] for line in read(output)] == [text, text]


def test_answers_end_where_the_model_ends_them(
    specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """OPTIONS of the tests have -n 16: the limit of lines without one; a line may ask for more."""
    line = {"messages": MESSAGES, "temperature": 0}
    short, long = results(specdec, tmp_path, [{**line, "max_tokens": 4}, {**line, "max_tokens": 40}], "-m", model)
    assert short["stats"]["tokens"] == 4 and short["finish_reason"] == "length"
    assert long["finish_reason"] == "stop" and long["text"] == "".join(PIECES)
    (cut,) = results(specdec, tmp_path, [line], "-m", model, "-n", "5")
    assert cut["stats"]["tokens"] == 5
    command = [specdec, "generate", "--prompts", tmp_path / "in.jsonl", "--output", tmp_path / "o", "-m", model]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    assert read(tmp_path / "o")[0]["finish_reason"] == "stop"


def test_bad_conversations_fail_alone(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    bad: list[tuple[Any, str]] = [
        ({"messages": []}, "messages is []; it must be a list of at least one message"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 'messages[0].role is "robot"'),
        ({"messages": MESSAGES, "prompt": "x"}, 'give either "prompt" or "messages"'),
        ({"messages": MESSAGES, "temprature": 1}, "temprature is an unknown field"),
        ({"messages": MESSAGES, "temperature": "hot"}, "temperature is"),
        ({"messages": MESSAGES, "n": 2}, "n must be 1"),
        ({"messages": MESSAGES, "tool_choice": "required"}, "tool_choice requires a call, but there are no tools"),
        (MESSAGES, 'put the list into {"messages": [...]}'),
        ({"prompt": "x", "tools": TOOLS}, 'tools", which needs "messages"'),
        ({"prompt": "x", "max_token": 3}, "did you mean max_tokens?"),
        ({"custom_id": "a", "url": "/v1/chat/completion", "body": ASKED}, "did you mean /v1/chat/completions?"),
        ({"custom_id": "a", "url": "/v1/completions"}, "body must be an object"),
        ({"custom_id": "a", "url": "/v1/completions", "method": "GET", "body": {}}, 'method must be "POST"'),
        ({"custom_id": "a", "url": "/v1/completions", "body": {}, "x": 1}, 'unknown field "x"'),
    ]
    lines = [line for one, _ in bad for line in (json.dumps(one), ASKED)]
    found = results(specdec, tmp_path, lines, "-m", model, code=1)
    assert {one["text"] for one in found[1::2]} == {"".join(PIECES)}
    for i, (one, (_, message)) in enumerate(zip(found[::2], bad, strict=True)):
        assert message in one["error"] and one["error"].startswith(f"line {2 * i + 1}: "), one


def test_openais_batch_format(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each result has the reply of a server to the same body."""
    chat = {"model": "any", "messages": MESSAGES, "temperature": 0, "max_tokens": 60, "seed": 1, "stream": True}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", {**chat, "tools": TOOLS}),
        ("/v1/chat/completions", {**chat, "n": 2, "logprobs": True}),
        ("/v1/completions", {"prompt": "Hm.", "max_tokens": 5, "temperature": 0}),
        ("/v1/responses", {"input": "Hello", "max_output_tokens": 9, "temperature": 0}),
        ("/v1/embeddings", {"input": ["a", "b"]}),
        ("/v1/chat/completions", {"messages": "no"}),
    ]
    lines = [{"custom_id": f"c{i}", "method": "POST", "url": url, "body": body} for i, (url, body) in enumerate(bodies)]
    found = results(specdec, tmp_path, lines, "-m", model, code=1)
    assert [one["custom_id"] for one in found] == [f"c{i}" for i in range(len(bodies))]
    volatile = {"id", "created", "created_at", "completed_at", "timings", "model", "system_fingerprint"}

    def lasting(reply: Any) -> Any:
        if isinstance(reply, list):
            return [lasting(one) for one in reply]
        return {k: lasting(v) for k, v in reply.items() if k not in volatile} if isinstance(reply, dict) else reply

    with serving(specdec, "-m", model, "-np", "2", "-t", "2") as server:
        for one, (url, body) in zip(found, bodies, strict=True):
            reply = server.post(url, {name: value for name, value in body.items() if name != "stream"})
            response = one["response"]
            assert response["status_code"] == reply.status
            for part in ("choices", "data", "output", "object", "error"):
                mine, its = lasting(response["body"].get(part)), lasting(reply.json.get(part))
                assert json.dumps(mine) == json.dumps(its), part
            assert (one["error"] is None) == (reply.status == 200)
    assert found[-1]["error"]["message"].startswith("messages is")
    assert len(found[1]["response"]["body"]["choices"]) == 2


def test_unknown_fields_of_bodies_are_named(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    body = {"messages": MESSAGES, "max_tokens": 2, "max_token": 3}
    (tmp_path / "in.jsonl").write_text(
        "\n" + json.dumps({"custom_id": "a", "url": "/v1/chat/completions", "body": body}) + "\n"
    )
    command = [specdec, "generate", "--prompts", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl", "-m", model]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0
    assert 'note: line 2: unknown field "max_token", ignored\n' in result.stderr
    reply = json.loads((tmp_path / "out.jsonl").read_text())["response"]["body"]
    assert reply["system_fingerprint"].startswith("build 0")


def test_batches_are_resumed(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    body = {"messages": MESSAGES, "max_tokens": 20, "temperature": 1.5}
    lines: list[Any] = [{"custom_id": i, "url": "/v1/chat/completions", "body": body} for i in range(6)]
    lines += [{"messages": MESSAGES, "max_tokens": 20, "temperature": 1.5, "id": i} for i in range(6)]
    whole = results(specdec, tmp_path, lines, "-m", model)
    again = results(specdec, tmp_path, lines, "-m", model)

    def texts(found: list[Any]) -> list[Any]:
        return [one["text"] if "text" in one else one["response"]["body"]["choices"][0]["message"] for one in found]

    assert texts(whole) == texts(again)  # each has its seed


def test_one_answer(specdec: pathlib.Path, model: pathlib.Path) -> None:
    def answer(*options: object) -> str:
        command = [specdec, "generate", "-m", model, "--chat", "-p", MESSAGES[0]["content"], "--temp", "0", *options]
        return subprocess.run(
            [*map(str, command), "-t", "2", "--no-stats"], capture_output=True, text=True, check=True
        ).stdout

    assert answer().strip().startswith("I look.")  # the content: without reasoning, since this is no terminal
    lines = [json.loads(line) for line in answer("--json").splitlines()]
    assert "".join(line["text"] for line in lines[:-1]) == "".join(PIECES)
    assert lines[-1]["message"]["reasoning_content"] == "Hm." and lines[-1]["finish_reason"] == "stop"
    assert len(answer("-n", "2", "--json").splitlines()) == 3
    with sd.Generator(model, n_threads=1) as gen:
        messages = [{"role": "system", "content": "Be brief."}, *MESSAGES]
        prompt_tokens = gen.chat(messages, max_tokens=1).stats.prompt_tokens
    assert json.loads(answer("--json", "-sys", "Be brief.").splitlines()[-1])["stats"]["prompt_tokens"] == prompt_tokens


def test_labels(specdec: pathlib.Path) -> None:
    choices = ["os", "sys", "zq"]
    flags = [flag for choice in choices for flag in ("--choice", choice)]
    command = [str(specdec), "generate", "-p", "import ", "--score-choices", *flags, "-t", "2"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    with sd.Generator(n_threads=2) as gen:
        expected = gen.score_choices("import ", choices)
    for line, row, score in zip(map(json.loads, shown.splitlines()), text.splitlines(), expected, strict=True):
        assert line["choice"] == score.choice == row.split()[2]
        assert (line["tokens"], line["logprobs"]) == (score.tokens, score.logprobs)
        assert line["probability"] == pytest.approx(score.probability) == pytest.approx(float(row.split()[0]), abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-p", "x", "--score-choices"], "--score-choices needs --choice"),
        (["-p", "x", "-sys", "y"], "-sys needs --chat"),
        (["--prompts", "x", "--output", "y", "-sys", "z"], 'lines have "messages"'),
        (["--prompts", "x", "--output", "y", "--chat"], 'lines have "messages"'),
        (["-p", "x", "--choice", ""], "choice must have at least one text, and no empty one"),
    ],
)
def test_wrong_options(specdec: pathlib.Path, options: list[str], message: str) -> None:
    ended = subprocess.run([str(specdec), "generate", *options], capture_output=True, text=True, check=False)
    assert ended.returncode != 0 and message in ended.stderr
