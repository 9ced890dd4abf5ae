"""That a drafting head has read the whole prompt, however that was cut into passes."""

from __future__ import annotations

import math
import pathlib

from tests.models.tiny_models import make, random_tokens

import specdec_native as sd

PROMPT = random_tokens(make("llama"), 150, seed=5)
SHORT = PROMPT[:40]  # inside a sliding window, so that it can be saved


def texts(gen: sd.Generator, prompt: list[int], seeds: int = 8) -> list[list[int]]:
    """With block verification a text depends on the rows that its drafts are sampled from."""
    options: sd.StreamOptions = {"max_tokens": 12, "temperature": 1.0, "verification": "block"}
    options |= {"logit_bias": {1: -math.inf}, "num_draft_tokens": 4}
    return [gen.generate(prompt, seed=seed, **options).tokens for seed in range(seeds)]


def check_primed(target: pathlib.Path, draft: pathlib.Path | str, tmp_path: pathlib.Path) -> None:
    """The drafts' rows are the same whether the prompt was read in one pass, in several, in part by an earlier request,
    or beside others. The control: a head that has not read it makes other rows."""

    def generator(source: pathlib.Path | str, **options: int) -> sd.Generator:
        return sd.Generator(target, source, n_threads=1, n_ctx=256, suffix=False, draft_weights="file", **options)

    expected = texts(generator(draft), PROMPT)
    assert texts(generator(draft, n_batch=64), PROMPT) == expected
    continued = generator(draft, max_sequences=2)
    continued.generate(PROMPT[:75], max_tokens=2, temperature=0.0)
    beside = continued.submit(PROMPT[:0:-1], max_tokens=60, temperature=0.0)
    assert texts(continued, PROMPT) == expected
    beside.result()
    with sd.Generator(target, "suffix", n_threads=1, n_ctx=256) as without:
        without.generate(SHORT[:30], max_tokens=1, temperature=0.0)
        without.save_prefix(tmp_path / "prefix")
    unprimed = generator(draft)
    unprimed.load_prefix(tmp_path / "prefix")
    assert texts(unprimed, SHORT, 40) != texts(generator(draft), SHORT, 40)
