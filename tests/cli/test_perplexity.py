"""`specdec perplexity` as a command: usage, output, errors."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from tests.models.tiny_models import Vocabulary, make


def run(specdec: pathlib.Path, *arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [specdec, "perplexity", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make("llama").write(tmp_path_factory.mktemp("perplexity") / "tiny.gguf")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-f", "text"], "no model given"),
        (["MODEL"], "no text given (-f)"),
        (["MODEL", "more", "-f", "text"], 'unexpected argument "more"'),
        (["MODEL", "-f", "text", "-c", "3"], "expected a whole number from 4"),
        (["MODEL", "-f", "text", "--chunks", "0"], "expected a whole number from 1"),
        (["MODEL", "-f", "-", "-c", "64"], "a window takes 64; use a longer text or a smaller window"),
    ],
)
def test_usage(specdec: pathlib.Path, tiny: pathlib.Path, arguments: list[str], message: str) -> None:
    finished = run(specdec, *[tiny if a == "MODEL" else a for a in arguments], text="short")
    assert finished.returncode == 2 and finished.stdout == ""
    assert message in finished.stderr and "Try 'specdec perplexity --help'." in finished.stderr


def test_help(specdec: pathlib.Path) -> None:
    finished = run(specdec, "--help")
    assert finished.returncode == 0 and finished.stderr == ""
    assert all(len(line) <= 80 for line in finished.stdout.splitlines())
    for option in ("--file", "--against", "--ctx-size", "--chunks", "--threads", "--json"):
        assert option in finished.stdout


def test_the_report(specdec: pathlib.Path, tiny: pathlib.Path) -> None:
    finished = run(specdec, tiny, "-f", "-", "-c", 16, "-t", 1, "--against", tiny, text="x = 1\n" * 30)
    assert finished.returncode == 0 and finished.stderr == ""
    lines = dict(line.rsplit("  ", 1) for line in finished.stdout.splitlines())
    expected = [
        "perplexity",
        "of reference",
        "log of ratio",
        "KL divergence",
        "median",
        "99 %",
        "max",
        "same top token",
    ]
    assert [name.strip() for name in lines] == [*expected, "tokens scored"]
    assert "KL divergence     0.000000 +- 0.000000 nats per token\n" in finished.stdout
    assert "same top token    100.00 +- 0.00 %\n" in finished.stdout


def rejection(specdec: pathlib.Path, *arguments: object, text: str = "x" * 100) -> str:
    finished = run(specdec, *arguments, "-c", 16, "-t", 1, text=text)
    assert finished.returncode == 1 and finished.stdout == ""
    assert finished.stderr.startswith("specdec perplexity: ")
    return finished.stderr


def test_other_vocabularies_are_rejected(specdec: pathlib.Path, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    renamed = make("llama", vocabulary=Vocabulary(renamed={40: "QQQ"})).write(tmp_path / "renamed.gguf")
    larger = make("llama", vocabulary=Vocabulary(size=304)).write(tmp_path / "larger.gguf")
    message = rejection(specdec, tiny, "-f", "-", "--against", renamed)
    assert "do not share a vocabulary: token 40 is " in message and 'in the model and "QQQ" in the reference' in message
    assert "the model has 288 tokens, the reference 304" in rejection(specdec, tiny, "-f", "-", "--against", larger)


def test_bad_files(specdec: pathlib.Path, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cut, latin = tmp_path / "cut.gguf", tmp_path / "latin.txt"
    cut.write_bytes(tiny.read_bytes()[:-100])
    latin.write_bytes(b"caf\xe9 " * 50)
    assert "none.txt: cannot be opened" in rejection(specdec, tiny, "-f", tmp_path / "none.txt")
    assert "UTF-8" in rejection(specdec, tiny, "-f", latin)
    assert "none.gguf: no such file" in rejection(specdec, tmp_path / "none.gguf", "-f", "-")
    assert "cut.gguf" in rejection(specdec, cut, "-f", "-")
    assert "cut.gguf" in rejection(specdec, tiny, "-f", "-", "--against", cut)


def test_logits_that_are_not_numbers(specdec: pathlib.Path, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = make("llama")
    model.tensors["output.weight"][7, 0] = float("nan")
    path = model.write(tmp_path / "nan.gguf")
    assert "the evaluated model failed: the logits contain NaN" in rejection(specdec, path, "-f", "-")
    assert "the reference model failed: the logits contain NaN" in rejection(
        specdec, tiny, "-f", "-", "--against", path
    )
