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
            assert score.result().tokens == [] and score.stats.prompt_cached_tokens == 0
        with pytest.raises(sd.Cancelled):
            cancelled.score()
        with pytest.raises(ValueError, match="has no scores"):
            handles[0][0].score()

        async def scores() -> list[sd.Score]:
            return await asyncio.gather(*(gen.ascore(text, top_logprobs=i) for i, text in enumerate(texts)))

        assert asyncio.run(scores()) == expected


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
