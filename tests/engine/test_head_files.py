"""Drafting heads in files of their own: EAGLE-3 heads, and multi-token prediction layers without their model."""

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
from tests.models.numpy_llama import eagle3_drafts, gemma4_assistant_drafts
from tests.models.tiny_models import (
    Model,
    Vocabulary,
    damped,
    eagle3_head,
    gemma4_assistant,
    idle_gemma4,
    make,
    random_tokens,
    with_head,
)

import specdec_native as sd

PROMPT = "def the self return"
OPTIONS: sd.StreamOptions = {"max_tokens": 48, "logit_bias": {1: -math.inf}}  # texts of full length


def mtp_file(model: Model) -> Model:
    """Only the drafting head, the embeddings and the output matrix."""
    trunk = tuple(f"blk.{i}." for i in range(model.shape.layers))
    return replace(
        model, tensors={name: tensor for name, tensor in model.tensors.items() if not name.startswith(trunk)}
    )


def without_head(model: Model) -> Model:
    layers = tuple(f"blk.{model.shape.layers + i}." for i in range(model.shape.head_layers))
    tensors = {name: tensor for name, tensor in model.tensors.items() if not name.startswith(layers)}
    keys = {name: value for name, value in model.keys.items() if name != "nextn_predict_layers"}
    return replace(model, shape=replace(model.shape, head_layers=0), tensors=tensors, keys=keys)


def pair_of(name: str) -> tuple[Model, Model]:
    kind, _, architecture = name.partition(":")
    if kind.startswith("mtp"):
        model = with_head(architecture, layers=2 if kind == "mtp-of-2" else 1)
        return without_head(model), mtp_file(model)
    target = damped(make(architecture))
    if kind == "assistant":
        return target, gemma4_assistant(target)
    return target, eagle3_head(target, own_parts=kind == "eagle3-own")


PAIRS = [
    "eagle3:llama",
    "eagle3-own:llama",
    "eagle3:qwen3",
    "eagle3-own:qwen35",
    "eagle3:gpt-oss",
    "eagle3:lfm2",
    "mtp:qwen35",
]
PAIRS += ["assistant:gemma4", "mtp-of-2:step35"]


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    target, head = pair_of(request.param)
    folder = tmp_path_factory.mktemp(request.param.replace(":", "-"))
    return target.write(folder / "target.gguf", GgmlType.F16), head.write(folder / "head.gguf", GgmlType.F16)


def generator(target: pathlib.Path, draft: pathlib.Path | str | None, **options: int) -> sd.Generator:
    return sd.Generator(target, draft, n_threads=1, n_ctx=512, **options)


def plain(target: pathlib.Path) -> sd.Generator:
    return generator(target, None, num_draft_tokens=0)


@pytest.mark.parametrize("num_draft_tokens", [1, 4, 11, "auto"])
def test_greedy_text_is_that_of_plain_decoding(pair: tuple[pathlib.Path, pathlib.Path], num_draft_tokens: int) -> None:
    target, head = pair
    expected = plain(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    assert len(expected) == 48 and len(set(expected)) > 5
    for suffix in (False, True):
        gen = generator(target, head, suffix=suffix, num_draft_tokens=num_draft_tokens)
        completion = gen.generate(PROMPT, temperature=0, **OPTIONS)
        assert completion.tokens == expected
        if num_draft_tokens != "auto" and not suffix:
            assert 0 < completion.stats.accepted < completion.stats.drafted
        again = gen.generate(completion.text, temperature=0, **OPTIONS)  # copies, if suffix
        assert again.tokens == plain(target).generate(completion.text, temperature=0, **OPTIONS).tokens


def test_trees(pair: tuple[pathlib.Path, pathlib.Path], request: pytest.FixtureRequest) -> None:
    """Heads of recurrent targets draft chains."""
    target, head = pair
    name = request.node.callspec.params["pair"]
    branches = not name.endswith(("qwen35", "lfm2"))

    def branching(count: int) -> sd.Generator:
        return generator(target, head, draft_tree=20, suffix=False, max_sequences=count, auto_cache=False)

    with plain(target) as without:
        check_trees(without, branching, 8 if branches else None)


def test_a_tree_of_a_head_is_accepted_more_often_than_its_chain(
    target_path: pathlib.Path, library_prompts: list[str]
) -> None:
    """Which shows that the nodes are read at the right positions, with the rows of their parents."""
    accepted = {}
    head = target_path.with_name("stdlib-head-f16.gguf")
    for name, number in {"num_draft_tokens": 6, "draft_tree": 16}.items():
        chosen = {name: number, "suffix": False, "auto_cache": False}
        with generator(target_path, head, **chosen) as gen:
            runs = [gen.generate(prompt, max_tokens=64, temperature=0).stats for prompt in library_prompts[:6]]
        accepted[name] = sum(s.accepted for s in runs) / sum(s.target_calls for s in runs)
    assert accepted["draft_tree"] > 1.1 * accepted["num_draft_tokens"]


def test_a_seed_gives_the_same_text_with_and_without_the_head(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, head = pair
    for seed in range(3):
        options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": seed}
        expected = plain(target).generate(PROMPT, **options).tokens
        for k in (2, 11, "auto"):
            assert generator(target, head).generate(PROMPT, num_draft_tokens=k, **options).tokens == expected


@pytest.mark.parametrize("verification", ["block", "token"])
def test_a_seed_repeats_its_text(pair: tuple[pathlib.Path, pathlib.Path], verification: sd.Verification) -> None:
    """Whatever the caches hold from before: the head's rows are those of the text alone."""
    target, head = pair
    gen = generator(target, head, num_draft_tokens=3)
    options: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": 7, "verification": verification}
    expected = gen.generate(PROMPT, **options).tokens
    gen.generate("def the self", num_draft_tokens=0, **options)
    assert gen.generate(PROMPT, **options).tokens == expected
    assert generator(target, head, num_draft_tokens=3).generate(PROMPT, **options).tokens == expected


@pytest.mark.parametrize("count", [2, 4])
def test_several_requests_together(pair: tuple[pathlib.Path, pathlib.Path], count: int) -> None:
    """Each drafts as if it were alone."""
    target, head = pair
    prompts = ["def the", "self return x", "def", "the the the self", PROMPT]
    expected = [plain(target).generate(prompt, temperature=0, **OPTIONS).tokens for prompt in prompts]
    alone = generator(target, head, suffix=False, num_draft_tokens=3)
    accepted = [alone.generate(prompt, temperature=0, **OPTIONS).stats.accepted for prompt in prompts]
    together = generator(target, head, suffix=False, max_sequences=count, num_draft_tokens=3)
    completions = together.generate_many(prompts, temperature=0, **OPTIONS)
    assert [completion.tokens for completion in completions] == expected
    assert [completion.stats.accepted for completion in completions] == accepted and sum(accepted) > 0
    again = together.generate_many(prompts, temperature=0, **OPTIONS)  # with reused prefixes
    assert [completion.tokens for completion in again] == expected


def test_the_bundled_head() -> None:
    """A trained one: accepted more often than the bundled draft, which is a whole model."""
    models = pathlib.Path(__file__).parents[2] / "models"
    target = models / "stdlib-target-f16.gguf"
    accepted = dict.fromkeys(("draft", "head"), 0)
    for prompt in ("def main():", "class Stack:", "import os", "for line in file:"):
        for temperature in (0.0, 0.8):
            options: sd.StreamOptions = {"max_tokens": 100, "temperature": temperature, "seed": 3}
            expected = plain(target).generate(prompt, **options).tokens
            for name in accepted:
                gen = generator(target, models / f"stdlib-{name}-f16.gguf", suffix=False, num_draft_tokens=3)
                completion = gen.generate(prompt, **options)
                assert completion.tokens == expected
                accepted[name] += completion.stats.accepted
    assert accepted["head"] > 1.1 * accepted["draft"] > 100


Drafts = Callable[[Model, Model, list[int], int, list[int]], list[int]]


def check_against_numpy(target: Model, head: Model, drafts_of: Drafts, tmp_path: pathlib.Path) -> None:
    """What is accepted of every chain of drafts."""
    num_drafts = 3
    paths = target.write(tmp_path / "target.gguf", GgmlType.F32), head.write(tmp_path / "head.gguf", GgmlType.F32)
    gen = sd.Generator(*paths, n_threads=1, n_ctx=512, num_draft_tokens=num_drafts, suffix=False, draft_weights="file")
    totals = np.zeros(2, int)
    for seed in range(20):
        prompt = random_tokens(target, 2 + seed % 4, seed)
        completion = gen.generate(prompt, temperature=0, **{**OPTIONS, "max_tokens": 30})
        text, length, drafted, accepted = prompt + completion.tokens, len(prompt), 0, 0
        while length < len(text):
            drafts = drafts_of(head, target, text[:length], min(num_drafts, len(text) - length - 1), [1])
            same = [draft == token for draft, token in zip(drafts, text[length:], strict=False)]
            kept = (*same, False).index(False)
            drafted, accepted, length = drafted + len(drafts), accepted + kept, length + kept + 1
        assert (completion.stats.drafted, completion.stats.accepted) == (drafted, accepted), prompt
        totals += (drafted, accepted)
    assert 50 < totals[1] < totals[0] - 50


def test_an_eagle3_head_drafts_as_in_llama_cpp(tmp_path: pathlib.Path) -> None:
    """The head attends to all that it has read, about equally."""
    target = damped(make("llama"))
    head = eagle3_head(target)
    head = head.with_tensors({"blk.0.attn_q.weight": 0.1 * head.tensors["blk.0.attn_q.weight"]})
    check_against_numpy(target, head, eagle3_drafts, tmp_path)


def attentive_assistant() -> tuple[Model, Model]:
    target = idle_gemma4(make("gemma4"))
    return target, gemma4_assistant(target)


def test_a_gemma4_assistant_drafts_as_in_llama_cpp(tmp_path: pathlib.Path) -> None:
    check_against_numpy(*attentive_assistant(), gemma4_assistant_drafts, tmp_path)


def test_a_tree_of_an_assistant_is_accepted_more_often_than_its_chain(tmp_path: pathlib.Path) -> None:
    """Nodes are read as drafts of a chain are: with their parents' rows, and without each other."""
    target, head = attentive_assistant()
    paths = target.write(tmp_path / "target.gguf", GgmlType.F32), head.write(tmp_path / "head.gguf", GgmlType.F32)

    def accepted(**chosen: int) -> float:
        """In a pass, on average."""
        options: sd.StreamOptions = {**OPTIONS, "max_tokens": 30}
        gen = sd.Generator(*paths, n_threads=1, n_ctx=512, suffix=False, draft_weights="file", **chosen)
        prompts = [random_tokens(target, 2 + seed % 4, seed) for seed in range(20)]
        stats = [gen.generate(prompt, temperature=0, **options).stats for prompt in prompts]
        return sum(s.accepted for s in stats) / sum(s.target_calls for s in stats)

    assert accepted(draft_tree=1) == accepted(num_draft_tokens=1)
    assert accepted(draft_tree=16) > max(1.0, 2 * accepted(num_draft_tokens=4))


def test_an_assistant_attends_to_copied_cells(tmp_path: pathlib.Path) -> None:
    """llama.cpp copies them ahead of the target's next pass, which may be too late."""
    target, head = attentive_assistant()
    paths = target.write(tmp_path / "target.gguf", GgmlType.F16), head.write(tmp_path / "head.gguf", GgmlType.F16)
    prompt = " ".join(["def the self return x the the return self def def x return the"] * 4)
    alone = generator(*paths, suffix=False, num_draft_tokens=3).generate(prompt, temperature=0, **OPTIONS)
    together = generator(*paths, suffix=False, num_draft_tokens=3, max_sequences=3)
    together.generate_many(["x " * 200] * 3, temperature=0, **OPTIONS)
    together.generate(prompt, temperature=0, **OPTIONS)
    for copy in together.generate_many([prompt] * 3, temperature=0, **OPTIONS):
        assert (copy.tokens, copy.stats.drafted, copy.stats.accepted) == (
            alone.tokens,
            alone.stats.drafted,
            alone.stats.accepted,
        )


def test_a_text_may_be_stopped_after_any_token(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, head = pair
    expected = plain(target).generate(PROMPT, temperature=0, **OPTIONS).tokens
    check_stops(generator(target, head, num_draft_tokens=4), PROMPT, expected, 11, OPTIONS)


def test_cancelled_passes(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, head = pair
    prompt = random_tokens(make("llama"), 200)
    expected = plain(target).generate(prompt, temperature=0, **OPTIONS).tokens
    check_cancelled_passes(generator(target, head, num_draft_tokens=4), prompt, expected, OPTIONS)


def test_a_prompt_of_one_token(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    """An EAGLE-3 head has no row to read it with."""
    target, head = pair
    expected = plain(target).generate([0], temperature=0, **OPTIONS).tokens
    for count in (1, 3):
        gen = generator(target, head, num_draft_tokens=4, max_sequences=count)
        for prompts in ([[0]] * count, [[0, *expected[:5]]] * count, [[0]] * count):
            completions = gen.generate_many(prompts, temperature=0, **OPTIONS)
            for prompt, completion in zip(prompts, completions, strict=True):
                done = len(prompt) - 1
                assert completion.tokens[: 48 - done] == expected[done:]


def test_long_prompts_and_full_contexts(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, head = pair
    prompt = random_tokens(make("llama"), 470)
    options: sd.StreamOptions = {**OPTIONS, "max_tokens": 200}
    expected = plain(target).generate(prompt, temperature=0, **options)
    gen = sd.Generator(target, head, n_threads=1, n_ctx=512, n_batch=64, num_draft_tokens=4)
    completion = gen.generate(prompt, temperature=0, **options)
    assert completion.tokens == expected.tokens and completion.finish_reason == expected.finish_reason


@pytest.mark.parametrize("name", ["eagle3:llama", "mtp-of-2:step35"])
def test_a_head_is_primed_over_the_whole_prompt(name: str, tmp_path: pathlib.Path) -> None:
    target, head = pair_of(name)
    path = target.write(tmp_path / "target.gguf", GgmlType.F16)
    check_primed(path, head.write(tmp_path / "head.gguf", GgmlType.F16), tmp_path)


def test_prompts_on_disk(pair: tuple[pathlib.Path, pathlib.Path], tmp_path: pathlib.Path) -> None:
    target, head = pair
    gen = generator(target, head, num_draft_tokens=4)
    expected = gen.generate(PROMPT, temperature=0, **{**OPTIONS, "max_tokens": 30}).tokens  # inside the sliding window
    num_tokens = gen.save_prefix(tmp_path / "prefix")
    longer = gen.tokenize(PROMPT) + expected
    without_prefix = generator(target, head, num_draft_tokens=4).generate(longer, temperature=0, **OPTIONS)
    again = generator(target, head, num_draft_tokens=4)
    assert again.load_prefix(tmp_path / "prefix") == num_tokens
    more = again.generate(longer, temperature=0, **OPTIONS)
    assert more.stats.prompt_cached_tokens == num_tokens
    assert more.tokens == without_prefix.tokens
    assert more.stats.accepted == without_prefix.stats.accepted  # the head knows the rows of the part on disk


# ---- Heads with a vocabulary of their own, shorter than the target's


@pytest.fixture(scope="module")
def without_digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    """A target, and a head whose vocabulary has none of the digits."""
    target = damped(make("llama"))
    ids = np.array([i for i, text in enumerate(target.vocabulary.texts()) if i > 1 and not text.isdecimal()])
    head = eagle3_head(target, own_parts=True, tokens=len(ids))
    head = head.with_tensors({"d2t": ids.astype(np.int64), "output.weight": target.tensors["output.weight"][ids]})
    folder = tmp_path_factory.mktemp("short")
    return target.write(folder / "target.gguf", GgmlType.F16), head.write(folder / "head.gguf", GgmlType.F16)


CONSTRAINTS: dict[str, sd.StreamOptions] = {
    "regex": {"regex": "([a-z ]|[0-9]){40}"},
    "grammar": {"grammar": 'root ::= (word " " number "; ")+\nword ::= [a-z]{2,5}\nnumber ::= [0-9]{1,3}'},
    "schema": {
        "json_schema": {"type": "array", "items": {"type": ["integer", "string"], "maxLength": 4}, "minItems": 6}
    },
}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_constraints_and_a_short_vocabulary(without_digits: tuple[pathlib.Path, pathlib.Path], constraint: str) -> None:
    """The constraint may allow tokens that the head does not have, and those only."""
    target, head = without_digits
    accepted = 0
    for seed, temperature in enumerate([0.0, 0.9, 0.9, 0.9]):
        options: sd.StreamOptions = {
            "max_tokens": 48,
            **CONSTRAINTS[constraint],
            "temperature": temperature,
            "seed": seed,
        }
        expected = plain(target).generate(PROMPT, **options)
        for k in (1, 5, "auto"):
            completion = generator(target, head, suffix=False, num_draft_tokens=k).generate(PROMPT, **options)
            assert completion.tokens == expected.tokens and completion.finish_reason == expected.finish_reason
            accepted += completion.stats.accepted
        together = generator(target, head, max_sequences=3, num_draft_tokens=5).generate_many([PROMPT] * 3, **options)
        alone = plain(target).generate_many([PROMPT] * 3, **options)
        assert [completion.tokens for completion in together] == [completion.tokens for completion in alone]
    assert accepted > 0


def test_a_constraint_that_allows_none_of_the_heads_tokens(without_digits: tuple[pathlib.Path, pathlib.Path]) -> None:
    target, head = without_digits
    only_digits: list[sd.StreamOptions] = [
        {"regex": "[0-9]{24}"},
        {"logit_bias": {i: -math.inf for i, text in enumerate(Vocabulary().texts()) if not text.isdecimal()}},
    ]
    for options in only_digits:
        for temperature in (0.0, 0.9):
            every: sd.StreamOptions = {"max_tokens": 24, "temperature": temperature, "seed": 1, **options}
            completion = generator(target, head, suffix=False, num_draft_tokens=5).generate(PROMPT, **every)
            assert completion.tokens == plain(target).generate(PROMPT, **every).tokens
            assert completion.text.isdecimal() and len(completion.text) == 24 and completion.stats.drafted == 0


# ---- Files that do not fit


def check_rejected(target: Model, head: Model, message: str, tmp_path: pathlib.Path) -> None:
    path = target.write(tmp_path / "target.gguf", GgmlType.F16)
    with pytest.raises(sd.ModelError, match=message):
        generator(path, head.write(tmp_path / "head.gguf", GgmlType.F16))
    assert generator(path, None).generate(PROMPT, max_tokens=3).tokens


def changed(head: Model, **keys: int | list[int]) -> Model:
    return replace(head, keys={**head.keys, **keys})


def test_a_head_of_another_target(tmp_path: pathlib.Path) -> None:
    target = damped(make("llama"))
    head = eagle3_head(target)
    wider = "head.gguf: an EAGLE-3 head is for a target of width 128; that of .*target.gguf is 64. Use a head"
    check_rejected(target, changed(head, target_hidden_size=128), wider, tmp_path)
    deeper = (
        "head.gguf: an EAGLE-3 head reads layer 30 of its target; .*target.gguf has 2. Use a head that was "
        "made for this target"
    )
    check_rejected(target, changed(head, target_layers=[0, 1, 30]), deeper, tmp_path)
    other = replace(head, vocabulary=replace(Vocabulary(), renamed={40: "~other"}))
    with pytest.raises(sd.VocabularyMismatch, match=r"head.gguf.*Use a head that was made for this target"):
        generator(target.write(tmp_path / "target.gguf"), other.write(tmp_path / "head.gguf"))


@pytest.mark.parametrize("layers", [[0, 1], [0, 1, -1], [0, 1, 1, 1]])
def test_damaged_layers_of_the_target(layers: list[int], tmp_path: pathlib.Path) -> None:
    target = damped(make("llama"))
    check_rejected(
        target,
        changed(eagle3_head(target), target_layers=layers),
        "head.gguf: .*eagle3.target_layers.* again",
        tmp_path,
    )


@pytest.mark.parametrize("ids", [[-1], [288], [5, 5]])
def test_damaged_ids_of_the_heads_tokens(ids: list[int], tmp_path: pathlib.Path) -> None:
    """llama.cpp writes to these places unchecked."""
    target = damped(make("llama"))
    head = eagle3_head(target, own_parts=True)
    d2t = head.tensors["d2t"].copy()
    d2t[3 : 3 + len(ids)] = ids
    check_rejected(target, head.with_tensors({"d2t": d2t}), 'head.gguf: tensor "d2t".* has .* again', tmp_path)
    other_type = head.with_tensors({"d2t": np.arange(200, dtype=np.float32)})
    check_rejected(target, other_type, "head.gguf: .*d2t.*64-bit.* again", tmp_path)


@pytest.mark.parametrize("name", ["eagle3:llama", "eagle3-own:llama", "assistant:gemma4"])
def test_a_tensor_that_is_missing_or_of_another_size(name: str, tmp_path: pathlib.Path) -> None:
    target, head = pair_of(name)
    path = target.write(tmp_path / "target.gguf", GgmlType.F16)
    for name, tensor in head.tensors.items():
        rest = {other: t for other, t in head.tensors.items() if other != name}
        smaller = {**rest, name: tensor[..., : tensor.shape[-1] // 2]}
        for i, tensors in enumerate((rest, smaller)):
            file = replace(head, tensors=tensors).write(tmp_path / "head.gguf")
            if i == 0 and head.architecture == "eagle3" and name in ("token_embd.weight", "d2t"):
                continue  # the target's are used, or all tokens
            named = name if name != "d2t" else "output.weight"  # which has more rows then
            with pytest.raises(sd.ModelError, match=rf"head.gguf: .*{named}.* again"):
                generator(path, file)
            assert generator(path, None).generate(PROMPT, max_tokens=3).tokens


def test_a_truncated_file(tmp_path: pathlib.Path) -> None:
    target = damped(make("llama"))
    head = eagle3_head(target).write(tmp_path / "head.gguf")
    head.write_bytes(head.read_bytes()[:-1000])
    path = target.write(tmp_path / "target.gguf")
    with pytest.raises(sd.ModelError, match=r"head.gguf: .*truncated.*again"):
        generator(path, head)
    assert generator(path, None).generate(PROMPT, max_tokens=3).tokens


def test_targets_whose_layers_llama_cpp_does_not_give(tmp_path: pathlib.Path) -> None:
    target = damped(make("qwen2"))
    check_rejected(
        target, eagle3_head(target), "target.gguf: llama.cpp does not give .* qwen2 .*Use another draft", tmp_path
    )


def test_targets_whose_output_llama_cpp_does_not_give(tmp_path: pathlib.Path) -> None:
    target = damped(make("llama"))
    head = changed(eagle3_head(target), target_layers=[0, 1, 2])
    check_rejected(target, head, "target.gguf: llama.cpp does not give .* llama .*Use another draft", tmp_path)


def test_multi_token_prediction_layers_of_another_target(tmp_path: pathlib.Path) -> None:
    _, head = pair_of("mtp:qwen35")
    check_rejected(
        make("llama"), head, "head.gguf: .* is for architecture qwen35; that of .*target.gguf is llama", tmp_path
    )


def test_heads_and_rpc_servers(pair: tuple[pathlib.Path, pathlib.Path]) -> None:
    with pytest.raises(ValueError, match="draft"):
        sd.Generator(*pair, rpc="127.0.0.1:1")


def test_an_assistant_of_another_target(tmp_path: pathlib.Path) -> None:
    target = damped(make("gemma4"))
    head, remedy = gemma4_assistant(target), ". Use the assistant that was made for this target"
    other = f"head.gguf: a Gemma 4 assistant is for a Gemma 4 model; .*target.gguf is llama{remedy}"
    check_rejected(damped(make("llama")), head, other, tmp_path)
    for key, value, its in [
        ("embedding_length_out", 96, 64),
        ("attention.sliding_window", 32, 48),
        ("attention.key_length", 32, 16),
        ("attention.value_length_swa", 32, 16),
        ("attention.head_count_kv", 4, 2),
    ]:
        differs = f"head.gguf: .* is for another target: its {key} is {value}, that of .*target.gguf is {its}{remedy}"
        check_rejected(target, changed(head, **{key: value}), differs, tmp_path)
    for pattern in ([False, True], [True, True], [False, False]):
        path = changed(target, **{"attention.sliding_window_pattern": pattern}).write(tmp_path / "target.gguf")
        with pytest.raises(
            sd.ModelError, match=f"head.gguf: .* the last two of .*target.gguf are not such layers{remedy}"
        ):
            generator(path, head.write(tmp_path / "head.gguf"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nextn_predict_layers", 1),
        ("attention.sliding_window_pattern", [True]),
        ("attention.sliding_window_pattern", [1, 0]),
        ("attention.sliding_window_pattern", 2),
    ],
)
def test_a_damaged_assistant(key: str, value: int | list[int], tmp_path: pathlib.Path) -> None:
    target = damped(make("gemma4"))
    check_rejected(
        target,
        changed(gemma4_assistant(target), **{key: value}),
        f"head.gguf: .*gemma4-assistant.{key}.* again",
        tmp_path,
    )


@pytest.mark.parametrize("name", ["eagle3:llama", "mtp:qwen35", "assistant:gemma4"])
def test_a_head_is_no_target(name: str, tmp_path: pathlib.Path) -> None:
    path = pair_of(name)[1].write(tmp_path / "head.gguf")
    with pytest.raises(
        sd.ModelError, match=r"head.gguf: is .*a drafting head.*not a whole model. Give it as the draft"
    ):
        generator(path, None)


def test_info_tells_heads_from_models(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def info(model: Model, *options: str) -> str:
        path = model.write(tmp_path / "m.gguf")
        return subprocess.run(
            [specdec, "info", *options, path], capture_output=True, text=True, timeout=60, check=True
        ).stdout

    target = damped(make("llama"))
    eagle3, mtp = eagle3_head(target), pair_of("mtp:qwen35")[1]
    assert json.loads(info(target, "--json"))["head"] is None and "this file is" not in info(target)
    assert json.loads(info(eagle3, "--json"))["head"] == {"kind": "eagle3", "target_layers": [0, 1, 1], "usable": True}
    assert "this file is an EAGLE-3 head for another model" in info(eagle3)
    assert json.loads(info(mtp, "--json"))["head"] == {"kind": "mtp", "target_layers": [], "usable": True}
    assistant = pair_of("assistant:gemma4")[1]
    assert json.loads(info(assistant, "--json"))["head"] == {"kind": "assistant", "target_layers": [], "usable": True}
    assert "this file is a Gemma 4 assistant for another model" in info(assistant)
    assert "an EAGLE-3 head" in info(changed(eagle3, target_layers=[1]))  # damaged


@pytest.mark.parametrize(
    ("name", "caches"), [("eagle3:llama", 1), ("mtp:qwen35", 1), ("mtp-of-2:step35", 4), ("assistant:gemma4", 0)]
)
def test_the_memory_plan_counts_the_caches_of_a_heads_layers(
    specdec: pathlib.Path, tmp_path: pathlib.Path, name: str, caches: int
) -> None:
    """Each of two layers has a context of its own, with a cache for both; an assistant reads the target's."""
    target, head = pair_of(name)
    paths = target.write(tmp_path / "target.gguf"), head.write(tmp_path / "head.gguf")
    command = [specdec, "info", *paths, "--json", "-c", "512"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    one = 512 * 2 * head.shape.kv_heads * head.shape.head * 2  # keys and values, F16
    assert json.loads(result.stdout)["cache_bytes"]["f16"]["draft"] == caches * one
