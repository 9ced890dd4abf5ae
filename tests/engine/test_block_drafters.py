"""Block drafters (DFlash, DSpark): exact whatever a request asks for, drafts as numpy makes them, bad files."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.engine.branching import check_trees
from tests.engine.interruptions import check_cancelled_passes, check_stops
from tests.engine.priming import check_primed
from tests.models.numpy_llama import block_drafts
from tests.models.tiny_models import Block, Model, Vocabulary, block_drafter, make, random_tokens, with_mask

import specdec_native as sd

PROMPT = "def the self return"
OPTIONS: sd.StreamOptions = {"max_tokens": 32, "logit_bias": {1: -math.inf}}  # texts of full length
KINDS = {
    "dflash": Block(),
    "dflash-windowed": Block(windowed=True),
    "dflash-sinks": Block(sinks=True, causal=True),
    "dspark": Block(biased=True, size=6),
    "dspark-masks": Block(biased=True, fills_anchor=False),
    "dspark-own": Block(biased=True, own_parts=True),
    "dflash-own": Block(own_parts=True),
    "dspark-sections": Block(biased=True, sections=True),
}
PAIRS = ["dflash:llama", "dspark:llama", "dspark-own:qwen3", "dspark-masks:gpt-oss", "dflash-windowed:llama"]
PAIRS += ["dspark-sections:qwen35", "dspark:lfm2"]
Pair = tuple[pathlib.Path, pathlib.Path]


def models(name: str) -> tuple[Model, Model]:
    kind, _, architecture = name.partition(":")
    target = with_mask(make(architecture))
    return target, block_drafter(target, KINDS[kind])


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    target, drafter = models(request.param)
    folder = tmp_path_factory.mktemp(request.param.replace(":", "-"))
    return target.write(folder / "target.gguf", GgmlType.F16), drafter.write(folder / "drafter.gguf", GgmlType.F16)


def generator(target: pathlib.Path, draft: pathlib.Path | str | None, **options: int | str) -> sd.Generator:
    return sd.Generator(target, draft, n_threads=1, n_ctx=512, **options)  # type: ignore[arg-type]


def plain(target: pathlib.Path) -> sd.Generator:
    return generator(target, None, num_draft_tokens=0)


def test_greedy_text_is_that_of_plain_decoding(pair: Pair) -> None:
    target, drafter = pair
    expected = plain(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    again = plain(target).generate(PROMPT * 2, temperature=0, **OPTIONS).tokens
    assert len(expected) == 32 and len(set(expected)) > 5
    for suffix in (False, True):
        gen = generator(target, drafter, suffix=suffix)
        for k in (1, 4, 20, "auto"):
            completion = gen.generate(PROMPT, temperature=0, num_draft_tokens=k, **OPTIONS)
            assert completion.tokens == expected
            assert gen.generate(PROMPT * 2, temperature=0, num_draft_tokens=k, **OPTIONS).tokens == again
            if k != "auto" and not suffix:
                assert 0 < completion.stats.accepted < completion.stats.drafted


def test_a_block_is_one_pass(pair: Pair) -> None:
    gen = generator(*pair, suffix=False, num_draft_tokens=4)
    stats = gen.generate(PROMPT, temperature=0, **OPTIONS).stats
    assert stats.draft_calls <= stats.target_calls < stats.drafted / 2


def test_trees(pair: Pair, request: pytest.FixtureRequest) -> None:
    """Of more nodes than the block has places, unless the target has recurrent layers."""
    target, drafter = pair
    branches = not request.node.callspec.params["pair"].endswith(("qwen35", "lfm2"))

    def branching(count: int) -> sd.Generator:
        return generator(target, drafter, draft_tree=30, suffix=False, max_sequences=count, auto_cache=False)

    with plain(target) as without:
        check_trees(without, branching, 10 if branches else None)


def test_a_seed_gives_the_same_text_with_and_without_the_drafter(pair: Pair) -> None:
    target, drafter = pair
    gen = generator(target, drafter)
    for seed in range(3):
        options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": seed}
        expected = plain(target).generate(PROMPT, **options).tokens
        for k in (2, 11, "auto"):
            assert gen.generate(PROMPT, num_draft_tokens=k, **options).tokens == expected


@pytest.mark.parametrize("verification", ["block", "token"])
def test_a_seed_repeats_its_text(pair: Pair, verification: sd.Verification) -> None:
    """Whatever the caches hold from before, and whatever shares the passes."""
    target, drafter = pair
    gen = generator(target, drafter, num_draft_tokens=3, suffix=False)
    options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": 7, "verification": verification}
    expected = gen.generate(PROMPT, **options).tokens
    gen.generate("def the self", num_draft_tokens=0, **options)
    assert gen.generate(PROMPT, **options).tokens == expected
    together = generator(target, drafter, num_draft_tokens=3, max_sequences=3, suffix=False)
    others = [together.submit(f"x {k}", num_draft_tokens=k, **options) for k in (1, 7)]
    assert together.submit(PROMPT, **options).result().tokens == expected
    assert all(len(other.result().tokens) == 32 for other in others)


def test_several_requests_together(pair: Pair) -> None:
    """Each drafts as if it were alone."""
    target, drafter = pair
    prompts = ["def the", "self return x", "def", "the the the self", PROMPT]
    expected = [plain(target).generate(prompt, temperature=0, **OPTIONS).tokens for prompt in prompts]
    alone = generator(target, drafter, suffix=False, num_draft_tokens=3)
    accepted = [alone.generate(prompt, temperature=0, **OPTIONS).stats.accepted for prompt in prompts]
    for count in (2, 4):
        together = generator(target, drafter, suffix=False, max_sequences=count, num_draft_tokens=3)
        completions = together.generate_many(prompts, temperature=0, **OPTIONS)
        assert [completion.tokens for completion in completions] == expected
        assert [completion.stats.accepted for completion in completions] == accepted and sum(accepted) > 0
        again = together.generate_many(prompts, temperature=0, **OPTIONS)  # with reused prefixes
        assert [completion.tokens for completion in again] == expected


def test_a_text_may_be_stopped_after_any_token(pair: Pair) -> None:
    target, drafter = pair
    expected = plain(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    check_stops(generator(target, drafter, num_draft_tokens=4), PROMPT, expected, 8, OPTIONS)


def test_cancelled_passes(pair: Pair) -> None:
    target, drafter = pair
    prompt = random_tokens(make("llama"), 200)
    expected = plain(target).generate(prompt, temperature=0, **OPTIONS).tokens
    check_cancelled_passes(generator(target, drafter, num_draft_tokens=4), prompt, expected, OPTIONS)


def test_long_prompts_and_full_contexts(pair: Pair) -> None:
    target, drafter = pair
    prompt = random_tokens(make("llama"), 470)
    options: sd.StreamOptions = {**OPTIONS, "max_tokens": 200}
    expected = plain(target).generate(prompt, temperature=0, **options)
    gen = generator(target, drafter, n_batch=64, num_draft_tokens=4)
    completion = gen.generate(prompt, temperature=0, **options)
    assert completion.tokens == expected.tokens and completion.finish_reason == expected.finish_reason
    for tokens in ([0], [0, *completion.tokens[:3]]):
        short = plain(target).generate(tokens, temperature=0, **OPTIONS).tokens
        assert gen.generate(tokens, temperature=0, **OPTIONS).tokens == short


@pytest.mark.parametrize("name", ["dflash:llama", "dspark:llama"])
def test_a_drafter_is_primed_over_the_whole_prompt(name: str, tmp_path: pathlib.Path) -> None:
    """One that attends to all tokens alike."""
    target, drafter = models(name)
    factors = {"attn_q.weight": 0.0, "attn_output.weight": 20.0}
    attentive = {
        f"blk.{i}.{part}": np.float32(factor) * drafter.tensors[f"blk.{i}.{part}"]
        for i in range(2)
        for part, factor in factors.items()
    }
    path = target.write(tmp_path / "target.gguf", GgmlType.F16)
    check_primed(path, drafter.with_tensors(attentive).write(tmp_path / "drafter.gguf", GgmlType.F16), tmp_path)


def test_prompts_on_disk(pair: Pair, tmp_path: pathlib.Path) -> None:
    target, drafter = pair
    gen = generator(target, drafter, num_draft_tokens=4, suffix=False)
    expected = gen.generate(PROMPT, temperature=0, **OPTIONS).tokens
    num_tokens = gen.save_prefix(tmp_path / "prefix")
    longer = gen.tokenize(PROMPT) + expected
    without_prefix = generator(target, drafter, num_draft_tokens=4, suffix=False).generate(
        longer, temperature=0, **OPTIONS
    )
    again = generator(target, drafter, num_draft_tokens=4, suffix=False)
    assert again.load_prefix(tmp_path / "prefix") == num_tokens
    more = again.generate(longer, temperature=0, **OPTIONS)
    assert more.stats.prompt_cached_tokens == num_tokens
    assert more.tokens == without_prefix.tokens
    assert more.stats.accepted == without_prefix.stats.accepted  # the drafter keeps what it read of the part on disk
    # Saved without a drafter: it begins behind the part on disk.
    bare = plain(target)
    bare.generate(PROMPT, temperature=0, **OPTIONS)
    bare.save_prefix(tmp_path / "bare")
    third = generator(target, drafter, num_draft_tokens=4, suffix=False)
    third.load_prefix(tmp_path / "bare")
    completion = third.generate(longer, temperature=0, **OPTIONS)
    assert completion.tokens == more.tokens and completion.stats.prompt_cached_tokens == num_tokens
    assert third.generate(longer, temperature=0, **OPTIONS).tokens == more.tokens
    check_stops(third, PROMPT, plain(target).generate(PROMPT, temperature=0, **OPTIONS).tokens, 3, OPTIONS)


CONSTRAINTS: dict[str, sd.StreamOptions] = {
    "regex": {"regex": "([a-z ]|[0-9]){40}"},
    "grammar": {"grammar": 'root ::= (word " " number "; ")+\nword ::= [a-z]{2,5}\nnumber ::= [0-9]{1,3}'},
}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("name", ["dflash:llama", "dspark-own:llama"])
def test_constraints(name: str, constraint: str, tmp_path: pathlib.Path) -> None:
    """With an own vocabulary the constraint may allow tokens that the drafter does not have, and those only."""
    target, drafter = models(name)
    paths = target.write(tmp_path / "target.gguf", GgmlType.F16), drafter.write(tmp_path / "drafter.gguf", GgmlType.F16)
    gen, alone, accepted = generator(*paths, suffix=False), plain(paths[0]), 0
    for seed, temperature in enumerate([0.0, 0.9, 0.9]):
        limits: sd.StreamOptions = {"max_tokens": 48, "temperature": temperature, "seed": seed}
        options: sd.StreamOptions = {**limits, **CONSTRAINTS[constraint]}
        expected = alone.generate(PROMPT, **options)
        for k in (1, 5, "auto"):
            completion = gen.generate(PROMPT, num_draft_tokens=k, **options)
            assert completion.tokens == expected.tokens and completion.finish_reason == expected.finish_reason
            accepted += completion.stats.accepted
    assert accepted > 0


# ---- The drafts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_drafts", [3, 7])
def test_drafts_are_those_of_numpy(kind: str, num_drafts: int, tmp_path: pathlib.Path) -> None:
    """What is accepted of every block."""
    target, drafter = models(f"{kind}:llama")
    block = KINDS[kind]
    paths = target.write(tmp_path / "target.gguf", GgmlType.F32), drafter.write(tmp_path / "drafter.gguf", GgmlType.F32)
    gen = generator(*paths, num_draft_tokens=num_drafts, suffix=False, draft_weights="file")
    totals = np.zeros(2, int)
    num_places = min(num_drafts, block.num_places)
    for seed in range(6):
        prompt = random_tokens(target, 2 + seed % 4, seed)
        completion = gen.generate(prompt, temperature=0, **{**OPTIONS, "max_tokens": 30})
        text, length, drafted, accepted = prompt + completion.tokens, len(prompt), 0, 0
        while length < len(text):
            drafts = block_drafts(drafter, block, target, text[:length], num_places, [1])
            drafts = drafts[: len(text) - length - 1]
            if 1 in drafts:
                drafts = drafts[: drafts.index(1) + 1]
            same = [draft == token for draft, token in zip(drafts, text[length:], strict=False)]
            kept = (*same, False).index(False)
            drafted, accepted, length = drafted + len(drafts), accepted + kept, length + kept + 1
        assert (completion.stats.drafted, completion.stats.accepted) == (drafted, accepted), prompt
        totals += (drafted, accepted)
    assert 20 < totals[1] < totals[0] - 20


@pytest.mark.parametrize("kind", ["dspark", "dspark-masks", "dspark-own"])
def test_confidences_are_those_of_numpy(
    kind: str, built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """Each by the token before it, as its bias is."""
    target, drafter = models(f"{kind}:llama")
    paths = target.write(tmp_path / "target.gguf", GgmlType.F32), drafter.write(tmp_path / "drafter.gguf", GgmlType.F32)
    program = built("engine/test_block_confidences")
    for seed in range(3):
        tokens, expected = random_tokens(target, 5 + seed, seed), list[float]()
        drafts = block_drafts(drafter, KINDS[kind], target, tokens, 5, [], expected)
        command = [program, *paths, "5", *map(str, tokens)]
        lines = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        assert [int(line.split()[0]) for line in lines] == drafts
        assert [float(line.split()[1]) for line in lines] == pytest.approx(expected, abs=2e-3)
        assert max(expected) - min(expected) > 0.05


def test_a_drafter_without_confidences(built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> None:
    target, drafter = models("dflash:llama")
    paths = target.write(tmp_path / "target.gguf"), drafter.write(tmp_path / "drafter.gguf")
    command = [built("engine/test_block_confidences"), *paths, "2", "0", "5", "6"]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["-1", "-1"]


def texts(target: Model, drafter: Model, folder: pathlib.Path, **options: float) -> list[tuple[list[int], int]]:
    """Texts of several seeds; by block verification they depend on the rows that the drafts are sampled from."""
    paths = target.write(folder / "target.gguf", GgmlType.F32), drafter.write(folder / "drafter.gguf", GgmlType.F32)
    with generator(*paths, num_draft_tokens=4, suffix=False, draft_weights="file") as gen:
        limits: sd.StreamOptions = {**OPTIONS, "verification": "block", **options}  # type: ignore[typeddict-item]
        completions = [gen.generate(PROMPT, seed=seed, **limits) for seed in range(6)]
    return [(completion.tokens, completion.stats.accepted) for completion in completions]


def test_scaled_logits(tmp_path: pathlib.Path) -> None:
    """As if the matrices that make them were smaller."""
    target, drafter = models("dspark-own:llama")
    smaller = {name: drafter.tensors[name] * np.float32(0.25) for name in ("output.weight", "markov_w2.weight")}
    scaled = texts(target, changed(drafter, logit_scale=0.25), tmp_path)
    assert scaled == texts(target, drafter.with_tensors(smaller), tmp_path)
    assert scaled != texts(target, drafter, tmp_path)


def test_capped_logits(tmp_path: pathlib.Path) -> None:
    """A cap keeps the order of the logits, and makes the likely tokens of a row more alike."""
    target, drafter = models("dspark-own:llama")
    original, greedy = texts(target, drafter, tmp_path), texts(target, drafter, tmp_path, temperature=0.0)
    capped = changed(drafter, final_logit_softcapping=2.0)
    assert texts(target, capped, tmp_path) != original
    assert texts(target, capped, tmp_path, temperature=0.0) == greedy
    assert texts(target, changed(drafter, final_logit_softcapping=1e6), tmp_path) == original


# ---- Files that do not fit


def check_rejected(target: Model, drafter: Model, message: str, tmp_path: pathlib.Path) -> None:
    path = target.write(tmp_path / "target.gguf", GgmlType.F16)
    with pytest.raises(sd.ModelError, match=message):
        generator(path, drafter.write(tmp_path / "drafter.gguf", GgmlType.F16))
    assert generator(path, None).generate(PROMPT, max_tokens=3).tokens


def changed(model: Model, **keys: float | str | list[int] | None) -> Model:
    changes = {key.replace("__", "."): value for key, value in keys.items()}
    merged = {key: value for key, value in {**model.keys, **changes}.items() if value is not None}
    return replace(model, keys=merged)  # type: ignore[arg-type]


DAMAGED: dict[str, tuple[dict[str, int | list[int] | None], str]] = {
    "block of 0": ({"block_size": 0}, 'metadata "dflash.block_size" is not .* from 2 to 1024.* again'),
    "block of 1": ({"block_size": 1}, 'metadata "dflash.block_size" is not .* again'),
    "huge block": ({"block_size": 10**6}, 'metadata "dflash.block_size" is not .* again'),
    "no mask": ({"tokenizer__ggml__mask_token_id": None}, "mask_token_id.* is not a token of the vocabulary.* again"),
    "wrong mask": ({"tokenizer__ggml__mask_token_id": 288}, "mask_token_id.* is not a token of the vocabulary.* again"),
    "no layers": ({"target_layers": None}, "dflash.target_layers.* is not an array of layers.* again"),
    "negative layer": ({"target_layers": [0, -1]}, "dflash.target_layers.* is not an array of layers.* again"),
    "heads": ({"attention__key_length": 32}, "heads are 32 and 16.* again"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_metadata(what: str, tmp_path: pathlib.Path) -> None:
    keys, message = DAMAGED[what]
    target, drafter = models("dflash:llama")
    check_rejected(target, changed(drafter, **keys), f"drafter.gguf: .*{message}", tmp_path)


def test_a_drafter_of_another_target(tmp_path: pathlib.Path) -> None:
    target, drafter = models("dspark:llama")
    deeper = "drafter.gguf: a DSpark block drafter reads layer 30 of its target; .*target.gguf has 2. Use a head"
    check_rejected(target, changed(drafter, target_layers=[0, 30]), deeper, tmp_path)
    path = with_mask(make("llama")).write(tmp_path / "target.gguf")
    wider = models("dspark:llama")[1]
    wider = replace(wider, shape=replace(wider.shape, width=128))
    check_rejected(target, wider, "DSpark block drafter is for a target of width 128; that of .* is 64", tmp_path)
    other = replace(drafter, vocabulary=replace(Vocabulary(), renamed={40: "~other"}))
    with pytest.raises(sd.VocabularyMismatch, match=r"drafter.gguf.*Use a head that was made for this target"):
        generator(path, other.write(tmp_path / "drafter.gguf"))
    not_given = "target.gguf: llama.cpp does not give the rows of the layers of architecture llama .*Use another draft"
    check_rejected(target, changed(drafter, target_layers=[0, 1, 2]), not_given, tmp_path)
    hidden = replace(drafter, tensors={name: t for name, t in drafter.tensors.items() if name != "markov_w2.weight"})
    check_rejected(target, hidden, "drafter.gguf: .*markov_w2.weight.* again", tmp_path)


@pytest.mark.parametrize("ids", [[-1], [288], [5, 5]])
def test_damaged_ids(ids: list[int], tmp_path: pathlib.Path) -> None:
    target, drafter = models("dflash-own:llama")
    d2t = drafter.tensors["d2t"].copy()
    d2t[3 : 3 + len(ids)] = ids
    check_rejected(target, drafter.with_tensors({"d2t": d2t}), 'drafter.gguf: tensor "d2t".* has .* again', tmp_path)


@pytest.mark.parametrize("name", ["dflash-own:llama", "dspark:llama"])
def test_a_tensor_that_is_missing_or_of_another_size(name: str, tmp_path: pathlib.Path) -> None:
    target, drafter = models(name)
    path = target.write(tmp_path / "target.gguf", GgmlType.F16)
    optional = ("token_embd.weight", "d2t", "markov_w1.weight", "conf_proj.weight", "conf_proj.bias")
    optional += ("blk.0.attn_v.weight", "blk.1.attn_v.weight")
    for name, tensor in drafter.tensors.items():
        rest = {other: t for other, t in drafter.tensors.items() if other != name}
        smaller = {**rest, name: tensor[..., : tensor.shape[-1] // 2]}
        for tensors in (smaller,) if name in optional else (rest, smaller):
            file = replace(drafter, tensors=tensors).write(tmp_path / "drafter.gguf")
            with pytest.raises(sd.ModelError, match=r"drafter.gguf: .* again"):
                generator(path, file)
    assert generator(path, None).generate(PROMPT, max_tokens=3).tokens


def test_a_truncated_file(tmp_path: pathlib.Path) -> None:
    target, drafter = models("dflash:llama")
    path, file = target.write(tmp_path / "target.gguf"), drafter.write(tmp_path / "drafter.gguf")
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(sd.ModelError, match=r"drafter.gguf: .*truncated.*again"):
        generator(path, file)


def test_drafters_with_a_selector_are_rejected_by_name(tmp_path: pathlib.Path) -> None:
    target, drafter = models("dflash:llama")
    selecting = drafter.with_tensors({"selector_hidden.weight": np.zeros((8, 64), np.float32)})
    named = r"drafter.gguf: is a DFlash2 block drafter .*selector \(DFlash2\) are not supported: use .*\"suffix\""
    check_rejected(target, selecting, named, tmp_path)
    for top_k in (0, 64, 10**6):  # wider than the lattice, too
        wide = changed(selecting, selector_rank=8, selector_top_k=top_k, conv_kernel_size=3, conv_group_size=16)
        check_rejected(target, wide, named, tmp_path)
    deepseek = r"drafter.gguf: is a DFlash block drafter .*DeepSeek V4 are not supported"
    check_rejected(target, changed(drafter, hyper_connection__count=4), deepseek, tmp_path)


def test_info(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def info(model: Model, *options: str) -> str:
        path = model.write(tmp_path / "m.gguf")
        command = [specdec, "info", *options, path]
        text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        return " ".join(text.split())

    dflash, dspark = models("dflash:llama")[1], models("dspark:llama")[1]
    assert json.loads(info(dflash, "--json"))["head"] == {
        "kind": "block",
        "target_layers": [0, 1, 1],
        "usable": True,
        "block_size": 8,
    }
    assert "a DFlash block drafter for another model (draft of its target), blocks of 8 tokens" in info(dflash)
    assert "a DSpark block drafter for another model" in info(dspark)
    assert "which cannot be used" in info(changed(dflash, hyper_connection__count=4))
    assert "a DFlash block drafter" in info(changed(dflash, block_size=0))  # damaged


def test_a_drafter_is_no_target(tmp_path: pathlib.Path) -> None:
    path = models("dspark:llama")[1].write(tmp_path / "drafter.gguf")
    message = r"drafter.gguf: is a DSpark block drafter .*not a whole model. Give it as the draft"
    with pytest.raises(sd.ModelError, match=message):
        generator(path, None)
    with pytest.raises(ValueError, match="draft"):
        sd.Generator(path, path, rpc="127.0.0.1:1")
