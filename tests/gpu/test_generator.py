"""Generators on a device: greedy text and log-probabilities are the same bits for any draft, K, company and prefix."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest
from tests.models.tiny_models import Model, make

import specdec_native as sd
from specdec_native import _core

PROMPT = "the the of and to in the of and that"
TOKENS = 40


def outputs(generator: sd.Generator, prompt: str = PROMPT, **options: Any) -> tuple[list[int], bytes]:
    """Tokens, and the bits of their log-probabilities."""
    made = generator.generate(prompt, max_tokens=TOKENS, temperature=0.0, **options)
    return list(made.tokens), np.array([piece.logprob for piece in made.pieces]).tobytes()


@pytest.fixture(scope="module")
def target() -> Model:
    return make("llama", seed=1)


@pytest.fixture(scope="module")
def paths(target: Model, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    folder = tmp_path_factory.mktemp("pair")
    return target.write(folder / "target.gguf"), target.near(0.02).write(folder / "draft.gguf")


def on(device: str, target: pathlib.Path, draft: Any = None, **options: Any) -> sd.Generator:
    return sd.Generator(
        target, draft, n_gpu_layers="all", devices=device, devices_draft="none", n_threads=1, n_ctx=512, **options
    )


@pytest.fixture(scope="module")
def plain(device: str, paths: tuple[pathlib.Path, pathlib.Path]) -> tuple[list[int], bytes]:
    return outputs(on(device, paths[0], num_draft_tokens=0))


@pytest.mark.parametrize("k", [1, 3, 7, 12, "auto"])
def test_a_draft_changes_nothing(
    k: Any, device: str, paths: tuple[pathlib.Path, pathlib.Path], plain: tuple[list[int], bytes]
) -> None:
    gen = on(device, *paths, num_draft_tokens=k, auto_cache=False)
    assert outputs(gen) == plain
    assert gen._core.placement.startswith("3 of 3 layers of target.gguf run on ")


def test_copies_and_a_draft_on_the_device_change_nothing(
    device: str, paths: tuple[pathlib.Path, pathlib.Path], plain: tuple[list[int], bytes]
) -> None:
    assert outputs(on(device, paths[0], "suffix", num_draft_tokens=5)) == plain
    options: dict[str, Any] = {"n_gpu_layers": "all", "devices": device, "n_threads": 1, "n_ctx": 512}
    gen = sd.Generator(*paths, n_gpu_layers_draft="all", num_draft_tokens=4, **options)
    assert "; 3 of 3 layers of draft.gguf run on " in gen._core.placement and "a pass" not in gen._core.placement
    assert outputs(gen) == plain


def test_a_draft_runs_where_it_is_faster(
    device: str, paths: tuple[pathlib.Path, pathlib.Path], plain: tuple[list[int], bytes]
) -> None:
    """Unless its place is named."""
    gen = sd.Generator(*paths, n_gpu_layers="all", devices=device, n_threads=1, n_ctx=512, num_draft_tokens=4)
    assert outputs(gen) == plain
    found = re.search(r"draft.gguf runs? on .*a pass takes ([\d.]+) ms there, ([\d.]+) ms on ", gen._core.placement)
    assert found is not None and float(found[1]) <= float(found[2])


def test_by_default_layers_run_where_products_are_faster(paths: tuple[pathlib.Path, pathlib.Path], device: str) -> None:
    placement = sd.Generator(paths[0], n_threads=1, n_ctx=512)._core.placement
    found = re.search(r"multiplies (\S+) times as fast as the CPU(, which therefore runs all layers)?", placement)
    assert found is not None and (found[2] is None) == (float(found[1]) >= 1.25), placement
    assert sd.Generator(paths[0], n_gpu_layers=0, n_threads=1, n_ctx=512)._core.placement == ""


def test_the_bundled_pair(device: str, target_path: pathlib.Path, draft_path: pathlib.Path) -> None:
    """F16 weights, which the tiny models do not have."""
    drafted = on(device, target_path, draft_path, num_draft_tokens=4)
    found = [
        drafted.generate("def bfs(graph, start):", max_tokens=12, temperature=0.0, num_draft_tokens=k) for k in (0, 4)
    ]
    assert found[1].stats.accepted > 0
    assert found[0].tokens == found[1].tokens


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("sequences", [2, 4])
def test_other_requests_change_nothing(
    sequences: int, k: int, device: str, paths: tuple[pathlib.Path, pathlib.Path], plain: tuple[list[int], bytes]
) -> None:
    gen = on(device, *paths, num_draft_tokens=k, max_sequences=sequences)
    prompts = [PROMPT, "and that", "of of of", "to"][:sequences]
    made = gen.generate_many(prompts, max_tokens=TOKENS, temperature=0.0)
    assert list(made[0].tokens) == plain[0]
    assert np.array([piece.logprob for piece in made[0].pieces]).tobytes() == plain[1]


def test_a_reused_prefix_changes_nothing(device: str, paths: tuple[pathlib.Path, pathlib.Path]) -> None:
    """Whole pieces of 256 tokens are reused; the rest is read again."""
    long = "the of and to in that " * 22
    gen = on(device, *paths, num_draft_tokens=3)
    assert len(gen.tokenize(long)) > 300
    fresh = outputs(gen, long)
    gen.generate(long, max_tokens=9, temperature=1.0)
    again = gen.generate(long, max_tokens=1, temperature=0.0)
    assert again.stats.prompt_cached_tokens == 256
    assert outputs(gen, long) == fresh
    assert outputs(on(device, paths[0], num_draft_tokens=0), long) == fresh


def test_a_constraint(device: str, paths: tuple[pathlib.Path, pathlib.Path]) -> None:
    rule = {"regex": "[a-z ]{5,60}"}
    drafted = on(device, *paths, num_draft_tokens=5)
    assert outputs(drafted, **rule) == outputs(on(device, paths[0], num_draft_tokens=0), **rule)


def test_a_seed_repeats_its_text(device: str, paths: tuple[pathlib.Path, pathlib.Path]) -> None:
    options: dict[str, Any] = {"max_tokens": TOKENS, "temperature": 1.0, "seed": 5}
    drafted = on(device, *paths, num_draft_tokens=3).generate(PROMPT, **options)
    assert drafted.tokens == on(device, paths[0], num_draft_tokens=0).generate(PROMPT, **options).tokens


def test_a_cancelled_request(
    device: str, paths: tuple[pathlib.Path, pathlib.Path], plain: tuple[list[int], bytes]
) -> None:
    gen = on(device, *paths, num_draft_tokens=3)
    for _ in gen.stream(PROMPT, max_tokens=TOKENS, temperature=0.0):
        break
    assert outputs(gen) == plain


@pytest.mark.parametrize("name", ["qwen35", "lfm2", "mamba", "qwen2moe"])
def test_recurrent_layers_and_experts(name: str, device: str, tmp_path: pathlib.Path) -> None:
    model = make(name, seed=2)
    target, draft = model.write(tmp_path / "target.gguf"), model.near(0.05).write(tmp_path / "draft.gguf")
    expected = outputs(on(device, target, num_draft_tokens=0))
    for k in (3, 12):
        assert outputs(on(device, target, draft, num_draft_tokens=k)) == expected, k


def test_an_unknown_device(paths: tuple[pathlib.Path, pathlib.Path], device: str) -> None:
    with pytest.raises(sd.Error, match=rf"there is no device Vulkan77: there are .*{device}"):
        sd.Generator(paths[0], devices="Vulkan77")


def test_what_does_not_fit(paths: tuple[pathlib.Path, pathlib.Path], device: str) -> None:
    with pytest.raises(sd.ModelError, match="not enough memory"):
        sd.Generator(paths[0], devices=device, n_gpu_layers="all", n_ctx=1 << 24)


def test_samples_have_the_targets_law(device: str, paths: tuple[pathlib.Path, pathlib.Path]) -> None:
    """Of the first token of 300 outputs with drafts, by Pearson's chi-square; seeds make it the same every time."""
    gen = on(device, *paths, num_draft_tokens=2)
    tokens = gen.tokenize(PROMPT)
    logits = _core.evaluate(str(paths[0]), tokens, [8], devices=[device], width=8)[-1].astype(np.float64)
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    count = 300
    drawn = [
        gen.generate(tokens, max_tokens=3, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=i, verification="block")
        for i in range(count)
    ]
    assert sum(made.stats.drafted for made in drawn) > count
    order = np.argsort(-probabilities)
    bins = np.array_split(order, [1, 3, 8, 20, 60])  # the likeliest, and so on
    first = np.array([made.tokens[0] for made in drawn])
    observed = np.array([np.isin(first, part).sum() for part in bins])
    expected = count * np.array([probabilities[part].sum() for part in bins])
    assert expected.min() > 1
    assert ((observed - expected) ** 2 / expected).sum() < 20.5  # 5 degrees of freedom, 1 in 1000
