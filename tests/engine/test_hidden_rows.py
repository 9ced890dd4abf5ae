"""Generator.hidden_rows, against the forward pass in numpy, and between architectures."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.numpy_llama import exact, layer_inputs
from tests.models.numpy_llama import logits as numpy_logits
from tests.models.tiny_models import Model, damped, eagle3_head, make, random_tokens

import specdec_native as sd

# llama.cpp gives the rows of the first five; those of the others are watched while a pass runs.
ARCHITECTURES = ["llama", "qwen3", "qwen35", "gpt-oss", "gemma4", "qwen2", "gemma3", "gemma2", "phi3", "qwen2moe"]


def deep(architecture: str) -> Model:
    return make(architecture, shape=replace(make(architecture).shape, layers=4))


def generator(path: pathlib.Path, **options: int) -> sd.Generator:
    return sd.Generator(path, None, n_threads=1, n_ctx=1024, **options)


def test_rows_and_log_probabilities_are_those_of_numpy(tmp_path: pathlib.Path) -> None:
    model = deep("llama")
    tokens = random_tokens(model, 700)  # two passes
    with generator(model.write(tmp_path / "m.gguf", GgmlType.F32)) as gen:
        assert gen.num_layers == 4 and gen.head_layers == (2, 2, 3)
        found = gen.hidden_rows(tokens, layers=[0, 3, 1], top_logprobs=5)
    inputs = layer_inputs(model, tokens, exact)
    assert found.layers == (0, 3, 1) and found.rows.dtype == np.float32
    assert found.rows.shape == (700, 3, model.shape.width) and found.tokens.tolist() == tokens
    for i, layer in enumerate(found.layers):
        np.testing.assert_allclose(found.rows[:, i], inputs[layer], atol=2e-2, rtol=1e-2)  # F16 caches
    rows = numpy_logits(model, tokens, exact)
    logprobs = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
    assert found.top_tokens.shape == found.top_logprobs.shape == (700, 5)
    np.testing.assert_allclose(np.sort(logprobs)[:, :-6:-1], found.top_logprobs, atol=2e-2)
    np.testing.assert_allclose(np.take_along_axis(logprobs, found.top_tokens, 1), found.top_logprobs, atol=2e-2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_family_that_heads_can_read(architecture: str, tmp_path: pathlib.Path) -> None:
    """Rows depend on the text up to their token alone, have the same bits in any pass, and change from layer to
    layer."""
    model = deep(architecture)
    tokens = random_tokens(model, 40)
    with generator(model.write(tmp_path / "m.gguf")) as gen:
        layers = [1, 2, gen.num_layers - 1]
        whole = gen.hidden_rows(tokens, layers=layers, top_logprobs=3)
        assert np.isfinite(whole.rows).all() and len({row.tobytes() for row in whole.rows.swapaxes(0, 1)}) == 3
        part = gen.hidden_rows(tokens[:17], layers=layers, top_logprobs=2)
        assert (part.rows == whole.rows[:17]).all() and (part.top_tokens == whole.top_tokens[:17, :2]).all()
        alone = gen.hidden_rows(tokens, layers=layers[1:2])
        assert (alone.rows[:, 0] == whole.rows[:, 1]).all() and alone.top_tokens.shape == (40, 0)
        score = gen.score(tokens)
        assert score.most_likely[1:] == whole.top_tokens[:-1, 0].tolist()


@pytest.mark.parametrize("architecture", ["qwen2", "gemma3"])
def test_heads_of_targets_whose_rows_are_watched(architecture: str, tmp_path: pathlib.Path) -> None:
    """Several requests, whose tokens llama.cpp reorders, draft as if each were alone."""
    target = damped(deep(architecture))
    head = eagle3_head(target)
    head = replace(head, keys={**head.keys, "target_layers": [1, 2, 3]})
    paths = target.write(tmp_path / "t.gguf", GgmlType.F16), head.write(tmp_path / "h.gguf", GgmlType.F16)
    prompts = ["def the", "self return x", "def", "the the the self", "x " * 40]
    options: sd.StreamOptions = {"max_tokens": 40, "temperature": 0, "logit_bias": {1: -float("inf")}}
    with generator(paths[0]) as gen:
        expected = [gen.generate(prompt, **options).tokens for prompt in prompts]
    with sd.Generator(*paths, n_threads=1, n_ctx=512, suffix=False, num_draft_tokens=3) as gen:
        alone = [gen.generate(prompt, **options) for prompt in prompts]
    with sd.Generator(*paths, n_threads=1, n_ctx=512, suffix=False, num_draft_tokens=3, max_sequences=3) as gen:
        together = gen.generate_many(prompts, **options)
    assert [completion.tokens for completion in alone] == expected == [completion.tokens for completion in together]
    accepted = [completion.stats.accepted for completion in alone]
    assert accepted == [completion.stats.accepted for completion in together] and sum(accepted) > 5


def test_a_text_and_its_tokens(tmp_path: pathlib.Path) -> None:
    with sd.Generator() as gen:
        text = "def bfs(graph, start):"
        rows = gen.hidden_rows(text)
        assert rows.tokens.tolist() == gen.tokenize(text) and rows.layers == gen.head_layers == (2, 4, 7)
        assert (gen.hidden_rows(gen.tokenize(text)).rows == rows.rows).all()
        completion = gen.generate(text, max_tokens=20, seed=1)
        gen.hidden_rows("import os\n" * 90)
        assert gen.generate(text, max_tokens=20, seed=1).tokens == completion.tokens


def test_bad_arguments() -> None:
    with sd.Generator(n_ctx=64) as gen:
        for layers in ([9], [-1], []):
            with pytest.raises(ValueError, match="layer"):
                gen.hidden_rows("def", layers=layers)
        with pytest.raises(ValueError, match="top_logprobs"):
            gen.hidden_rows("def", top_logprobs=-1)
        with pytest.raises(ValueError, match="token"):
            gen.hidden_rows([])
        with pytest.raises(ValueError, match="4096"):
            gen.hidden_rows([4096])
        with pytest.raises(sd.ContextFull):
            gen.hidden_rows("import os\n" * 90)
        with pytest.raises(sd.ModelError, match=r"llama.cpp does not give .* architecture llama"):
            gen.hidden_rows("def", layers=[8])
        assert gen.hidden_rows("def").rows.shape[1] == 3


@pytest.mark.parametrize("architecture", ["mamba", "rwkv7"])
def test_families_whose_layers_cannot_be_read(architecture: str, tmp_path: pathlib.Path) -> None:
    with generator(deep(architecture).write(tmp_path / "m.gguf")) as gen:
        with pytest.raises(sd.ModelError, match=r"m.gguf: llama.cpp does not give .* Use another draft"):
            gen.hidden_rows([0, 5, 6])
        assert gen.generate([5, 6], max_tokens=3, temperature=0).tokens
