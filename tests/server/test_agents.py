"""Command-line agents that others wrote, against the server: `make clients-check`.

Each is given a task, calls a tool or writes an edit as the model says, and reads the answer that ends it. The model
always writes the same (tests/models/chain_model.py): a call, and after the tool's result a sentence.

Skipped unless SPECDEC_AGENTS is the Python of an environment with requirements/agents.txt.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.models.chain_model import END, TEMPLATE, chain, write_chain
from tests.server.running import Server, serving

PYTHON = os.environ.get("SPECDEC_AGENTS", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="make clients-check runs these")

AFTER_A_TOOL = "\t"  # what the prompt ends with
AGENT_TEMPLATE = TEMPLATE.replace(
    '{{ "<|assistant|>\\n" }}', '{{ "<|assistant|>" + ("\\t" if messages[-1].role == "tool" else "\\n") }}'
)
DONE = "All of it is done."


def pieces_of(text: str) -> list[str]:
    """In pieces that differ, of three characters or a few more."""
    pieces: list[str] = []
    while text:
        size = 3
        while text[:size] in pieces and size < len(text):
            size += 1
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@contextlib.contextmanager
def serving_agent(specdec: pathlib.Path, folder: pathlib.Path, answer: list[str]) -> Iterator[Server]:
    path = folder / "agent.gguf"
    after = [AFTER_A_TOOL, *pieces_of(DONE), END]
    write_chain(path, [*chain(answer), *((last, following, 10.0) for last, following in itertools.pairwise(after))])
    template = folder / "template.jinja"
    template.write_text(AGENT_TEMPLATE)
    options = ["-md", "suffix", "-np", 2, "--temp", 0, "-c", 65536, "--chat-template-file", template]
    with serving(specdec, "-m", path, *options) as server:
        yield server


def call_of(name: str, arguments: Any) -> list[str]:
    return ["<tool_call>", *pieces_of(json.dumps({"name": name, "arguments": arguments})), "</tool_call>"]


def run(folder: pathlib.Path, command: list[object], **environment: str) -> str:
    """In a folder and a home of its own."""
    home = folder / "home"
    home.mkdir()
    (folder / "work").mkdir()
    variables = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb", **environment}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder / "work",
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def packages() -> pathlib.Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return pathlib.Path(subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.strip())


def test_codex(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """OpenAI's agent, over /v1/responses."""
    with serving_agent(specdec, tmp_path, call_of("exec_command", {"cmd": "echo hello > made.txt"})) as server:
        provider = f'{{name="here",base_url="{server.url}/v1",env_key="KEY",wire_api="responses"}}'
        options = ["-m", "any", "-c", "model_provider=here", "-c", f"model_providers.here={provider}"]
        codex = [packages() / "codex_cli_bin" / "bin" / "codex", "exec", "--skip-git-repo-check"]
        output = run(tmp_path, [*codex, "-s", "danger-full-access", *options, "Make the file."], KEY="none")
    assert (tmp_path / "work" / "made.txt").read_text() == "hello\n" and DONE in output


def test_claude(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Anthropic's agent, over /v1/messages."""
    with serving_agent(specdec, tmp_path, call_of("Bash", {"command": "echo hello > made.txt"})) as server:
        claude = [packages() / "claude_agent_sdk" / "_bundled" / "claude", "--bare", "-p", "Make the file."]
        options = ["--model", "any", "--tools", "Bash", "--allowedTools", "Bash", "--output-format", "json"]
        output = run(
            tmp_path,
            [*claude, *options, "--system-prompt", "Be brief."],
            ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY="none",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        )
    reply = json.loads(output)
    assert reply["subtype"] == "success" and reply["num_turns"] == 2 and reply["result"] == DONE
    assert (tmp_path / "work" / "made.txt").read_text() == "hello\n"


EDIT = "made.txt\n```\nhello\n```\n"
APIS = {
    "openai": ("openai/any", {"OPENAI_API_KEY": "none"}, "OPENAI_API_BASE", "/v1"),
    "anthropic": ("anthropic/any", {"ANTHROPIC_API_KEY": "none"}, "ANTHROPIC_API_BASE", ""),
    "ollama": ("ollama_chat/any", {}, "OLLAMA_API_BASE", ""),
}


@pytest.mark.parametrize("api", APIS)
def test_aider(specdec: pathlib.Path, tmp_path: pathlib.Path, api: str) -> None:
    model, environment, variable, suffix = APIS[api]
    with serving_agent(specdec, tmp_path, pieces_of(EDIT)) as server:
        options = ["--no-git", "--yes-always", "--no-show-model-warnings", "--no-check-update", "--analytics-disable"]
        options += ["--edit-format", "whole", "--map-tokens", "0", "--no-pretty", "--no-auto-lint"]
        environment = {**environment, variable: server.url + suffix, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        command = [PYTHON, "-m", "aider", "--model", model, *options, "--message", "Make made.txt."]
        run(tmp_path, [*command, "made.txt"], **environment)
    assert (tmp_path / "work" / "made.txt").read_text() == "hello\n"
