"""A draft model that reads a window of a long text: what it costs, that texts do not depend on it, and that a seed
repeats its output whatever is cached."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sysconfig
import warnings
from typing import Any

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.engine.interruptions import check_cancelled_passes, check_stops
from tests.models.tiny_models import make

import specdec_native as sd

SOURCE = (pathlib.Path(sysconfig.get_paths()["stdlib"]) / "heapq.py").read_text(encoding="utf-8")
WINDOWS = [1, 16, 64, 100, 256]


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    with sd.Generator(n_threads=1) as gen:
        tokens = gen.tokenize(SOURCE)
    return [tokens[:count] for count in (300, 150, 60, 5)]


def generator(window: int | None, **options: Any) -> sd.Generator:
    return sd.Generator(n_threads=1, draft_window=window, **options)


@pytest.mark.parametrize("window", WINDOWS)
def test_texts_do_not_depend_on_the_window(window: int, prompts: list[list[int]]) -> None:
    plain, many = generator(None), generator(window, max_sequences=4)
    for sampling in ({"temperature": 0.0}, {"temperature": 0.9, "seed": 3}):
        options: dict[str, Any] = {"max_tokens": 90, **sampling}
        expected = [plain.generate(prompt, num_draft_tokens=0, **options).tokens for prompt in prompts]
        for k in (1, 4, "auto"):
            requests: list[Any] = [{"prompt": prompt, "num_draft_tokens": k, **options} for prompt in prompts]
            completions = list(many.generate_many(requests))
            assert [completion.tokens for completion in completions] == expected
            if k == 4 and window > 16:
                assert all(0 < completion.stats.accepted < completion.stats.drafted for completion in completions)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("verification", ["token", "block"])
def test_a_seed_repeats_its_output_whatever_is_cached(
    window: int, verification: Any, prompts: list[list[int]], tmp_path: pathlib.Path
) -> None:
    """The prompt was not read before, another request had its beginning, it comes from a file, others run beside it."""
    options: sd.StreamOptions = {"seed": 5, "verification": verification, "num_draft_tokens": 3, "max_tokens": 100}
    prompt = prompts[0]
    with generator(window) as fresh:
        expected = fresh.generate(prompt, **options)
        again = fresh.generate(prompt, **options)
        assert again.tokens == expected.tokens and again.stats.prompt_cached_tokens > 200
        assert again.stats.drafted == expected.stats.drafted > 20
        fresh.save_prefix(tmp_path / "prefix")
    for before in (290, 120, 40):
        with generator(window) as used:
            used.generate(prompt[:before], **{**options, "seed": 8})
            assert used.generate(prompt, **options).tokens == expected.tokens
    with generator(window) as loaded:
        assert loaded.load_prefix(tmp_path / "prefix") > 300
        completion = loaded.generate(prompt, **options)
        assert completion.tokens == expected.tokens and completion.stats.prompt_cached_tokens > 200
    with generator(window, max_sequences=3) as many:
        handles = [many.submit(text, **options) for text in (prompts[1], prompt, prompts[2])]
        assert handles[1].result().tokens == expected.tokens


def test_the_window_matters_where_drafts_decide(prompts: list[list[int]]) -> None:
    """Otherwise the tests above would show nothing."""
    options: sd.StreamOptions = {"seed": 5, "verification": "block", "num_draft_tokens": 3, "max_tokens": 100}
    assert len({tuple(generator(window).generate(prompts[0], **options).tokens) for window in WINDOWS}) > 1


def test_the_draft_does_not_delay_the_first_token(prompts: list[list[int]]) -> None:
    with generator(64) as gen:
        gen.prefill(prompts[0])
        assert gen.stats.draft_tokens_read == gen.stats.draft_calls == 0
        assert gen.draft_window == 64
        completion = gen.generate(prompts[1], max_tokens=2, num_draft_tokens=4)
        assert completion.stats.draft_tokens_read == 0
        completion = gen.generate(prompts[1], max_tokens=40, num_draft_tokens=4, seed=1)
        assert 48 <= completion.stats.draft_tokens_read <= 64 + completion.stats.drafted + completion.stats.tokens
    assert sd.Generator(draft="suffix").draft_window == 0


def test_stops_and_cancellations(prompts: list[list[int]]) -> None:
    with generator(16) as gen:
        options: sd.StreamOptions = {"max_tokens": 60, "num_draft_tokens": 3}
        prompt = gen.detokenize(prompts[2])
        expected = gen.generate(prompt, temperature=0, **{**options, "num_draft_tokens": 0}).tokens
        assert len(expected) == 60
        check_stops(gen, prompt, expected, 30, options)
        check_cancelled_passes(gen, prompts[2], expected, options)


@pytest.mark.parametrize("name", ["mamba2", "qwen35", "lfm2", "gemma3", "llama"])
@pytest.mark.parametrize("window", [8, 32])
def test_kinds_of_drafts(name: str, window: int, tmp_path: pathlib.Path) -> None:
    """With recurrent layers alone, with both kinds, with sliding windows of their own, with attention."""
    model = make(name)
    target = model.write(tmp_path / "target.gguf", GgmlType.F16)
    draft = model.near(0.1).write(tmp_path / "draft.gguf", GgmlType.F16)
    prompt = [1 + 7 * i % 90 for i in range(150)]
    plain = sd.Generator(target, num_draft_tokens=0, n_threads=1, n_ctx=256)
    expected = plain.generate(prompt, temperature=0, max_tokens=60).tokens
    gen = sd.Generator(target, draft, suffix=False, n_threads=1, n_ctx=256, draft_window=window)
    for k in (3, "auto"):
        assert gen.generate(prompt, temperature=0, max_tokens=60, num_draft_tokens=k).tokens == expected
    assert gen.generate(prompt, temperature=0, max_tokens=60, num_draft_tokens=3).stats.drafted > 30
    options: sd.StreamOptions = {"seed": 2, "verification": "block", "num_draft_tokens": 3, "max_tokens": 60}
    text = gen.generate(prompt, **options).tokens
    fresh = sd.Generator(target, draft, suffix=False, n_threads=1, n_ctx=256, draft_window=window)
    assert fresh.generate(prompt, **options).tokens == text == gen.generate(prompt, **options).tokens


@pytest.mark.parametrize("window", [0, -1])
def test_windows_that_are_none(window: int, specdec: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=f"draft_window is {window}; it must be a whole number from 1"):
        generator(window)
    result = subprocess.run(
        [specdec, "generate", "-p", "x", "--draft-window", str(window)], capture_output=True, text=True
    )
    assert result.returncode == 2 and "--draft-window: expected a whole number from 1" in result.stderr


def test_a_window_longer_than_the_drafts_context(specdec: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="draft_window is 513; it must be at most 512, the context that the draft"):
        generator(513)
    result = subprocess.run([specdec, "generate", "-p", "x", "--draft-window", "513"], capture_output=True, text=True)
    assert result.returncode == 2 and "--draft-window is 513; it must be at most 512" in result.stderr


def test_the_program_says_the_window(specdec: pathlib.Path) -> None:
    command = [specdec, "generate", "-t", "1", "--draft-window", "64", "-k", "3", "-n", "20", "-p", SOURCE[:500]]
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    end = json.loads(result.stdout.splitlines()[-1])
    assert end["draft_window"] == 64 and end["stats"]["draft_tokens_read"] >= 48
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "window   the draft model reads the last 64 tokens: " in result.stderr


def test_progress_of_a_prompt(prompts: list[list[int]]) -> None:
    seen: list[tuple[int, int]] = []
    gen = generator(None, n_batch=64)
    assert gen.prefill(prompts[0], progress=lambda read, total: seen.append((read, total))) == 300
    assert seen[-1] == (300, 300) and all(total == 300 for _, total in seen)
    assert [read for read, _ in seen] == sorted(read for read, _ in seen)

    class Stop(Exception):
        pass

    def stop(read: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        gen.prefill([token + 1 for token in prompts[0]], progress=stop)
    handle = gen.submit(prompts[1], max_tokens=3)
    handle.result()
    assert handle.prompt_progress[1] == 150


def test_the_longest_context_that_fits() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert sd.Generator(n_ctx=0).n_ctx == 512
    assert any("the context is 512 tokens long: all that" in str(warning.message) for warning in seen)
