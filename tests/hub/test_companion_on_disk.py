"""`specdec chat FILE.gguf` without a draft: one that is on this machine is found, or text is copied, and which is
said."""

from __future__ import annotations

import pathlib
import subprocess
from dataclasses import replace

import pytest
from tests.cli.terminal import Terminal
from tests.hub.clients import Client
from tests.hub.fake_hub import FakeHub
from tests.models.tiny_models import (
    Block,
    Model,
    Shape,
    Vocabulary,
    block_drafter,
    deepened,
    eagle3_head,
    make,
    make_encoder,
    with_mask,
)
from tests.server.running import serving

COMPANION = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"


def write_target(path: pathlib.Path) -> pathlib.Path:
    return deepened(make("llama", seed=1), 12).write(path)


def notes(binary: Client, *arguments: object) -> str:
    command = [binary.specdec, *map(str, arguments), "-c", "64", "-n", "4", "--temp", "0"]
    result = subprocess.run(
        command, env=binary.environment, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_next_to_the_model(binary: Client, tiny: bytes, tmp_path: pathlib.Path) -> None:
    """Takes the cheapest one that fits; skips files that are no models, have another vocabulary or make embeddings."""
    target = write_target(tmp_path / "target.gguf")
    (tmp_path / "small.gguf").write_bytes(tiny)
    deepened(make("llama", seed=1), 4).write(tmp_path / "middle.gguf")
    deepened(make("llama", seed=1), 20).write(tmp_path / "larger.gguf")
    make("llama", seed=1, vocabulary=Vocabulary(merges=["a b"])).write(tmp_path / "other.gguf")
    (tmp_path / "broken.gguf").write_bytes(tiny[:1000])
    make_encoder("gemma-embedding", shape=Shape(width=32, ffn=32)).write(tmp_path / "encoder.gguf")
    smaller = make("llama", seed=1, shape=Shape(layers=1))
    replace(smaller, keys={**smaller.keys, "pooling_type": 3}).write(tmp_path / "embedder.gguf")
    text = notes(binary, "generate", target, "-p", "in the")
    assert "note: the draft is small.gguf, found next to the model: a pass of it takes about 0." in text
    assert "times plain decoding\n" in text and text.count("note: ") == 1


def test_heads_are_preferred(binary: Client, tiny: bytes, headed: Model, tmp_path: pathlib.Path) -> None:
    """A block drafter, then an EAGLE-3 head, then a model; those of other targets and damaged ones are passed over."""
    target = headed.write(tmp_path / "target.gguf")
    drafters = [tmp_path / "dspark-target.gguf", tmp_path / "eagle3-target.gguf", tmp_path / "small.gguf"]
    block_drafter(headed, Block(biased=True)).write(drafters[0])
    eagle3_head(headed).write(drafters[1])
    drafters[2].write_bytes(tiny)
    deeper = deepened(with_mask(make("llama", seed=1)), 40)
    block_drafter(deeper).write(tmp_path / "dflash-other.gguf")
    (tmp_path / "dflash-broken.gguf").write_bytes(drafters[0].read_bytes()[:-500])
    expected = notes(binary, "generate", target, "-p", "in the", "-k", "0", "--no-stats")
    assert "the draft is" not in expected
    for drafter in drafters:
        text = notes(binary, "generate", target, "-p", "in the")
        assert f"note: the draft is {drafter.name}, found next to the model: a pass of it takes about 0." in text
        drafter.unlink()
    assert "drafts are copied from the text" in notes(binary, "generate", target, "-p", "in the")


def test_a_head_whose_layers_are_not_shown(binary: Client, tiny: bytes, headed: Model, tmp_path: pathlib.Path) -> None:
    """llama.cpp does not give the output of a llama's last layer, which its file does not say."""
    target = headed.write(tmp_path / "target.gguf")
    drafter = block_drafter(headed)
    reads_output = replace(drafter, keys={**drafter.keys, "target_layers": [0, 6, 12]})
    reads_output.write(tmp_path / "drafter.gguf")
    (tmp_path / "small.gguf").write_bytes(tiny)
    text = notes(binary, "generate", target, "-p", "in the")
    assert "drafter.gguf: " in text and "llama.cpp does not give the rows of the layers" in text
    assert "note: the draft is small.gguf, found next to the model" in text


def test_a_head_in_the_cache_of_the_hub(binary: Client, hub: FakeHub, headed: Model, tmp_path: pathlib.Path) -> None:
    """It is listed and removed like a model."""
    content = block_drafter(headed).write(tmp_path / "drafter.gguf").read_bytes()
    hub.add("some/drafters", {"dflash-target-Q8_0.gguf": content})
    name = "some/drafters/dflash-target-Q8_0.gguf"

    def models(*arguments: str) -> str:
        command = [binary.specdec, "models", *arguments]
        return subprocess.run(
            command, env=binary.environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    models("pull", name)
    assert models("list").split()[-1] == name
    folder = tmp_path / "folder"
    folder.mkdir()
    target = headed.write(folder / "target.gguf")
    text = notes(binary, "generate", target, "-p", "in the")
    assert "the draft is dflash-target-Q8_0.gguf, found in the hub's cache: a pass of it" in text
    models("rm", name)
    assert models("list") == ""


def test_in_the_cache_of_the_hub(binary: Client, hub: FakeHub, tiny: bytes, tmp_path: pathlib.Path) -> None:
    hub.add("some/small", {"small-q4_k_m.gguf": tiny})
    subprocess.run([binary.specdec, "models", "pull", "some/small"], env=binary.environment, check=True, timeout=60)
    asked = len(hub.requests)
    folder = tmp_path / "folder"
    folder.mkdir()
    text = notes(binary, "generate", write_target(folder / "target.gguf"), "-p", "in the")
    assert "the draft is small-q4_k_m.gguf, found in the hub's cache: a pass of it" in text
    assert len(hub.requests) == asked


def test_otherwise_text_is_copied(binary: Client, hub: FakeHub, tmp_path: pathlib.Path) -> None:
    """Nothing is downloaded; the note says what would be."""
    target = write_target(tmp_path / "qwen2.5-coder-7b.gguf")
    text = notes(binary, "generate", target, "-p", "in the")
    reason = "no drafting head and no smaller model with this vocabulary is next to it or in the hub's cache"
    download = f'draft "auto" (--draft auto) downloads hf:{COMPANION}:Q4_K_M'
    assert f"note: drafts are copied from the text (suffix decoding): {reason}; {download}\n" in text
    assert hub.requests == []


def test_a_draft_that_is_named_is_used(binary: Client, tiny: bytes, tmp_path: pathlib.Path) -> None:
    target = write_target(tmp_path / "target.gguf")
    (tmp_path / "small.gguf").write_bytes(tiny)
    for draft in (["-md", tmp_path / "small.gguf"], ["-md", "ngram"], ["-k", "0"]):
        assert "the draft is" not in notes(binary, "generate", target, "-p", "in the", *draft)


@pytest.mark.parametrize("has_companion", [True, False])
@pytest.mark.parametrize("command", ["generate", "batch", "chat", "bench", "race", "serve", "models-dir"])
def test_one_rule_however_the_model_is_named(
    binary: Client, hub: FakeHub, tiny: bytes, tmp_path: pathlib.Path, command: str, has_companion: bool
) -> None:
    """`-m FILE`, `FILE`, `-m hf:NAME`, `-hf NAME` and a folder of models: the same draft, and the same sentence."""
    folder = tmp_path / "models"
    folder.mkdir()
    target = write_target(folder / "target.gguf")
    if has_companion:
        (folder / "small.gguf").write_bytes(tiny)
    hub.add("some/large", {"large-q4_k_m.gguf": target.read_bytes()})
    (tmp_path / "in.jsonl").write_text('{"prompt": "in the", "max_tokens": 2}\n')
    ways: list[list[object]] = [["-m", target], [target]]
    if not has_companion:
        ways += [["-hf", "some/large"], ["-m", "hf:some/large"]]
    options: dict[str, list[object]] = {
        "generate": ["generate", "-p", "in the", "-n", 2],
        "batch": ["generate", "--prompts", tmp_path / "in.jsonl", "--force", "--output", tmp_path / "out.jsonl"],
        "chat": ["chat", "-p", "in the", "-st", "-n", 2, "--chat-template", "chatml"],
        "bench": ["bench", "-p", "in the", "-n", 40, "-l", "0-inf", "--repeat", 1],
        "race": ["race", "-p", "in the", "-n", 40, "-l", "0-inf"],
    }
    said = set()
    if command in ("serve", "models-dir"):
        for way in ways if command == "serve" else [["--models-dir", folder]]:
            with serving(binary.specdec, *way, "-c", 128, **binary.environment) as server:
                reply = server.post("/v1/completions", {"model": "target", "prompt": "in the", "max_tokens": 2})
                assert reply.status == 200, reply.text
                said.add(draft_notes(server.stop()[1]))
    else:
        for way in ways:
            full = [binary.specdec, *options[command], *way, "-c", 128]
            result = subprocess.run(
                list(map(str, full)), env=binary.environment, capture_output=True, text=True, timeout=100, input=""
            )
            assert result.returncode == 0, result.stderr
            said.add(draft_notes(result.stderr))
    assert len(said) == 1
    found = "the draft is small.gguf, found next to the model"
    assert (found if has_companion else "drafts are copied from the text") in said.pop()


def draft_notes(text: str) -> str:
    """In one line, without the name of the model that the server puts in front."""
    lines = [line.partition("note: ")[2] for line in text.splitlines()]
    return "\n".join(line for line in lines if line.startswith(("the draft is", "drafts are copied")))


def test_chat_says_what_it_chose(binary: Client, tiny: bytes, tmp_path: pathlib.Path) -> None:
    target = write_target(tmp_path / "target.gguf")
    (tmp_path / "small.gguf").write_bytes(tiny)
    command = [binary.specdec, "chat", target, "-c", "64", "-n", "1"]
    with Terminal(command, env={"HOME": str(tmp_path)}, columns=200) as terminal:
        text = terminal.read_until(lambda text: text.endswith("> "))
        assert "found next to the model" in text and "draft    small.gguf" in text
        assert "demonstration" not in text


@pytest.mark.parametrize("command", ["bench", "race"])
def test_comparisons_take_it_too(binary: Client, tiny: bytes, tmp_path: pathlib.Path, command: str) -> None:
    target = write_target(tmp_path / "target.gguf")
    (tmp_path / "small.gguf").write_bytes(tiny)
    more = ["--repeat", "1"] if command == "bench" else []
    command_line = [binary.specdec, command, target, "-c", "128", "-n", "40", "-p", "in the", "-l", "0-inf", *more]
    result = subprocess.run(
        list(map(str, command_line)), env=binary.environment, capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 0, result.stderr
    assert "found next to the model" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.gguf"], 1, "missing.gguf: no such file"),
        (["prompt"], 2, 'unexpected argument "prompt"'),
        (["text.txt"], 2, 'unexpected argument "text.txt"'),
        (["a.gguf", "b.gguf"], 2, 'unexpected argument "b.gguf"'),
        (["a.gguf", "-m", "b.gguf"], 2, "give one model: a.gguf or b.gguf"),
    ],
)
def test_what_is_no_model(
    specdec: pathlib.Path, tmp_path: pathlib.Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "text.txt").write_text("not a model")
    command = [specdec, "generate", "-p", "x", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
