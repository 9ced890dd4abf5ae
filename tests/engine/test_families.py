"""docs/models.md, "Which families": every cell of the table is shown on tiny files of every architecture that it
names."""

from __future__ import annotations

import json
import math
import operator
import pathlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from gguf.quants import dequantize, quantize
from tests.models.tiny_models import (
    ENCODERS,
    I_QUANTS,
    NOT_GENERATIVE,
    RECIPES,
    WITH_HEADS,
    WITH_LONG_HEADS,
    Model,
    Shape,
    encoded,
    is_weight,
    make,
    make_not_generative,
    random_tokens,
    with_head,
)

import specdec_native as sd
from specdec_native import _core

ROOT = pathlib.Path(__file__).parents[2]
PROMPTS = ["def the self return", "self return x", "the the def"]
OPTIONS: sd.StreamOptions = {"max_tokens": 40, "logit_bias": {1: -math.inf}}  # texts of full length


@dataclass(frozen=True)
class Row:
    architecture: str
    drafts: str
    own_head: str
    same_bits: str


def table() -> list[Row]:
    """A row for each architecture of a row."""
    section = (ROOT / "docs" / "models.md").read_text().split("\n## Which families\n")[1].split("\n## ")[0]
    header, _, *lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in header] == [
        "family", "`general.architecture`", "drafts", "own head", "the same bits in any pass",
    ]  # fmt: skip
    return [
        Row(architecture, *(cell.strip() for cell in cells))
        for _, names, *cells in lines
        for architecture in re.findall(r"`([^`]+)`", names)
    ]


ROWS = table()
RUNNING = [row for row in ROWS if row.drafts.startswith("yes")]
ENCODING = [row for row in ROWS if row.drafts == "no: embeddings only"]  # test_encoders.py
REFUSED = [row for row in ROWS if not row.drafts.startswith("yes") and row not in ENCODING]
ROLLBACKS = {
    "yes": "cells",
    "yes, rolled back by snapshots": "snapshots",
    "yes, rolled back by checkpoints": "checkpoints",
}


def recipes(row: Row) -> list[str]:
    return [name for name, recipe in RECIPES.items() if recipe.architecture == row.architecture]


CASES = [(row, name) for row in RUNNING for name in recipes(row)]
of_every_family = pytest.mark.parametrize(("row", "name"), CASES, ids=[name for _, name in CASES])


def test_the_table_claims_only_what_is_tested_here() -> None:
    """And everything that is tested is in it."""
    names = [row.architecture for row in ROWS]
    assert len(names) == len(set(names))
    assert {row.architecture for row in RUNNING} == {recipe.architecture for recipe in RECIPES.values()}
    assert {row.architecture for row in REFUSED} == set(NOT_GENERATIVE)
    assert {row.architecture for row in ENCODING} == set(ENCODERS)
    for row in RUNNING:
        assert row.drafts in ROLLBACKS and row.own_head in ("yes", "no") and row.same_bits == "yes", row
    for row in REFUSED + ENCODING:
        assert row.drafts.startswith("no: ") and (row.own_head, row.same_bits) == ("", ""), row


def facts(specdec: pathlib.Path, path: pathlib.Path) -> dict[str, object]:
    result = subprocess.run([specdec, "info", "--json", path], capture_output=True, text=True, timeout=60, check=True)
    return dict(json.loads(result.stdout))


def generator(target: pathlib.Path, draft: pathlib.Path | str | None, **options: int) -> sd.Generator:
    return sd.Generator(target, draft, n_threads=1, n_ctx=512, **options)


def check_drafts(target: pathlib.Path, draft: pathlib.Path | str, expected: list[list[int]]) -> None:
    """The texts of one request and of several, greedy and sampled, for fixed and automatic numbers of drafts."""
    for k in (1, 5, "auto"):
        gen = generator(target, draft, num_draft_tokens=k)
        completion = gen.generate(PROMPTS[0], temperature=0, **OPTIONS)
        assert completion.tokens == expected[0], k
        if k == 5:
            assert 0 < completion.stats.accepted < completion.stats.drafted  # both outcomes, so there were rollbacks
        sampled: sd.StreamOptions = {**OPTIONS, "temperature": 0.9, "seed": 3}
        plain = generator(target, None, num_draft_tokens=0).generate(PROMPTS[0], **sampled)
        assert gen.generate(PROMPTS[0], **sampled).tokens == plain.tokens
    together = generator(target, draft, num_draft_tokens=5, max_sequences=3)
    assert [completion.tokens for completion in together.generate_many(PROMPTS, temperature=0, **OPTIONS)] == expected


@of_every_family
def test_drafts_and_own_heads(row: Row, name: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = with_head(name) if row.own_head == "yes" else make(name)
    target = model.write(tmp_path / "target.gguf", GgmlType.F16)
    known = facts(specdec, target)
    assert known["rollback"] == ROLLBACKS[row.drafts] and known["same_bits"] is True
    assert known["own_head"] == ({"layers": 1, "problem": None} if row.own_head == "yes" else None)
    plain = generator(target, None, num_draft_tokens=0)
    expected = [plain.generate(prompt, temperature=0, **OPTIONS).tokens for prompt in PROMPTS]
    assert all(len(tokens) == 40 for tokens in expected) and len(set(expected[0])) > 4
    check_drafts(target, model.near(0.15).write(tmp_path / "draft.gguf", GgmlType.F16), expected)
    if row.own_head == "yes":
        assert name in WITH_HEADS
        check_drafts(target, "mtp", expected)
        return
    claimed = replace(model, keys={**model.keys, "nextn_predict_layers": 1}).write(tmp_path / "claimed.gguf")
    with pytest.raises(
        sd.ModelError, match=rf"claimed.gguf: the drafting heads of architecture {row.architecture} are not supp"
    ):
        generator(claimed, "mtp")


@pytest.mark.parametrize("name", WITH_LONG_HEADS)
def test_own_heads_of_several_layers(name: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each layer drafts its own place, the last one also those behind it. A layer that drafts the least likely token
    ends what is accepted at its place."""
    model = with_head(name, layers=3)
    target = model.write(tmp_path / "target.gguf", GgmlType.F16)
    assert facts(specdec, target)["own_head"] == {"layers": 3, "problem": None}
    plain = generator(target, None, num_draft_tokens=0)
    expected = [plain.generate(prompt, temperature=0, **OPTIONS).tokens for prompt in PROMPTS]
    assert all(len(tokens) == 40 for tokens in expected) and len(set(expected[0])) > 4
    check_drafts(target, "mtp", expected)

    def accepted(path: pathlib.Path, k: int, tree: int = 0) -> tuple[int, int]:
        """Over all prompts: drafts, cycles."""
        chosen: dict[str, Any] = {"draft_tree": tree} if tree else {"num_draft_tokens": k}
        gen, drafts, cycles = generator(path, "mtp", suffix=False, **chosen), 0, 0
        for prompt, tokens in zip(PROMPTS, expected, strict=True):
            completion = gen.generate(prompt, temperature=0, **OPTIONS)
            assert completion.tokens == tokens
            drafts, cycles = drafts + completion.stats.accepted, cycles + completion.stats.target_calls
        return drafts, cycles

    most, most_of_trees = [], []
    for bad in range(3):
        norm = f"blk.{model.shape.layers + bad}.nextn.shared_head_norm.weight"
        path = model.with_tensors({norm: -model.tensors[norm]}).write(tmp_path / "bad.gguf", GgmlType.F16)
        if bad > 0:
            assert accepted(path, bad) == accepted(target, bad)  # its place is behind these
        drafts, cycles = accepted(path, 5)
        assert drafts <= bad * cycles
        most.append(drafts)
        drafts, cycles = accepted(path, 0, 16)
        assert drafts <= bad * cycles
        most_of_trees.append(drafts / cycles)
    assert most == sorted(set(most)) and most_of_trees == sorted(set(most_of_trees))
    assert operator.truediv(*accepted(target, 0, 16)) > 1.5 * operator.truediv(*accepted(target, 5))


@of_every_family
def test_the_same_bits_in_any_pass(row: Row, name: str, tmp_path: pathlib.Path) -> None:
    """Other types of weights: tests/graph/test_batch_invariance_architectures.py."""
    model = make(name)
    path = str(model.write(tmp_path / "m.gguf", GgmlType.F16))
    tokens = random_tokens(model, 300)
    expected = _core.evaluate(path, tokens, [1], 1)
    for sizes in ([2], [3, 7, 5], [9], [33], [65], [300]):
        assert (_core.evaluate(path, tokens, sizes, 1) == expected).all(), sizes


def test_gpt_oss_with_experts_in_mxfp4(tmp_path: pathlib.Path) -> None:
    """As it is published: the experts in MXFP4, the rest in 16 bits."""
    model = make("gpt-oss")
    kept = [name for name in model.tensors if "exps" not in name]
    target = model.write(tmp_path / "target.gguf", GgmlType.MXFP4, kept)
    experts = {name: tensor for name, tensor in model.tensors.items() if name.endswith("exps.weight")}
    rounded = {name: dequantize(quantize(tensor, GgmlType.MXFP4), GgmlType.MXFP4) for name, tensor in experts.items()}
    assert len(rounded) == 6
    same = replace(model, tensors={**model.tensors, **rounded}).write(tmp_path / "same.gguf")
    tokens = random_tokens(model, 100)
    exact = model.write(tmp_path / "exact.gguf")
    rows, expected, other = (_core.evaluate(str(path), tokens, [100], 1) for path in (target, same, exact))
    assert 0 < abs(rows - expected).mean() < 0.02 * expected.std()  # activations are rounded to int8
    assert abs(other - expected).mean() > 0.05 * expected.std()  # control: the weights were rounded
    for sizes in ([1], [3, 7, 5], [33]):
        assert (_core.evaluate(str(target), tokens, sizes, 1) == rows).all(), sizes
    plain = generator(target, None, num_draft_tokens=0)
    texts = [plain.generate(prompt, temperature=0, **OPTIONS).tokens for prompt in PROMPTS]
    check_drafts(target, model.near(0.15).write(tmp_path / "draft.gguf", GgmlType.MXFP4, kept), texts)


OF_256_COLUMNS = ["Q4_K", "Q6_K", "TQ1_0", "TQ2_0", *(type.name for type in I_QUANTS)]


@pytest.mark.parametrize("type", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "NVFP4", *OF_256_COLUMNS])
def test_weights_of_every_type(type: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = make("mixtral", shape=Shape(width=256, ffn=256, head=64))
    check_weights(
        model,
        {name: GgmlType[type] for name in model.tensors if is_weight(name, model.tensors[name])},
        specdec,
        tmp_path,
    )


def test_files_of_many_types_with_an_importance_matrix(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What quantizers of mixes write, with the keys of the matrix that they used."""
    keys = {"quantize.imatrix.file": "imatrix.gguf", "quantize.imatrix.entries_count": 14}
    model = make("mixtral", shape=Shape(width=256, ffn=256, head=64))
    kinds = ["Q6_K", "IQ3_XXS", "F16", "IQ2_S", "Q4_K", "MXFP4", "TQ2_0", "BF16", "IQ1_M", "Q8_0", "IQ4_XS"]
    names = [name for name, tensor in model.tensors.items() if is_weight(name, tensor)]
    types = {name: GgmlType[kinds[i % len(kinds)]] for i, name in enumerate(names)}
    check_weights(replace(model, keys={**model.keys, **keys}), types, specdec, tmp_path)


def check_weights(model: Model, types: Mapping[str, GgmlType], specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Products, of experts too, are those of the decoded weights; the same bits in any pass, repacked and mapped."""
    target = model.write(tmp_path / "target.gguf", types)
    decoded = {
        name: dequantize(encoded(tensor, types[name]), types[name]) if name in types else tensor
        for name, tensor in model.tensors.items()
    }
    same = replace(model, tensors=decoded).write(tmp_path / "same.gguf")
    tokens = random_tokens(model, 70)
    rows, expected = (_core.evaluate(str(path), tokens, [70], 1) for path in (target, same))
    # Activations are rounded to int8, and few tokens get another expert.
    assert 0 < float(np.median(abs(rows - expected))) < 0.03 * expected.std()
    for sizes in ([1], [3, 7, 5], [33]):
        assert (_core.evaluate(str(target), tokens, sizes, 1) == rows).all(), sizes
    result = subprocess.run([specdec, "info", "--json", target], capture_output=True, timeout=60, check=True)
    known = json.loads(result.stdout)
    kernels = {tensor["name"]: tensor["kernel"] for tensor in known["tensors"]}
    for name, type in types.items():
        family = "floats" if type in (GgmlType.F16, GgmlType.BF16) else "blocks"
        looked_up = name == "token_embd.weight"
        assert kernels[name] == (None if looked_up else known["kernels"][family]), name
    assert kernels["blk.0.attn_norm.weight"] is None and kernels["blk.0.ffn_gate_inp.weight"] is not None
    sampled: sd.StreamOptions = {**OPTIONS, "seed": 3}
    repacked, mapped = (
        generator(target, None, num_draft_tokens=0, repack=repack).generate(PROMPTS[0], **sampled)
        for repack in (True, False)
    )
    assert repacked.tokens == mapped.tokens and len(set(mapped.tokens)) > 4


@pytest.mark.parametrize("architecture", ["rwkv6", "plamo2", "nonsense"])
def test_bits_that_are_not_tested(architecture: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = replace(make("llama"), architecture=architecture).write(tmp_path / "m.gguf")
    assert facts(specdec, path)["same_bits"] is False


@pytest.mark.parametrize("row", REFUSED, ids=[row.architecture for row in REFUSED])
def test_families_that_cannot_generate(row: Row, tmp_path: pathlib.Path) -> None:
    """The reason in the table is that of the error."""
    path = make_not_generative(row.architecture).write(tmp_path / "target.gguf")
    with pytest.raises(sd.ModelError) as error:
        generator(path, "suffix")
    text = str(error.value)
    assert text.startswith(f"{path}: ") and row.architecture in text and row.drafts.removeprefix("no: ") in text
