"""Generator.score against a forward pass in numpy; its bits for different batches."""

from __future__ import annotations

import asyncio
import pathlib

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.numpy_llama import exact
from tests.models.numpy_llama import logits as numpy_logits
from tests.models.tiny_models import make, random_tokens

import specdec_native as sd
from specdec_native import _core

TEXT = "import os\nimport sys\n\n\ndef main():\n    return os.path.join(sys.argv[1], 'a')\n" * 8


def log_softmax(rows: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    rows = rows.astype(np.float64)
    rows -= rows.max(-1, keepdims=True)
    result: npt.NDArray[np.float64] = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
    return result


def test_scores_are_those_of_a_forward_pass_in_numpy(tmp_path: pathlib.Path) -> None:
    model = make("llama")
    path = tmp_path / "llama.gguf"
    model.write(path, GgmlType.F32)
    tokens = random_tokens(model, 100)
    rows = log_softmax(numpy_logits(model, tokens, exact))
    with sd.Generator(path, n_threads=2) as gen:
        score = gen.score(tokens)
    assert score.tokens == tokens and score.logprobs[0] is None and score.most_likely[0] is None
    expected = rows[np.arange(99), tokens[1:]]
    assert np.abs(np.array(score.logprobs[1:], dtype=np.float64) - expected).max() < 2e-3  # F16 caches, float32 sums
    assert score.total == pytest.approx(expected.sum(), abs=0.02)
    assert np.mean(np.array(score.most_likely[1:]) == rows[:-1].argmax(-1)) > 0.97  # near-ties


def test_scores_are_the_softmax_of_the_engines_rows(target_path: pathlib.Path) -> None:
    gen = sd.Generator(n_threads=2)
    score = gen.score(TEXT)
    assert score.tokens == gen.tokenize(TEXT)
    rows = _core.evaluate(str(target_path), score.tokens, [7], n_threads=2)
    expected = log_softmax(rows)[np.arange(len(rows) - 1), score.tokens[1:]]
    assert np.abs(np.array(score.logprobs[1:], dtype=np.float64) - expected).max() < 1e-12
    assert score.most_likely[1:] == rows[:-1].argmax(-1).tolist()


def test_scores_do_not_depend_on_batches(target_path: pathlib.Path) -> None:
    first = sd.Generator(target_path, n_threads=1, n_batch=64).score(TEXT)
    for n_batch, max_sequences, n_threads in ((512, 1, 2), (200, 3, 2), (64, 8, 1)):
        with sd.Generator(target_path, n_batch=n_batch, max_sequences=max_sequences, n_threads=n_threads) as gen:
            assert gen.score(TEXT) == first


def test_the_most_likely_tokens(target_path: pathlib.Path) -> None:
    with sd.Generator(n_threads=2) as gen:
        plain, score = gen.score(TEXT), gen.score(TEXT, top_logprobs=20)
    assert (score.tokens, score.logprobs, score.most_likely) == (plain.tokens, plain.logprobs, plain.most_likely)
    assert plain.top_logprobs == [()] * len(plain.tokens) and score.top_logprobs[0] == ()
    rows = log_softmax(_core.evaluate(str(target_path), score.tokens, [7], n_threads=2))
    for row, top, token, logprob in zip(
        rows, score.top_logprobs[1:], score.tokens[1:], score.logprobs[1:], strict=False
    ):
        tokens = [one for one, _ in top]
        assert tokens == np.argsort(-row, kind="stable")[:20].tolist()
        assert np.abs(np.array([one for _, one in top]) - row[tokens]).max() < 1e-12
        assert dict(top).get(token, logprob) == logprob


def test_scores_under_load_have_the_same_bits() -> None:
    texts = [TEXT, "import os\n", TEXT[:50], [5], TEXT + "x = 1\n", TEXT]
    with sd.Generator(n_threads=2, max_sequences=3, n_batch=64) as gen:
        expected = [gen.score(text, top_logprobs=i) for i, text in enumerate(texts)]
        outputs = [gen.generate(TEXT, max_tokens=30, seed=i).tokens for i in range(6)]
        handles = []
        for i, text in enumerate(texts):
            handles.append((gen.submit(TEXT, max_tokens=30, seed=i), gen.submit_score(text, top_logprobs=i)))
        cancelled = gen.submit_score(TEXT)
        cancelled.cancel()
        for (request, score), output, wanted in zip(handles, outputs, expected, strict=True):
            assert request.result().tokens == output
            assert score.score() == wanted
            assert score.result().tokens == []
        with pytest.raises(sd.Cancelled):
            cancelled.score()
        with pytest.raises(ValueError, match="has no scores"):
            handles[0][0].score()

        async def scores() -> list[sd.Score]:
            return await asyncio.gather(*(gen.ascore(text, top_logprobs=i) for i, text in enumerate(texts)))

        assert asyncio.run(scores()) == expected


@pytest.mark.parametrize("max_sequences", [1, 3])
def test_a_score_reuses_what_another_one_has_read(max_sequences: int) -> None:
    """The longest beginning that is scored in a cache, also with fewer of the most likely tokens, and no other."""
    base = sd.Generator(n_threads=2).tokenize(TEXT)
    other = sd.Generator(n_threads=2).tokenize("class Stack:\n    pass\n")
    with sd.Generator(n_threads=2, max_sequences=max_sequences, n_batch=64) as gen:

        def run(tokens: list[int], top_logprobs: int = 0) -> int:
            with sd.Generator(n_threads=2) as fresh:
                expected = fresh.score(tokens, top_logprobs=top_logprobs)
            with gen.submit_score(tokens, top_logprobs=top_logprobs) as handle:
                assert handle.score() == expected
                return handle.stats.prompt_cached_tokens

        assert run(base, 3) == 0
        assert run(base, 3) == len(base) - 1  # nothing is read
        assert run(base + other, 2) == len(base) - 1
        assert run(base[:50] + other, 2) == 49
        assert run(base[:20]) == 19
        if max_sequences == 1:
            assert run(base[:20], 5) == 0  # the alternatives of the earlier score are too few
        gen.generate(other + base, max_tokens=8)
        assert run(other + base[:10]) == 0  # was read without scores
        gen.score(base)
        gen.generate(base + other[:3], max_tokens=4, seed=1)
        with sd.Generator(n_threads=2) as fresh:
            assert gen.generate(base, max_tokens=6, seed=1).tokens == fresh.generate(base, max_tokens=6, seed=1).tokens


def test_random_scores_have_the_bits_of_fresh_ones() -> None:
    """Scores, choices and texts in any order, in shared slots: every element equals that of a text scored alone."""
    random = np.random.default_rng(3)
    tokens = sd.Generator(n_threads=2).tokenize(TEXT)
    with sd.Generator(n_threads=2) as fresh, sd.Generator(n_threads=2, max_sequences=2, n_batch=64) as gen:
        for _ in range(60):
            begin, length = int(random.integers(3)), int(random.integers(2, 60))
            text = tokens[begin : begin + length] + random.integers(300, 900, int(random.integers(4))).tolist()
            kind = random.integers(3)
            if kind == 0:
                gen.generate(text, max_tokens=3, seed=1)
            elif kind == 1:
                top = int(random.integers(4))
                expected = _alone(fresh, text, top)
                assert gen.score(text, top_logprobs=top) == expected
            else:
                split = int(random.integers(1, len(text)))
                (one,) = gen.score_choices(text[:split], [text[split:]])
                assert one.logprobs == _alone(fresh, text, 0).logprobs[split:]


def _alone(fresh: sd.Generator, text: list[int], top_logprobs: int) -> sd.Score:
    fresh.generate([1], max_tokens=1)  # takes the only slot: nothing of an earlier score is left
    return fresh.score(text, top_logprobs=top_logprobs)


def test_a_generator_goes_on_after_a_score() -> None:
    gen, other = sd.Generator(n_threads=2), sd.Generator(n_threads=2)
    for prompt in (TEXT, "import os\n"):
        gen.score(TEXT)
        assert gen.generate(prompt, max_tokens=12, seed=4).text == other.generate(prompt, max_tokens=12, seed=4).text
    stream = gen.stream("import os\n", max_tokens=20)
    next(stream)
    assert gen.score([5]).logprobs == [None]
    assert len(list(stream)) == 19  # a score ends nothing


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", ValueError, "empty"),
        ([], ValueError, "empty"),
        ([1, -1], ValueError, "token"),
        ([1, 10**6], ValueError, "token"),
        (5, TypeError, "prompt is 5"),
        ("import os\n" * 5000, sd.ContextFull, "the context holds"),
    ],
)
def test_bad_texts(text: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sd.Generator(n_threads=1).score(text)  # type: ignore[arg-type]
