"""Drafting heads and block drafters on a device: the target gives hidden rows, and its text does not change."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from tests.models.tiny_models import Block, Model, block_drafter, damped, eagle3_head, make, with_head, with_mask

import specdec_native as sd

PROMPT = "def the self return"


def pair(name: str) -> tuple[Model, Model | None]:
    kind, _, architecture = name.partition(":")
    if kind == "mtp":
        return with_head(architecture, layers=1), None
    if kind == "eagle3":
        target = damped(make(architecture))
        return target, eagle3_head(target, own_parts=False)
    target = with_mask(make(architecture))
    return target, block_drafter(target, Block(biased=kind == "dspark"))


def output(target: pathlib.Path, draft: Any, device: str, k: int) -> tuple[list[int], bytes]:
    gen = sd.Generator(
        target, draft, n_gpu_layers="all", devices=device, n_threads=1, n_ctx=512, num_draft_tokens=k, suffix=False
    )
    made = gen.generate(PROMPT, max_tokens=24, temperature=0.0)
    assert k == 0 or made.stats.drafted > 0
    return list(made.tokens), np.array([piece.logprob for piece in made.pieces]).tobytes()


@pytest.mark.parametrize("name", ["mtp:qwen35", "eagle3:llama", "dflash:llama", "dspark:lfm2"])
def test_a_head_changes_nothing(name: str, device: str, tmp_path: pathlib.Path) -> None:
    target, head = pair(name)
    path = target.write(tmp_path / "target.gguf")
    draft = "mtp" if head is None else head.write(tmp_path / "head.gguf")
    expected = output(path, None, device, 0)
    for k in (2, 5):
        assert output(path, draft, device, k) == expected, k
