"""Drafts of the target's own head (multi-token prediction layers): exact, rolled back, and refused with a reason."""

from __future__ import annotations

import math
import pathlib
from dataclasses import replace

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.engine.interruptions import check_cancelled_passes, check_stops
from tests.engine.priming import check_primed
from tests.models.tiny_models import WITH_HEADS, Model, Shape, make, random_tokens, with_head

import specdec_native as sd

ROOT = pathlib.Path(__file__).parents[2]
PROMPT = "def the self return"
OPTIONS: sd.StreamOptions = {"max_tokens": 48, "logit_bias": {1: -math.inf}}  # texts of full length


SEVERAL_LAYERS = {"mimo2+2": 2, "step35+3": 3}


def model_of(name: str) -> Model:
    return with_head(name.split("+")[0], layers=SEVERAL_LAYERS.get(name, 1))


@pytest.fixture(scope="module", params=[*WITH_HEADS, *SEVERAL_LAYERS])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return model_of(request.param).write(tmp_path_factory.mktemp(request.param) / "target.gguf", GgmlType.F16)


@pytest.fixture(scope="module")
def qwen35(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return with_head("qwen35").write(tmp_path_factory.mktemp("one") / "target.gguf", GgmlType.F16)


def generator(target: pathlib.Path, draft: pathlib.Path | str | None = "mtp", **options: int) -> sd.Generator:
    return sd.Generator(target, draft, n_threads=1, n_ctx=512, **options)


def plain(target: pathlib.Path) -> sd.Generator:
    return generator(target, None, num_draft_tokens=0)


@pytest.mark.parametrize("num_draft_tokens", [1, 5, "auto"])
def test_greedy_text_is_that_of_plain_decoding(target: pathlib.Path, num_draft_tokens: int) -> None:
    expected = plain(target).generate(PROMPT, temperature=0, **OPTIONS)
    assert len(expected.tokens) == 48 and len(set(expected.tokens)) > 10 and expected.stats.drafted == 0
    for suffix in (False, True):
        gen = generator(target, suffix=suffix, num_draft_tokens=num_draft_tokens)
        completion = gen.generate(PROMPT, temperature=0, **OPTIONS)
        assert completion.tokens == expected.tokens
        if num_draft_tokens != "auto":
            assert 0 < completion.stats.accepted < completion.stats.drafted
            assert suffix or completion.stats.drafted_copies == 0
        again = gen.generate(completion.text, temperature=0, **OPTIONS)  # copies, if suffix
        assert again.tokens == plain(target).generate(completion.text, temperature=0, **OPTIONS).tokens


def test_a_head_is_the_default_draft(target: pathlib.Path) -> None:
    for draft in (None, "auto"):
        completion = generator(target, draft, num_draft_tokens=3).generate(PROMPT, temperature=0, **OPTIONS)
        assert completion.stats.accepted > 0
    assert generator(target, None, num_draft_tokens=0).generate(PROMPT, temperature=0, **OPTIONS).stats.drafted == 0
    assert generator(target, "none").generate(PROMPT, temperature=0, **OPTIONS).stats.drafted == 0


def test_a_seed_gives_the_same_text_with_and_without_the_head(target: pathlib.Path) -> None:
    for seed in range(3):
        options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": seed}
        expected = plain(target).generate(PROMPT, **options).tokens
        for k in (2, 11, "auto"):
            assert generator(target).generate(PROMPT, num_draft_tokens=k, **options).tokens == expected


@pytest.mark.parametrize("verification", ["block", "token"])
def test_a_seed_repeats_its_text(target: pathlib.Path, verification: sd.Verification) -> None:
    """Whatever the caches hold from before: the head's rows are those of the text alone."""
    gen = generator(target, num_draft_tokens=3)
    options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": 7, "verification": verification}
    expected = gen.generate(PROMPT, **options)
    assert 0 < expected.stats.accepted < expected.stats.drafted
    assert gen.generate(PROMPT, **options).tokens == expected.tokens
    gen.generate("def the self", num_draft_tokens=0, **options)
    assert gen.generate(PROMPT, **options).tokens == expected.tokens
    assert generator(target, num_draft_tokens=3).generate(PROMPT, **options).tokens == expected.tokens


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_several_requests_together(target: pathlib.Path, count: int) -> None:
    prompts = ["def the", "self return x", "def", "the the the self", PROMPT]
    expected = [plain(target).generate(prompt, temperature=0, **OPTIONS).tokens for prompt in prompts]
    for k in (3, "auto"):
        together = generator(target, max_sequences=count, num_draft_tokens=k)
        for _ in range(2):  # the second time with reused prefixes
            completions = together.generate_many(prompts, temperature=0, **OPTIONS)
            assert [completion.tokens for completion in completions] == expected
    fixed = generator(target, max_sequences=count, num_draft_tokens=3).generate_many(prompts, temperature=0, **OPTIONS)
    assert sum(completion.stats.accepted for completion in fixed) > 0


def test_a_text_may_be_stopped_after_any_token(target: pathlib.Path) -> None:
    expected = plain(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    check_stops(generator(target, num_draft_tokens=4), PROMPT, expected, 15, OPTIONS)


def test_cancelled_passes(target: pathlib.Path) -> None:
    prompt = random_tokens(make("llama"), 200)
    expected = plain(target).generate(prompt, temperature=0, **OPTIONS).tokens
    check_cancelled_passes(generator(target, num_draft_tokens=4), prompt, expected, OPTIONS)


def test_long_prompts_and_full_contexts(target: pathlib.Path) -> None:
    prompt = random_tokens(make("llama"), 470)
    options: sd.StreamOptions = {**OPTIONS, "max_tokens": 200}
    expected = plain(target).generate(prompt, temperature=0, **options)
    for k in (4, "auto"):
        completion = sd.Generator(target, "mtp", n_threads=1, n_ctx=512, n_batch=64, num_draft_tokens=k).generate(
            prompt, temperature=0, **options
        )
        assert completion.tokens == expected.tokens and completion.finish_reason == expected.finish_reason


def test_a_head_is_primed_over_the_whole_prompt(target: pathlib.Path, tmp_path: pathlib.Path) -> None:
    check_primed(target, "mtp", tmp_path)


def test_prompts_on_disk(target: pathlib.Path, tmp_path: pathlib.Path) -> None:
    gen = generator(target, num_draft_tokens=4)
    expected = gen.generate(PROMPT, temperature=0, **{**OPTIONS, "max_tokens": 30}).tokens  # inside the sliding window
    num_tokens = gen.save_prefix(tmp_path / "prefix")
    longer = gen.tokenize(PROMPT) + expected
    texts = plain(target).generate(longer, temperature=0, **OPTIONS).tokens
    without_prefix = generator(target, num_draft_tokens=4).generate(longer, temperature=0, **OPTIONS)
    again = generator(target, num_draft_tokens=4)
    assert again.load_prefix(tmp_path / "prefix") == num_tokens
    more = again.generate(longer, temperature=0, **OPTIONS)
    assert more.stats.prompt_cached_tokens == num_tokens
    assert more.tokens == without_prefix.tokens == texts
    assert more.stats.accepted == without_prefix.stats.accepted  # the head knows the rows of the part on disk
    without_head = generator(target, "suffix")
    assert without_head.load_prefix(tmp_path / "prefix") == num_tokens
    assert without_head.generate(longer, temperature=0, **{**OPTIONS, "max_tokens": 6}).tokens == texts[:6]
    without_head.save_prefix(tmp_path / "prefix")
    assert again.load_prefix(tmp_path / "prefix") > num_tokens
    assert again.generate(longer, temperature=0, **OPTIONS).tokens == texts


# ---- Files whose head cannot be used


def test_a_file_without_a_head(tmp_path: pathlib.Path) -> None:
    path = make("qwen3").write(tmp_path / "target.gguf")
    with pytest.raises(sd.ModelError, match=r"target.gguf: the file has no drafting head .*Use another draft, or none"):
        generator(path)
    assert generator(path, None).generate(PROMPT, max_tokens=3).stats.drafted == 0


@pytest.mark.parametrize("missing", ["nextn.eh_proj.weight", "nextn.hnorm.weight", "attn_k.weight", "ffn_down.weight"])
def test_a_head_that_is_not_whole(missing: str, tmp_path: pathlib.Path) -> None:
    """Without most of these tensors llama.cpp does not load the file at all."""
    model = with_head("qwen35")
    tensors = {name: tensor for name, tensor in model.tensors.items() if name != f"blk.2.{missing}"}
    path = replace(model, tensors=tensors).write(tmp_path / "target.gguf")
    for draft in ("mtp", None) if missing != "attn_k.weight" else ("mtp",):
        with pytest.raises(sd.ModelError, match=rf"target.gguf: .*blk.2.{missing}.*multi-token prediction"):
            generator(path, draft)


@pytest.mark.parametrize("name", ["nextn.eh_proj.weight", "nextn.enorm.weight", "attn_norm.weight", "attn_q.weight"])
def test_a_head_of_another_target(name: str, tmp_path: pathlib.Path) -> None:
    """A head that was trained for a wider model."""
    model, wider = with_head("qwen35"), make("qwen35", shape=Shape(width=128, heads=8, head_layers=1))
    path = model.with_tensors({f"blk.2.{name}": wider.tensors[f"blk.2.{name}"]}).write(tmp_path / "target.gguf")
    for draft in ("mtp", None):
        with pytest.raises(sd.ModelError, match=rf"target.gguf: .*blk.2.{name}.*multi-token prediction"):
            generator(path, draft)


def test_a_head_of_another_vocabulary(tmp_path: pathlib.Path) -> None:
    model = with_head("qwen35")
    path = model.with_tensors({"blk.2.nextn.shared_head_head.weight": model.tensors["output.weight"][:200]}).write(
        tmp_path / "target.gguf"
    )
    with pytest.raises(sd.ModelError, match=r"target.gguf: .*shared_head_head.*use another draft.* again"):
        generator(path)


@pytest.mark.parametrize(("name", "missing"), [("glm4moe", "nextn.eh_proj.weight"), ("qwen35", "attn_k.weight")])
def test_an_unusable_head_is_left_out_by_default(name: str, missing: str, tmp_path: pathlib.Path) -> None:
    """Where llama.cpp loads the other layers."""
    model = with_head(name)
    expected = plain(model.write(tmp_path / "whole.gguf")).generate(PROMPT, temperature=0, **OPTIONS).tokens
    tensors = {tensor: t for tensor, t in model.tensors.items() if tensor != f"blk.2.{missing}"}
    path = replace(model, tensors=tensors).write(tmp_path / "target.gguf")
    with pytest.warns(RuntimeWarning, match="own head.*target.gguf"):
        gen = generator(path, None)
    completion = gen.generate(PROMPT, temperature=0, **OPTIONS)
    assert completion.tokens == expected and completion.stats.drafted == 0
    assert generator(path, "suffix").generate(PROMPT, temperature=0, **OPTIONS).tokens == expected


def test_heads_of_other_architectures(tmp_path: pathlib.Path) -> None:
    """Not tried: refused if asked for, otherwise not used."""
    model = make("qwen3moe")
    path = replace(model, keys={**model.keys, "nextn_predict_layers": 1}).write(tmp_path / "target.gguf")
    with pytest.raises(sd.ModelError, match="heads of architecture qwen3moe are not supported"):
        generator(path)


def test_heads_of_several_layers_are_refused(tmp_path: pathlib.Path) -> None:
    """Where llama.cpp has no graph for them."""
    path = make("qwen35", shape=Shape(layers=2, head_layers=2)).write(tmp_path / "target.gguf")
    with pytest.raises(
        sd.ModelError, match="has 2 layers; only heads of one layer are supported for architecture qwen35"
    ):
        generator(path)


def test_a_head_and_rpc_servers(qwen35: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="draft"):
        sd.Generator(qwen35, "mtp", rpc="127.0.0.1:1")


def test_a_context_that_does_not_fit(qwen35: pathlib.Path) -> None:
    with pytest.raises(sd.ModelError, match="n_ctx"):
        sd.Generator(qwen35, "mtp", n_ctx=1 << 24, max_sequences=100)
