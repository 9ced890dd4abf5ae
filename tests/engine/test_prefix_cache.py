"""Prompts on disk: the text after one that was loaded is the same, bit for bit; a damaged or foreign file is never
used."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import warnings
from typing import Any

import pytest
from tests.models.tiny_models import make

import specdec_native as sd

PROMPT = (
    "import os\n\n\ndef walk(folder):\n"
    + "    for name in os.listdir(folder):\n        print(name)\n" * 12
    + "    return"
)


def generator(target: pathlib.Path, draft: object = None, **options: Any) -> sd.Generator:
    return sd.Generator(target, draft, n_ctx=512, num_draft_tokens=3, n_threads=1, **options)  # type: ignore[arg-type]


def run(
    gen: sd.Generator, prompt: str | list[int] = PROMPT, temperature: float = 0.8
) -> list[tuple[int, float | None, bool]]:
    pieces = gen.generate(prompt, max_tokens=24, seed=5, temperature=temperature, verification="block").pieces
    return [(piece.token, piece.logprob, piece.from_draft) for piece in pieces]


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("draft", ["model", "head", "suffix", "none"])
def test_the_text_is_the_same(
    kv_type: str, draft: str, target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    head = target_path.with_name("stdlib-head-f16.gguf")
    source = {"model": draft_path, "head": head, "suffix": "suffix", "none": None}[draft]
    cache = tmp_path / "cache"
    with generator(target_path, source, kv_type=kv_type) as gen:
        expected = {temperature: run(gen, temperature=temperature) for temperature in (0.0, 0.8)}
        assert gen.prefill(PROMPT) == len(gen.tokenize(PROMPT))
        saved = gen.save_prefix(cache)
        assert saved == gen.stats.prompt_tokens - 1 == len(gen.tokenize(PROMPT)) - 1
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    for temperature, text in expected.items():
        with generator(target_path, source, kv_type=kv_type) as gen:
            assert gen.load_prefix(cache) == saved
            assert run(gen, temperature=temperature) == text
            assert gen.stats.prompt_cached_tokens == saved
            assert gen.stats.draft_calls > 0 or draft != "model"


def test_the_caches_of_both_models_are_of_the_kind(
    target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def draft_bytes(kv_type: str) -> int:
        sizes = []
        for source in (draft_path, None):
            with generator(target_path, source, kv_type=kv_type) as gen:
                run(gen)
                gen.save_prefix(tmp_path / "cache")
            sizes.append((tmp_path / "cache").stat().st_size)
        return sizes[0] - sizes[1]

    assert 0.5 < draft_bytes("q8_0") / draft_bytes("f16") < 0.6  # 8.5 of 16 bits


def test_what_followed_is_saved_too(
    target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with generator(target_path, draft_path) as gen:
        text = gen.generate(PROMPT, max_tokens=24, temperature=0).text
        longer = PROMPT + text + "\n\n\ndef "
        expected = run(gen, longer)
        gen.generate(PROMPT, max_tokens=24, temperature=0)
        count = gen.save_prefix(tmp_path / "cache")
        assert count > len(gen.tokenize(PROMPT))
    with generator(target_path, draft_path) as gen:
        assert gen.load_prefix(tmp_path / "cache") == count
        assert run(gen, longer) == expected and gen.stats.prompt_cached_tokens > len(gen.tokenize(PROMPT))


def test_another_prompt_uses_what_is_common(target_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = PROMPT[:200] + "something else"
    with generator(target_path) as gen:
        expected = run(gen, other)
        run(gen)
        gen.save_prefix(tmp_path / "cache")
    with generator(target_path) as gen:
        gen.load_prefix(tmp_path / "cache")
        assert run(gen, other) == expected and 0 < gen.stats.prompt_cached_tokens < len(gen.tokenize(other)) - 1


@pytest.mark.parametrize("architecture", ["gemma2", "gpt-oss"])
def test_sliding_windows(architecture: str, tmp_path: pathlib.Path) -> None:
    """llama.cpp saves the last window of such layers (48 tokens) and restores it elsewhere: longer texts are read
    again."""
    tiny = make(architecture, seed=3).write(tmp_path / "tiny.gguf")
    for length in (40, 150):
        prompt = [20 + i * i % 37 for i in range(length)]
        with generator(tiny) as gen:
            expected = run(gen, prompt)
        with generator(tiny) as gen:
            gen.generate(prompt, max_tokens=1)
            count = gen.save_prefix(tmp_path / "cache")
        with generator(tiny) as gen:
            if length < 48:
                assert gen.load_prefix(tmp_path / "cache") == count
            else:
                assert "lacks tokens that had left a sliding window" in load(gen, tmp_path / "cache")
            assert run(gen, prompt) == expected


def test_a_draft_of_another_kind_reads_the_prompt_itself(
    target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with generator(target_path) as gen:
        run(gen)
        gen.save_prefix(tmp_path / "cache")
    with generator(target_path, draft_path) as gen:
        expected = run(gen)
    with generator(target_path, draft_path) as gen:
        assert gen.load_prefix(tmp_path / "cache") > 0
        assert run(gen) == expected


@pytest.fixture
def tiny(tmp_path: pathlib.Path) -> pathlib.Path:
    return make("llama", seed=1).write(tmp_path / "tiny.gguf")


def load(gen: sd.Generator, path: pathlib.Path) -> str:
    """The warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert gen.load_prefix(path) == 0
    assert len(caught) == 1 and issubclass(caught[0].category, RuntimeWarning)
    return str(caught[0].message)


def test_damaged_files_are_ignored(tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cache, bad = tmp_path / "cache", tmp_path / "bad"
    with sd.Generator(tiny, n_ctx=128) as gen:
        prompt = "in the self def " * 4
        expected = gen.generate(prompt, max_tokens=8, temperature=0).tokens
        gen.save_prefix(cache)
        content = cache.read_bytes()
        for at in [
            *range(0, 80),
            *range(80, len(content), len(content) // 60),
            *range(len(content) - 20, len(content)),
        ]:
            bad.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert "the whole prompt is read again" in load(gen, bad), at
        for length in [0, 5, 12, 28, 100, len(content) // 2, len(content) - 1]:
            bad.write_bytes(content[:length])
            load(gen, bad)
        bad.write_bytes(content + b"x")
        assert "is damaged" in load(gen, bad)
        bad.write_bytes(b"something else" * 100)
        assert "is not a prompt cache" in load(gen, bad)
        with pytest.raises(sd.Error, match=r"bad: is not a prompt cache, so it is not replaced"):
            gen.save_prefix(bad)
        assert bad.read_bytes() == b"something else" * 100
        for start in (b"", b"SDPR", content[:100]):
            gen.generate(prompt, max_tokens=8, temperature=0)
            bad.write_bytes(start)
            assert gen.save_prefix(bad) > 0 and gen.load_prefix(bad) > 0
        bad.write_bytes(content[:8] + b"\x63" + content[9:])
        assert "was written by another version" in load(gen, bad)
        assert gen.generate(prompt, max_tokens=8, temperature=0).tokens == expected
        assert gen.load_prefix(cache) > 0
        assert gen.generate(prompt, max_tokens=8, temperature=0).tokens == expected


def test_foreign_files_are_ignored(tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "cache"
    with sd.Generator(tiny, n_ctx=128) as gen:
        gen.generate("in the self def " * 8, max_tokens=8)
        count = gen.save_prefix(cache)
    other = make("llama", seed=2).write(tmp_path / "other.gguf")
    with sd.Generator(other, n_ctx=128) as gen:
        assert "is for another model, kind of cache, processor or layer placement" in load(gen, cache)
    with sd.Generator(tiny, n_ctx=128, max_sequences=2) as gen:
        assert "is for another model, kind of cache, processor or layer placement" in load(gen, cache)
    with sd.Generator(tiny, n_ctx=16) as gen:
        assert f"has {count} tokens, and the context 16" in load(gen, cache)


def test_errors(tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with sd.Generator(tiny, n_ctx=64) as gen:
        assert gen.load_prefix(tmp_path / "none") == 0
        with pytest.raises(sd.Error, match="there is no cached prompt to save"):
            gen.save_prefix(tmp_path / "cache")
        gen.generate("in the", max_tokens=2)
        with pytest.raises(sd.Error, match=r"there is no folder .*no; create it"):
            gen.save_prefix(tmp_path / "no" / "cache")
        with pytest.raises(sd.Error, match="is not a regular file"):
            gen.save_prefix(tmp_path)
    with pytest.raises(sd.Error, match="closed"):
        gen.load_prefix(tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf"]


def test_loading_ends_what_is_running(tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with sd.Generator(tiny, n_ctx=64) as gen:
        stream = gen.stream("in the self", max_tokens=30)
        next(stream)
        gen.save_prefix(tmp_path / "cache")
        gen.load_prefix(tmp_path / "cache")
        with pytest.raises(sd.Error, match="this stream was ended"):
            next(stream)


# ---- specdec generate --prompt-cache


def generate(specdec: pathlib.Path, cache: pathlib.Path | None, *options: str) -> tuple[list[Any], str]:
    command = [str(specdec), "generate", "-p", PROMPT, "-n", "20", "--temp", "0", "-k", "3", "--json", *options]
    if cache is not None:
        command += ["--prompt-cache", str(cache)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def test_the_command_line(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "cache"
    (*expected, _), _ = generate(specdec, None)
    (*first, end), notes = generate(specdec, cache)
    assert first == expected and end["stats"]["prompt_cached_tokens"] == 0 and notes == ""
    written = cache.stat().st_mtime_ns
    (*second, end), notes = generate(specdec, cache)
    assert (
        second == expected and end["stats"]["prompt_cached_tokens"] == end["stats"]["prompt_tokens"] - 1 and notes == ""
    )
    assert cache.stat().st_mtime_ns == written
    cache.write_bytes(cache.read_bytes()[:-100] + bytes(100))
    (*third, end), notes = generate(specdec, cache)
    assert third == expected and end["stats"]["prompt_cached_tokens"] == 0
    assert notes == f"note: the whole prompt is read again: {cache}: is damaged\n"
    (*fourth, end), _ = generate(specdec, cache)  # it was rebuilt
    assert fourth == expected and end["stats"]["prompt_cached_tokens"] > 0


def test_the_statistics_have_no_speed_for_what_was_not_read(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = [str(specdec), "generate", "-p", PROMPT, "-n", "2", "-k", "0", "--prompt-cache", str(tmp_path / "cache")]
    lines = [
        subprocess.run(command, capture_output=True, text=True, timeout=100).stderr.splitlines()[0] for _ in range(2)
    ]
    assert re.fullmatch(r"prompt   \d+ tokens \(0 of them cached\) in \d+\.\d+ s, \d+\.\d tokens/s", lines[0])
    assert re.fullmatch(r"prompt   \d+ tokens \(\d\d+ of them cached\) in \d+\.\d+ s", lines[1])


def test_a_place_that_cannot_be_written_is_a_note(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    _, notes = generate(specdec, tmp_path / "no" / "cache")
    assert notes.startswith("note: the prompt is not cached: ")
