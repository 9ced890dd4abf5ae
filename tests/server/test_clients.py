"""Clients that others wrote, against the server with the bundled pair: `make clients-check`.

Skipped unless SPECDEC_CLIENTS is the Python of an environment with requirements/clients.txt.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import numpy as np
import pytest
from tests.server.running import PROMPT, Server

import specdec_native as sd

PYTHON = os.environ.get("SPECDEC_CLIENTS", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="make clients-check runs these")
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


@pytest.fixture(scope="module")
def generator() -> sd.Generator:
    return sd.Generator(n_threads=1)


def run(*arguments: object, **environment: object) -> str:
    result = subprocess.run(
        [PYTHON, *map(str, arguments)],
        env={**os.environ, **OFFLINE, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


# lm-eval moves spaces at the end of a context into the choices.
QUESTIONS: list[dict[str, Any]] = [
    {"context": "for i in", "choices": [" range(10):", " the garden:", " class:"]},
    {"context": "import", "choices": [" os\n", " banana\n"]},
    {"context": "def __init__(self", "choices": ["):\n", "]:\n", ", name):\n"]},
    {"context": "while True:", "choices": ["\n    break", "\n    try:", " \u00e9t\u00e9"]},
    {"context": "x = {", "choices": ["}", "'a': 1}", ")"]},
]
TASK = """
task: continuations
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_choice: choices
doc_to_target: 0
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""


@pytest.mark.parametrize("batch_size", [1, 4])
def test_lm_eval(server: Server, generator: sd.Generator, tmp_path: pathlib.Path, batch_size: int) -> None:
    """A task of its own, with the log-probabilities of `echo`: exactly those of Generator.score."""
    data = tmp_path / "questions.jsonl"
    data.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    (tmp_path / "task.yaml").write_text(TASK.format(data=data))
    model = f"model=any,base_url={server.url}/v1/completions,max_length=512,max_retries=1"
    command = [
        "--model",
        "local-completions",
        "--model_args",
        model,
        "--tasks",
        "continuations",
        "--include_path",
        tmp_path,
    ]
    output = ["--output_path", tmp_path / "out", "--log_samples", "--batch_size", batch_size]
    run("-m", "lm_eval", "run", *command, *output, HF_HOME=tmp_path / "cache", OPENAI_API_KEY="none")

    [samples] = (tmp_path / "out").rglob("samples_continuations_*.jsonl")
    found = {}
    for line in samples.read_text().splitlines():
        sample = json.loads(line)
        found[sample["doc"]["context"]] = [tuple(response[0]) for response in sample["resps"]]
    num_right = 0
    for question in QUESTIONS:
        context = generator.tokenize(question["context"])[1:]  # lm-eval has no BOS token there
        length = len(context)
        expected = []
        for choice in question["choices"]:
            tokens = context + generator.tokenize(question["context"] + choice)[1 + length :]
            score = generator.score(tokens, top_logprobs=1)
            logprobs = [logprob or 0.0 for logprob in score.logprobs[length:]]
            best = [top[0][1] for top in score.top_logprobs[length:]]
            expected.append((sum(logprobs), logprobs == best))
        assert [(float(total), str(is_greedy) == "True") for total, is_greedy in found[question["context"]]] == expected
        num_right += max(expected)[0] == expected[0][0]
    [results] = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(results.read_text())["results"]["continuations"]["acc,none"] == num_right / len(QUESTIONS)


def test_llm(server: Server, generator: sd.Generator, tmp_path: pathlib.Path) -> None:
    """Simon Willison's `llm`, with its plugin for servers that speak OpenAI's API."""
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: here\n  model_name: any\n  api_base: {server.url}/v1\n"
    )
    expected = generator.generate(PROMPT, max_tokens=12, seed=5, temperature=0.7).text
    options = ["-o", "seed", 5, "-o", "max_tokens", 12, "-o", "temperature", 0.7]
    for stream in ([], ["--no-stream"]):
        environment = {"LLM_USER_PATH": tmp_path, "OPENAI_API_KEY": "none"}
        assert run("-m", "llm", "prompt", "-m", "here", *options, *stream, PROMPT, **environment) == expected + "\n"


def run_client(name: str, server: Server) -> Any:
    script = pathlib.Path(__file__).parent / "clients" / name
    return json.loads(run(script, server.url, PROMPT).splitlines()[-1])


def test_langchain(server: Server, generator: sd.Generator) -> None:
    answer = run_client("langchain_client.py", server)
    expected = generator.generate(PROMPT, max_tokens=16, seed=5, temperature=0.8).text
    assert [answer["text"], answer["streamed"], answer["with tools"], *answer["batch"]] == [expected] * 6
    assert answer["tokens"] == 16
    assert answer["structured"]["name"] in ("a", "b") and 0 <= answer["structured"]["count"] <= 9
    assert answer["response"] == generator.generate(PROMPT, max_tokens=16, temperature=0).text


def test_langchain_anthropic(server: Server) -> None:
    answer = run_client("langchain_anthropic_client.py", server)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
    chat = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 16, "temperature": 0}).json
    assert answer["text"] == answer["streamed"] == chat["choices"][0]["message"]["content"]
    assert answer["tokens"] == 16 and answer["with tools"]
    counted = server.post("/v1/chat/completions/input_tokens", {"messages": messages[1:]}).json
    assert answer["counted"] == counted["input_tokens"]


def test_langchain_ollama(server: Server, generator: sd.Generator) -> None:
    answer = run_client("langchain_ollama_client.py", server)
    expected = generator.generate(PROMPT, max_tokens=16, seed=5, temperature=0.8).text
    assert [answer[name] for name in ("text", "streamed", "with tools", "generated")] == [expected] * 4
    assert answer["structured"]["name"] in ("a", "b") and 0 <= answer["structured"]["count"] <= 9
    assert (np.array(answer["rows"], np.float32) == generator.embed([PROMPT, "import os"])).all()
