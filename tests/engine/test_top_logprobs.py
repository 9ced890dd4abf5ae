"""The most likely tokens in each place: against a forward pass in numpy, and the same bits whatever is drafted."""

from __future__ import annotations

import pathlib
from typing import cast

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.numpy_llama import exact
from tests.models.numpy_llama import logits as numpy_logits
from tests.models.tiny_models import make, random_tokens

import specdec_native as sd
from specdec_native._options import Drafting, Verification

PROMPT = "def bfs(graph, start):\n"


def test_they_are_those_of_a_forward_pass_in_numpy(tmp_path: pathlib.Path) -> None:
    model = make("llama")
    path = tmp_path / "llama.gguf"
    model.write(path, GgmlType.F32)
    prompt = random_tokens(model, 20)
    with sd.Generator(path, n_threads=1) as gen:
        completion = gen.generate(prompt, max_tokens=40, seed=2, temperature=1.5, top_k=3, top_logprobs=20)
    rows = numpy_logits(model, prompt + completion.tokens, exact)
    rows -= rows.max(-1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(-1, keepdims=True))
    for piece, row in zip(completion.pieces, rows[len(prompt) - 1 : -1], strict=True):
        tokens = [token for token, _ in piece.top_logprobs]
        logprobs = np.array([logprob for _, logprob in piece.top_logprobs])
        assert len(set(tokens)) == 20 and (np.diff(logprobs) <= 0).all()
        assert np.abs(logprobs - row[tokens]).max() < 5e-3  # F16 caches, float32 sums
        assert np.abs(logprobs - np.sort(row)[:-21:-1]).max() < 5e-3  # in order, except for near-ties
        assert dict(piece.top_logprobs).get(piece.token, piece.logprob) == piece.logprob


@pytest.mark.parametrize("verification", ["token", "block", "invariant"])
@pytest.mark.parametrize("drafting", ["sampled", "argmax"])
def test_they_have_the_same_bits_with_drafts(target_path: pathlib.Path, verification: str, drafting: str) -> None:
    modes = {"verification": cast(Verification, verification), "drafting": cast(Drafting, drafting)}
    with sd.Generator(n_threads=1) as gen, sd.Generator(target_path, n_threads=1) as plain:
        for seed in range(3):
            drafted = gen.generate(PROMPT, max_tokens=40, seed=seed, num_draft_tokens=4, top_logprobs=5, **modes)
            assert drafted.stats.accepted > 0
            # Plain decoding is made to take the same path.
            prompt = gen.tokenize(PROMPT)
            for i, piece in enumerate(drafted.pieces):
                [one] = plain.generate(prompt + drafted.tokens[:i], max_tokens=1, temperature=0, top_logprobs=5).pieces
                assert piece.top_logprobs == one.top_logprobs
                assert one.token == one.top_logprobs[0][0] and one.logprob == one.top_logprobs[0][1]


def test_they_do_not_change_the_output() -> None:
    with sd.Generator(n_threads=1) as gen:
        without = gen.generate(PROMPT, max_tokens=40, seed=7)
        pieces = gen.generate(PROMPT, max_tokens=40, seed=7, top_logprobs=20).pieces
    assert all(piece.top_logprobs == () for piece in without.pieces)
    assert [(piece.token, piece.text, piece.logprob) for piece in pieces] == [
        (piece.token, piece.text, piece.logprob) for piece in without.pieces
    ]


def test_requests_beside_each_other_have_their_own() -> None:
    with sd.Generator(n_threads=1, max_sequences=3) as gen:
        alone = [gen.generate(PROMPT, max_tokens=20, seed=i, top_logprobs=i).pieces for i in range(6)]
        handles = [gen.submit(PROMPT, max_tokens=20, seed=i, top_logprobs=i) for i in range(6)]
        for i, handle in enumerate(handles):
            pieces = handle.result().pieces
            assert all(len(piece.top_logprobs) == i for piece in pieces)
            assert [(piece.token, piece.top_logprobs) for piece in pieces] == [
                (p.token, p.top_logprobs) for p in alone[i]
            ]


def test_after_a_stop_string() -> None:
    with sd.Generator(n_threads=1) as gen:
        text = gen.generate(PROMPT, max_tokens=60, temperature=0).text
        stopped = gen.generate(
            PROMPT, max_tokens=60, temperature=0, stop=text[20:26], num_draft_tokens=7, top_logprobs=2
        )
        assert stopped.finish_reason == "stop"
        assert all(piece.top_logprobs[0] == (piece.token, piece.logprob) for piece in stopped.pieces)


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (21, ValueError), (1.5, TypeError), ("5", TypeError)])
def test_bad_values(value: object, error: type[Exception]) -> None:
    with sd.Generator(n_threads=1) as gen, pytest.raises(error, match="top_logprobs"):
        gen.generate(PROMPT, max_tokens=1, top_logprobs=value)  # type: ignore[arg-type]
