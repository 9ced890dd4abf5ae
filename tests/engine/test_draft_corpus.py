"""A corpus that drafts are copied from: its use, and the index that is kept next to it."""

from __future__ import annotations

import pathlib
import struct
import subprocess

import pytest
from tests.models.tiny_models import Vocabulary, make

import specdec_native as sd
from specdec_native import _core
from specdec_native.train.text import sources

# The corpus holds what the model writes after this prompt, in the middle of other text.
PROMPT = "def bfs(graph, start):\n"
FILLER = "\n".join(f"value_{i} = {i * i} + offset_{i % 7}" for i in range(300))


@pytest.fixture(scope="module")
def output() -> str:
    with sd.Generator() as gen:
        return gen.generate(PROMPT, max_tokens=60, seed=4).text


@pytest.fixture
def corpus(tmp_path: pathlib.Path, output: str) -> pathlib.Path:
    path = tmp_path / "corpus.txt"
    path.write_text(f"{FILLER}\n{PROMPT}{output}\n{FILLER}")
    return path


def copies(gen: sd.Generator, output: str) -> int:
    completion = gen.generate(PROMPT, max_tokens=60, seed=4, num_draft_tokens=7, verification="invariant")
    assert completion.text == output
    return completion.stats.accepted_copies


def test_drafts_are_copied_from_the_corpus(corpus: pathlib.Path, output: str, target_path: pathlib.Path) -> None:
    with_corpus = copies(sd.Generator(target_path, "suffix", draft_corpus=corpus), output)
    assert with_corpus > 40
    assert copies(sd.Generator(target_path, "suffix"), output) < with_corpus / 2
    assert copies(sd.Generator(draft_corpus=corpus), output) > 20  # with a draft model


def test_many_sequences_share_it(corpus: pathlib.Path, output: str) -> None:
    with sd.Generator(draft_corpus=corpus, max_sequences=3) as gen:
        together = gen.generate_many(
            [{"prompt": PROMPT, "seed": 4}] * 3, max_tokens=60, num_draft_tokens=7, verification="invariant"
        )
    assert [completion.text for completion in together] == [output] * 3
    assert all(completion.stats.accepted_copies > 0 for completion in together)


def test_a_seed_repeats_its_text(corpus: pathlib.Path, target_path: pathlib.Path) -> None:
    plain = sd.Generator(target_path).generate(PROMPT, max_tokens=40, seed=3).text
    assert (
        sd.Generator(target_path, "suffix", draft_corpus=corpus).generate(PROMPT, max_tokens=40, seed=3).text == plain
    )


def test_the_index_is_kept(corpus: pathlib.Path, output: str, target_path: pathlib.Path) -> None:
    index = corpus.with_name("corpus.txt.index")
    sd.Generator(target_path, "suffix", draft_corpus=corpus)
    made = index.read_bytes(), index.stat().st_mtime_ns
    assert copies(sd.Generator(target_path, "suffix", draft_corpus=corpus), output) > 40
    assert (index.read_bytes(), index.stat().st_mtime_ns) == made
    for damaged in (made[0][:-40], made[0][:200] + b"x" + made[0][201:], b"", b"no index"):
        index.write_bytes(damaged)
        assert copies(sd.Generator(target_path, "suffix", draft_corpus=corpus), output) > 40
        assert index.read_bytes() == made[0]
    corpus.write_text("something else " * 30)
    assert copies(sd.Generator(target_path, "suffix", draft_corpus=corpus), output) < 20
    assert index.read_bytes() != made[0]
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus.txt", "corpus.txt.index"]


def kept_tokens(index: pathlib.Path) -> list[int]:
    """Those of the text: after magic, version and the key, with every field after its length."""
    content = index.read_bytes()
    (key_bytes,) = struct.unpack_from("<Q", content, 12)
    (bytes_,) = struct.unpack_from("<Q", content, 20 + key_bytes)
    return list(struct.unpack_from(f"<{bytes_ // 4}i", content, 28 + key_bytes))


def test_a_text_without_lines_is_cut_between_characters(tmp_path: pathlib.Path) -> None:
    target = make("llama", vocabulary=Vocabulary(adds_eos=True)).write(tmp_path / "target.gguf")
    text = "x" + "\u00e9" * 40_000
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(text, encoding="utf-8")
    gen = sd.Generator(target, "suffix", draft_corpus=corpus, n_ctx=64)
    tokens = kept_tokens(tmp_path / "corpus.txt.index")
    assert gen.tokenize("a")[-1] == Vocabulary().eos and not {Vocabulary().bos, Vocabulary().eos} & set(tokens)
    assert gen.detokenize(tokens) == text


def test_an_index_that_cannot_be_kept_is_said(corpus: pathlib.Path, output: str, target_path: pathlib.Path) -> None:
    corpus.with_name("corpus.txt.index").mkdir()
    with pytest.warns(RuntimeWarning, match="the index of the corpus is rebuilt at every start"):
        gen = sd.Generator(target_path, "suffix", draft_corpus=corpus)
    assert copies(gen, output) > 40


def test_token_ids(tmp_path: pathlib.Path, output: str, target_path: pathlib.Path) -> None:
    path = tmp_path / "corpus.ids"
    tokens = sd.Generator(target_path).tokenize(PROMPT + output)
    path.write_text("5 6 7\n" + " ".join(map(str, tokens)) + "\r\n9\n")
    assert copies(sd.Generator(target_path, "suffix", draft_corpus=path), output) > 40
    for bad in ("1 2 x", "1 99999999", "-3", "99999999999999999999"):
        path.write_text(bad)
        with pytest.raises(sd.Error, match="is not the id of a token of the target, 0 to"):
            sd.Generator(target_path, "suffix", draft_corpus=path)


def test_bad_input(
    corpus: pathlib.Path, tmp_path: pathlib.Path, target_path: pathlib.Path, draft_path: pathlib.Path
) -> None:
    with pytest.raises(sd.Error, match=r"missing\.txt"):
        sd.Generator(target_path, "suffix", draft_corpus=tmp_path / "missing.txt")
    for draft, suffix in ((None, True), ("ngram", True), (draft_path, False)):
        with pytest.raises(ValueError, match=r"draft_corpus is .* it must be used with"):
            sd.Generator(target_path, draft, suffix=suffix, draft_corpus=corpus)
    corpus.write_bytes(b"")
    assert sd.Generator(target_path, "suffix", draft_corpus=corpus).generate(PROMPT, max_tokens=4).text


def test_the_command_line(specdec: pathlib.Path, corpus: pathlib.Path, output: str) -> None:
    command = [specdec, "generate", "-p", PROMPT, "-n", "60", "-s", "4", "-k", "7", "--no-display-prompt"]
    command += ["--verification", "invariant"]
    result = subprocess.run([*command, "--draft-corpus", corpus], capture_output=True, text=True, check=True)
    assert result.stdout == output
    assert "copies " in result.stderr
    result = subprocess.run(
        [*command, "--no-suffix", "--draft-corpus", corpus], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2 and "--draft-corpus" in result.stderr


def test_a_folder(
    corpus: pathlib.Path,
    output: str,
    target_path: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is text in it is what specdec-train reads; the index lies in it and follows its files."""
    folder = tmp_path / "sources"
    (folder / "inner" / ".git").mkdir(parents=True)
    corpus.rename(folder / "inner" / "text.py")
    (folder / "binary.o").write_bytes(b"\0" + PROMPT.encode())
    (folder / "latin.txt").write_bytes(b"caf\xe9 " * 50)
    (folder / "inner" / ".git" / "hidden.py").write_text("x = 1\n" * 99)
    (folder / "link.py").symlink_to(folder / "inner" / "text.py")
    (folder / "a.md").write_text("# Title\n")
    assert [pathlib.Path(path).name for path in _core.files_below(folder)] == [
        "a.md",
        "binary.o",
        "text.py",
        "latin.txt",
    ]
    assert [source.content for source in sources([folder], [])] == [
        pathlib.Path(path) for path in _core.files_below(folder)
    ]
    assert _core.text_of_file(folder / "binary.o") is None is _core.text_of_file(folder / "latin.txt")
    index = folder / ".specdec.index"
    monkeypatch.chdir(folder)
    for path in (folder, f"{folder}/", ".", "../sources"):
        index.unlink(missing_ok=True)
        assert copies(sd.Generator(target_path, "suffix", draft_corpus=path), output) > 40
        assert index.exists() and list(tmp_path.iterdir()) == [folder]
    before = index.stat().st_mtime_ns
    (folder / "a.md").write_text("# Another title\n")
    sd.Generator(target_path, "suffix", draft_corpus=folder)
    assert index.stat().st_mtime_ns > before
    (tmp_path / "empty").mkdir()
    with pytest.raises(sd.Error, match=r"empty: there is no text file in this folder"):
        sd.Generator(target_path, "suffix", draft_corpus=tmp_path / "empty")


def test_a_large_text_file_is_read_in_part(tmp_path: pathlib.Path) -> None:
    """Cut between two characters."""
    path = tmp_path / "large.txt"
    path.write_text("é" * (1 << 20))
    text = _core.text_of_file(path)
    assert text is not None and text == "é" * (1 << 19)
    path.write_text("x" + "é" * (1 << 20))
    text = _core.text_of_file(path)
    assert text is not None and text == "x" + "é" * ((1 << 19) - 1)
