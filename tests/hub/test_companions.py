"""--draft auto and draft="auto": a small model of the target's family from the hub, or suffix decoding, and which is
said."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from tests.hub.clients import Client
from tests.hub.fake_hub import FakeHub
from tests.models.tiny_models import Block, Model, Vocabulary, block_drafter, deepened, make

from specdec_native import _core

TARGET = "hf:Qwen/Qwen2.5-Coder-7B-Instruct-GGUF"
COMPANION = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
FILE = "qwen2.5-coder-{}-instruct-q4_k_m.gguf"
CODE = """
import logging, sys, warnings, specdec_native as sd
logging.basicConfig(level=logging.INFO, format="%(message)s")
with sd.Generator(sys.argv[1], "auto", n_ctx=64) as gen:
    print(gen.generate("in the", max_tokens=4, temperature=0).text, end="")
"""


def run_auto(client: Client, target: str = TARGET, **environment: str) -> subprocess.CompletedProcess[str]:
    binary = [*client.command(target), "--draft", "auto"]
    command = [sys.executable, "-c", CODE, target] if client.kind == "python" else binary
    result = subprocess.run(command, env=client.environment | environment, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture
def target(hub: FakeHub, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """On the hub; its passes take several times those of the tiny model."""
    content = deepened(make("llama", seed=1), 12).write(tmp_path_factory.mktemp("target") / "target.gguf").read_bytes()
    hub.add(TARGET.removeprefix("hf:"), {FILE.format("7b"): content})
    return content


def test_the_companion_is_downloaded(client: Client, hub: FakeHub, target: bytes, tiny: bytes) -> None:
    hub.add(COMPANION, {FILE.format("0.5b"): tiny})
    result = run_auto(client)
    assert f"the draft is hf:{COMPANION}:Q4_K_M" in result.stderr and len(hub.downloads()) == 2
    assert result.stdout == client.text(TARGET)


def test_a_block_drafter_before_a_model(
    client: Client, hub: FakeHub, headed: Model, tiny: bytes, tmp_path: pathlib.Path
) -> None:
    """The rows of a family are tried in order: without the drafter of this size the small model is taken."""
    target, owner = "hf:some/Qwen3-8B-GGUF", "ggml-org/Qwen3-8B-GGUF"
    hub.add(target.removeprefix("hf:"), {"Qwen3-8B-Q4_K_M.gguf": headed.write(tmp_path / "target.gguf").read_bytes()})
    hub.add("Qwen/Qwen3-0.6B-GGUF", {"Qwen3-0.6B-Q8_0.gguf": tiny})
    assert "the draft is hf:Qwen/Qwen3-0.6B-GGUF:Q8_0" in run_auto(client, target).stderr
    for path in client.cache.rglob("*0.6B*.gguf"):
        path.unlink()
    drafter = block_drafter(headed, Block(biased=True)).write(tmp_path / "drafter.gguf").read_bytes()
    hub.add(owner, {"dspark-Qwen3-8B-Q8_0.gguf": drafter})
    result = run_auto(client, target)
    assert f"the draft is hf:{owner}/dspark-Qwen3-8B-Q8_0.gguf" in result.stderr
    assert result.stdout == client.text(target)


def suffix_reason(result: subprocess.CompletedProcess[str]) -> str:
    match = re.search(r"drafts are copied from the text \(suffix decoding\): (.*)", result.stderr)
    assert match, result.stderr
    return match[1]


def test_else_suffix_drafts(client: Client, hub: FakeHub, target: bytes, tiny: bytes, tmp_path: pathlib.Path) -> None:
    name = f"hf:{COMPANION}:Q4_K_M cannot be the draft: "
    assert suffix_reason(run_auto(client)).startswith(f"{name}{COMPANION} does not exist")
    larger = deepened(make("llama", seed=1), 60).write(tmp_path / "larger.gguf").read_bytes()
    hub.add(COMPANION, {FILE.format("0.5b"): larger})
    assert re.fullmatch(
        re.escape(name)
        + r"a pass of it takes about \d\.\d\d of the target's, which would give \d\.\d\d times plain decoding",
        suffix_reason(run_auto(client)),
    )
    hub.add("some/other", {"other-7b.gguf": tiny})
    assert suffix_reason(run_auto(client, "hf:some/other")).startswith(
        "no small model of this target's family is known"
    )


def test_another_vocabulary(binary: Client, hub: FakeHub, target: bytes, tmp_path: pathlib.Path) -> None:
    other = make("llama", seed=1, vocabulary=Vocabulary(merges=["a b"])).write(tmp_path / "other.gguf").read_bytes()
    hub.add(COMPANION, {FILE.format("0.5b"): other})
    assert re.search(r"it has another vocabulary \(from token \d+ on\)$", suffix_reason(run_auto(binary)))


def test_the_bundled_pair_has_its_own(specdec: pathlib.Path) -> None:
    command = [specdec, "generate", "--draft", "auto", "-p", "import", "-n", "4", "-k", "2", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == ""
    assert '"draft_calls":0' not in result.stdout


def test_a_number_of_drafts_is_not_a_model(specdec: pathlib.Path) -> None:
    result = subprocess.run(
        [specdec, "generate", "--draft", "16", "-p", "x"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2 and "-k sets the number of drafts" in result.stderr


FAMILIES = {
    "Qwen2.5-Coder-32B-Instruct": "Qwen2.5-Coder-0.5B",
    "qwen2.5-14b-instruct-q5_k_m": "/Qwen2.5-0.5B",
    "Qwen3-30B-A3B": "Qwen3-0.6B",
    "Meta-Llama-3.1-8B-Instruct-Q4_K_M": "Llama-3.2-1B",
    "gemma-3-12b-it": "gemma-3-270m",
    "DeepSeek-R1-Distill-Qwen-32B": "DeepSeek-R1-Distill-Qwen-1.5B",
    "Qwen3-8B": "ggml-org/Qwen3-8B-GGUF/dspark-Qwen3-8B-Q8_0.gguf",
    "qwen3-14b": "Qwen3-0.6B",
    "Qwen3.6-35B-A3B-Q4_K_M": "ggml-org/Qwen3.6-35B-A3B-GGUF/dflash-",
    "gpt-oss-20b": "ggml-org/gpt-oss-20b-GGUF/eagle3-",
}


@pytest.mark.parametrize("name", [*FAMILIES, "DeepSeek-R1-Distill-Llama-8B", "gemma-2-9b-it", "phi-4", "Llama-2-7B"])
def test_families(name: str, tiny: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"{name}.gguf"
    path.write_bytes(tiny)
    companion = _core.companion_of(str(path))
    if name in FAMILIES:
        assert companion is not None and FAMILIES[name] in companion
    else:
        assert companion is None
