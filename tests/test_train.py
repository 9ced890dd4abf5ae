"""specdec-train: what it reads, what it writes, and what it says about bad input. Tests that train need torch."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import gguf
import numpy as np
import pytest
from tests.models.tiny_models import make

import specdec_native as sd
from specdec_native.train import text
from specdec_native.train.command import main
from specdec_native.train.shape import FEWEST_TOKENS, Shape, shape_for, vocabulary_of
from specdec_native.train.speed import Costs, without_disturbance
from specdec_native.train.target_weights import TargetWeights

ROOT = pathlib.Path(__file__).parents[1]
TARGET = ROOT / "models" / "stdlib-target-f16.gguf"
SOURCES = pathlib.Path(json.__file__).parent
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs torch: pip install -r requirements/train.txt"
)


@pytest.fixture(scope="module")
def gen() -> sd.Generator:
    return sd.Generator(TARGET, None, n_threads=1, n_ctx=512)


# ---- Text


def test_documents_of_files_folders_and_lines(tmp_path: pathlib.Path, gen: sd.Generator) -> None:
    (tmp_path / "folder" / ".git").mkdir(parents=True)
    for name, content in {
        "a.py": "import os\n" * 20,
        "b.md": "Read me. " * 20,
        ".git/c.py": "x",
        "d.bin": "\0\1",
    }.items():
        (tmp_path / "folder" / name).write_text(content)
    (tmp_path / "lines.jsonl").write_text('"one text"\n\n{"text": "another"}\n')
    (tmp_path / "chat.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    found = list(text.sources([tmp_path / "folder", tmp_path / "lines.jsonl"], [tmp_path / "chat.jsonl"]))
    assert [source.kind for source in found] == ["code", "prose", "prose", "prose", "prose", "chat"]
    lengths = [len(text.tokens_of(gen, source)) for source in found[:5]]
    assert lengths[0] > 60 and lengths[1] > 60 and lengths[2] == 0 and 0 < lengths[3] < 10


def test_held_out_text_is_not_trained_on(tmp_path: pathlib.Path, gen: sd.Generator) -> None:
    for count in (1, 60):
        folder = tmp_path / str(count)
        folder.mkdir()
        for i in range(count):
            (folder / f"{i}.py").write_text("".join(f"x{j} = {i * j}\n" for j in range(3000 // count)))
        texts = text.read_texts(gen, list(text.sources([folder], [])), 10**6, 0)
        held_out = {part.tobytes() for part in texts.held_out["code"]}
        assert held_out and not held_out & {part.tobytes() for part in texts.training}
        assert sum(map(len, texts.held_out["code"])) < texts.num_tokens / 2
        assert all(text.SHORTEST <= len(part) <= text.LENGTH for part in texts.training)


def test_what_a_target_writes(gen: sd.Generator) -> None:
    with sd.Generator(TARGET, None, n_threads=1, n_ctx=512, max_sequences=4) as several:
        documents = text.written(several, 3, at_once=4)
        first = [next(documents).tolist() for _ in range(6)]
    assert len({str(tokens) for tokens in first}) == 6 and all(len(tokens) == text.LENGTH for tokens in first)


# ---- What a head looks like


def test_the_vocabulary_covers_the_text() -> None:
    counts = np.zeros(20000, np.int64)
    counts[[15000, 19999]] = 1000
    counts[10000:14000] = 10
    tokens = vocabulary_of(counts, [17])
    assert tokens is not None and len(tokens) == FEWEST_TOKENS and (np.diff(tokens) > 0).all()
    assert {17, 15000, 19999, 0, 1} <= set(tokens.tolist())
    assert counts[tokens].sum() >= 0.99 * counts.sum()
    assert vocabulary_of(np.ones(4096, np.int64), []) is None


def test_the_shape_follows_from_the_target() -> None:
    target = TargetWeights(TARGET)
    shape = shape_for(target, (2, 4, 7), None)
    assert (shape.width, shape.heads * shape.head_width, shape.output_size) == (256, 256, 4096)
    assert shape.heads % shape.kv_heads == 0 and shape.feed_forward >= 256
    assert replace(shape, feed_forward=768) == shape_for(target, (2, 4, 7), None, 768)


@pytest.mark.parametrize("width", ["0", "-32", "100"])
def test_an_impossible_feed_forward_is_an_error(width: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--target", str(TARGET), "--feed-forward", width, "-o", "head.gguf"])
    assert "--feed-forward must be a positive multiple of 32" in capsys.readouterr().err


def test_speed_is_predicted_by_the_best_number_of_drafts() -> None:
    costs = Costs([1.0, 1.1, 1.2, 1.3, 1.4], 0.05)
    assert costs.tokens_per_second([0.0, 0.0, 0.0, 0.0]) == costs.plain == 1.0
    assert costs.tokens_per_second([1.0, 0.0, 0.0, 0.0]) == pytest.approx(2 / 1.15)
    assert costs.tokens_per_second([1.0] * 4) == pytest.approx(5 / 1.6)
    assert without_disturbance([3.0, 1.0, 2.0, 1.5, 4.0]) == [1.0, 1.0, 1.5, 1.5, 4.0]


# ---- Bad input


def check_error(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path, message: str, *arguments: object) -> None:
    out = tmp_path / "drafter.gguf"
    words = [str(argument) for argument in arguments]
    if "-o" not in words:
        words += ["-o", str(out)]
    assert main([*(["--target", str(TARGET)] if "--target" not in words else []), "--threads", "1", *words]) == 1
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1].startswith("specdec-train") and message in lines[-1], lines
    assert not list(tmp_path.glob("drafter.gguf*"))


@needs_torch
def test_bad_input(specdec: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, content in {
        "empty.txt": b"",
        "binary.txt": b"\0\1\2",
        "short.txt": b"import os\n" * 9,
        "bad.jsonl": b"{]\n",
    }.items():
        (tmp_path / name).write_bytes(content)
    check_error(capfd, tmp_path, "there is no file or folder", "--text", tmp_path / "none")
    check_error(
        capfd, tmp_path, "too little text: 0 tokens, and at least 4096 are needed", "--text", tmp_path / "empty.txt"
    )
    check_error(capfd, tmp_path, "too little text: ", "--text", tmp_path / "short.txt")
    check_error(capfd, tmp_path, "binary.txt is a binary file", "--text", tmp_path / "binary.txt")
    check_error(capfd, tmp_path, "bad.jsonl, line 1: not JSON", "--text", tmp_path / "bad.jsonl")
    check_error(capfd, tmp_path, "bad.jsonl, line 1: not JSON", "--chat", tmp_path / "bad.jsonl")
    check_error(capfd, tmp_path, "there is no folder", "--text", SOURCES, "-o", tmp_path / "no" / "drafter.gguf")
    check_error(capfd, tmp_path, "not an EAGLE-3 head", "--text", SOURCES, "--continue", TARGET)
    mamba = make("mamba").write(tmp_path / "mamba.gguf")
    check_error(capfd, tmp_path, "llama.cpp does not give the rows", "--target", mamba, "--text", SOURCES)
    check_error(capfd, tmp_path, "none.gguf", "--target", tmp_path / "none.gguf", "--text", SOURCES)
    mxfp6 = tmp_path / "mxfp6.gguf"
    subprocess.run([specdec, "quantize", TARGET, mxfp6], check=True, stdout=subprocess.DEVNULL)
    check_error(capfd, tmp_path, "train with the file that it was made from", "--target", mxfp6, "--text", SOURCES)


def test_without_torch(tmp_path: pathlib.Path) -> None:
    """One line, with the command that helps."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no', name='torch')")
    command = [sys.executable, "-m", "specdec_native.train", "--target", TARGET, "--text", SOURCES, "-o", "d.gguf"]
    path = f"{tmp_path}:{ROOT / 'python'}"
    done = subprocess.run(command, env={"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr == 'specdec-train needs torch: pip install "specdec_native[train]"\n'
    assert not (tmp_path / "d.gguf").exists()


# ---- Training


@needs_torch
def test_a_head_that_was_trained_drafts(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Better than at its beginning, accepted now and then, and the pair writes the target's text."""
    out = tmp_path / "head.gguf"
    words = ["--target", str(TARGET), "--text", str(SOURCES), "--threads", "1"]
    assert main([*words, "--tokens", "12000", "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    losses = [float(line.split("held out ")[1].split(")")[0]) for line in lines if "accepted drafts" in line]
    assert losses[-1] < losses[0] < 6 and any("memory: " in line for line in lines)
    check_pair(out)
    first = out.read_bytes()
    assert main([*words, "--tokens", "1000", "--continue", str(out), "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(float(line.split("held out ")[1].split(")")[0]) for line in lines if "accepted drafts" in line)
    assert abs(start - losses[-1]) < 0.1  # goes on where it ended
    assert out.read_bytes() != first
    check_pair(out)


@needs_torch
def test_the_head_begins_with_the_targets_feed_forward() -> None:
    """Only where it helps: a random one is not kept."""
    import torch

    from specdec_native.train import begin, rows
    from specdec_native.train.head import Head

    torch.manual_seed(0)
    target = TargetWeights(TARGET)
    with sd.Generator(TARGET, None, n_threads=1, n_ctx=512) as gen:
        shape = shape_for(target, gen.head_layers, None)
        reader = rows.RowReader(gen, target, shape)
        texts = text.read_texts(gen, list(text.sources([SOURCES], [])), 6000, 0)
        held_out = [reader.read(part) for part in texts.held_out["code"]]
        samples = [reader.read(part) for part in texts.training[:16]]
    head = Head(shape)
    begin.begin_linear(head, samples, rows.scale_of(samples), target.output_norm())
    output = torch.from_numpy(target.output(np.arange(shape.vocabulary)))
    before = begin.start_loss(head, output, held_out)
    weights = [parameter.detach().clone() for parameter in head.parameters()]
    of_target = target.feed_forward(shape.layers[-1])
    assert of_target is not None and of_target.gate.shape == (768, 256)
    noise = np.random.default_rng(0).normal(size=of_target.down.shape).astype(np.float32)
    random = replace(of_target, down=noise)
    assert not begin.take_feed_forward(head, random, held_out, output)
    assert all(torch.equal(a, b) for a, b in zip(head.parameters(), weights, strict=True))
    assert begin.take_feed_forward(head, of_target, held_out, output)
    after = begin.start_loss(head, output, held_out)
    assert after < before - 0.3 and torch.equal(head.ffn_norm, torch.from_numpy(of_target.norm))


def test_feed_forwards_of_another_form_are_left_alone(tmp_path: pathlib.Path) -> None:
    for architecture, has_one in {"qwen3": True, "qwen35": True, "gpt-oss": False}.items():
        target = TargetWeights(make(architecture).write(tmp_path / f"{architecture}.gguf"))
        assert (target.feed_forward(1) is not None) == has_one, architecture


@needs_torch
@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "qwen35", "gemma3", "gpt-oss", "lfm2"])
def test_every_family(architecture: str, tmp_path: pathlib.Path) -> None:
    target, out = make(architecture).write(tmp_path / "target.gguf"), tmp_path / "head.gguf"
    words = ["--target", str(target), "--text", str(SOURCES / "decoder.py"), "--threads", "1", "--tokens", "1500"]
    assert main([*words, "-o", str(out)]) == 0
    options: sd.StreamOptions = {"max_tokens": 30, "temperature": 0}
    prompts = ["def the self return", "self x"]
    with sd.Generator(target, None, num_draft_tokens=0, n_threads=1, n_ctx=512) as plain:
        expected = [plain.generate(prompt, **options).tokens for prompt in prompts]
    with sd.Generator(target, out, suffix=False, num_draft_tokens=3, n_threads=1, n_ctx=512) as pair:
        completions = [pair.generate(prompt, **options) for prompt in prompts]
    assert [completion.tokens for completion in completions] == expected
    assert sum(completion.stats.drafted for completion in completions) > 0


@needs_torch
def test_without_text_the_target_writes_its_own(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, out = make("qwen3").write(tmp_path / "target.gguf"), tmp_path / "head.gguf"
    assert main(["--target", str(target), "--threads", "1", "--tokens", "1000", "-o", str(out)]) == 0
    assert "the target writes its own" in capsys.readouterr().out and out.exists()


@needs_torch
def test_ctrl_c_saves(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "head.gguf"
    command = [sys.executable, "-m", "specdec_native.train", "--target", TARGET, "--text", SOURCES, "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with subprocess.Popen(
        [*command, "--hours", "0.05", "-o", out], env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        lines = iter(running.stdout)
        while " 0 steps" in (line := next(lines)) or "accepted drafts" not in line:
            pass
        running.send_signal(signal.SIGINT)
        rest = "".join(lines)
        assert running.wait(60) == 0
    assert f"interrupted; wrote {out}" in rest and [path.name for path in tmp_path.iterdir()] == ["head.gguf"]
    with sd.Generator(TARGET, out, suffix=False, num_draft_tokens=2, n_threads=1, n_ctx=512) as pair:
        assert pair.generate("def main():", max_tokens=9, temperature=0).stats.drafted > 0


def test_a_head_is_not_lost(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An existing file is replaced only by --force, or if training goes on with it; said before anything is loaded."""
    out, other = tmp_path / "head.gguf", tmp_path / "other.gguf"
    for path in (out, other):
        path.write_text("hours of work")
    missing = ["--target", str(tmp_path / "none.gguf"), "-o", str(out)]
    for options in ([], ["--continue", str(other)]):
        assert main([*missing, *options]) == 1
        error = capfd.readouterr().err
        assert f"{out}: exists already; name another file, or use --continue {out} to train it further" in error
    for options in (["--force"], ["--continue", str(out)], ["--continue", f"{tmp_path}/./head.gguf"]):
        assert main([*missing, *options]) == 1
        error = capfd.readouterr().err
        assert "exists already" not in error and ("none.gguf" in error or "needs torch" in error)
    assert out.read_text() == other.read_text() == "hours of work"


@needs_torch
def test_a_full_disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specdec_native.train import head_file
    from specdec_native.train.head import Head

    target = TargetWeights(TARGET)
    head, out = Head(shape_for(target, (2, 4, 7), None)), tmp_path / "head.gguf"
    out.write_text("the one before")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensors_to_file", fail)
    with pytest.raises(sd.Error, match=r"cannot write .*head.gguf: No space left on device"):
        head_file.write_head(head, target, out)
    assert out.read_text() == "the one before" and len(list(tmp_path.iterdir())) == 1
    full = shutil._ntuple_diskusage(10**9, 10**9, 10**6)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(sd.Error, match=r"head.gguf needs \d+ MB, and .* has 0 MB free"):
        head_file.check_space(out, head.shape)


@needs_torch
def test_bf16_learns_as_float32_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next token is the one before plus 1, which the embedding tells."""
    import torch

    from specdec_native.train import trainer
    from specdec_native.train.head import Head
    from specdec_native.train.rows import TOP, Sample

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    embeddings, tokens = random.normal(size=(50, 64)), np.arange(100) % 50
    top = np.hstack([(tokens[:, None] + 1) % 50, np.full((100, TOP - 1), -1)]).astype(np.int32)
    probs = np.hstack([np.full((100, 1), 0.9), np.zeros((100, TOP - 1))]).astype(np.float32)
    rows = random.normal(size=(100, 192)).astype(np.float16)
    sample = Sample(rows, embeddings[tokens].astype(np.float16), top, probs, np.ones(100, bool))
    output = random.normal(size=(50, 64)).astype(np.float32)
    found = []
    for has_bf16 in (False, True):
        monkeypatch.setattr(trainer, "has_fast_bf16", lambda _, has=has_bf16: has)
        torch.manual_seed(0)
        made = trainer.Trainer(Head(Shape(64, 2, 1, 64, (0, 1, 2), None, 50, 512, 1e-5)), output, {"code": [sample]})
        for _ in range(40):
            made.train_step([sample] * trainer.BATCH, 3e-3)
        made.evaluate()
        found.append(made.state.held_out["code"])
    assert all(min(acceptance.greedy) > 0.5 for acceptance in found)
    assert abs(found[0].loss - found[1].loss) < 0.1


def check_pair(head: pathlib.Path) -> None:
    prompts = ["import json\n", "def main():", "class Decoder:\n    def "]
    options: sd.StreamOptions = {"max_tokens": 60, "temperature": 0}
    with sd.Generator(TARGET, None, num_draft_tokens=0, n_threads=1, n_ctx=512) as plain:
        expected = [plain.generate(prompt, **options).tokens for prompt in prompts]
        sampled = plain.generate(prompts[1], seed=5, max_tokens=60).tokens
    with sd.Generator(TARGET, head, suffix=False, num_draft_tokens=2, n_threads=1, n_ctx=512) as pair:
        completions = [pair.generate(prompt, **options) for prompt in prompts]
        assert [completion.tokens for completion in completions] == expected
        assert sum(completion.stats.accepted for completion in completions) > 5
        assert pair.generate(prompts[1], seed=5, max_tokens=60).tokens == sampled


@needs_torch
def test_a_head_begins_with_a_linear_prediction() -> None:
    """Where the next row is a linear function of a row and an embedding, the head's state is it."""
    import torch

    from specdec_native.train.begin import begin_linear
    from specdec_native.train.head import Head
    from specdec_native.train.rows import TOP, Sample

    torch.set_num_threads(1)
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    width, length = 64, 200
    of_row, of_embedding = random.normal(size=(width, 3 * width)) / 20, random.normal(size=(width, width)) / 8
    size = np.repeat([100.0, 1.0, 10.0], width)  # of the columns of the three rows
    vocabulary = random.normal(size=(90, width))
    samples = []
    for _ in range(20):
        tokens = random.integers(0, 90, length)
        rows = np.zeros((length, 3 * width))
        rows[0] = random.normal(size=3 * width)
        for i in range(1, length):
            rows[i] = random.normal(size=3 * width)
            rows[i, -width:] = of_row @ rows[i - 1] + of_embedding @ vocabulary[tokens[i - 1]]
        none = np.full((length, TOP), -1, np.int32)
        samples.append(
            Sample(
                (rows * size).astype(np.float16),
                vocabulary[tokens].astype(np.float16),
                none,
                np.zeros((length, TOP), np.float32),
                np.ones(length, bool),
            )
        )
    head = Head(Shape(width, 2, 2, 64, (0, 1, 2), None, 90, 512, 1e-5))
    begin_linear(head, samples[1:], (1 / size).astype(np.float32), np.ones(width, np.float32))
    rows, embeddings = (torch.from_numpy(a).float()[None] for a in (samples[0].rows, samples[0].embeddings))
    with torch.no_grad():
        state = next(head.steps(rows, embeddings, 1, 1))[0, 20:-1].numpy()
    expected = samples[0].rows[21:, -width:].astype(np.float32)
    cosines = (state * expected).sum(1) / np.linalg.norm(state, axis=1) / np.linalg.norm(expected, axis=1)
    assert np.median(cosines) > 0.9
