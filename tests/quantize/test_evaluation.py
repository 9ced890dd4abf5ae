"""`specdec perplexity` against numpy: log-softmax, divergence, windows, statistics.

Models whose layers write nothing: the logits after a token are those of its embedding alone, a line of numpy. One token
is one byte of the text, so that windows can be told from outside.
"""

from __future__ import annotations

import json
import pathlib
import string
import subprocess

import numpy as np
import numpy.typing as npt
import pytest
from tests.models.tiny_models import Model, Vocabulary, make

F64Array = npt.NDArray[np.float64]
BYTES = Vocabulary(merges=("ÿ ÿ",))  # never merges anything in ASCII


def perplexity(specdec: pathlib.Path, model: pathlib.Path, text: str, *options: object) -> dict:
    finished = subprocess.run(
        [specdec, "perplexity", "--json", "-t", "1", "-f", "-", *map(str, options), model],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def bigram(seed: int) -> Model:
    model = make("llama", seed, vocabulary=BYTES)
    silent = ("attn_output.weight", "ffn_down.weight")
    return model.with_tensors({name: np.zeros_like(t) for name, t in model.tensors.items() if name.endswith(silent)})


def random_text(length: int, seed: int = 0) -> str:
    letters = np.array(list(string.ascii_letters + string.punctuation))
    return "".join(np.random.default_rng(seed).choice(letters, length))


# ---- The same in numpy


def windows(text: str, window: int) -> list[list[int]]:
    tokens = [BYTES.bos, *(2 + byte for byte in text.encode())]
    return [[BYTES.bos, *tokens[at + 1 : at + window]] for at in range(0, len(tokens) - window + 1, window)]


def log_probabilities(model: Model, tokens: list[int]) -> F64Array:
    """[tokens, vocabulary]"""
    x = model.tensors["token_embd.weight"][tokens].astype(np.float64)
    x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    logits = (x * model.tensors["output_norm.weight"]) @ model.tensors["output.weight"].T.astype(np.float64)
    return (
        logits
        - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
        - logits.max(-1, keepdims=True)
    )


def scored(model: Model, text: str, window: int) -> tuple[F64Array, list[int]]:
    """Log-probabilities of every scored prediction, and the actual next tokens."""
    rows, nexts = [], []
    for tokens in windows(text, window):
        rows.append(log_probabilities(model, tokens)[window // 2 : window - 1])
        nexts += tokens[window // 2 + 1 :]
    return np.concatenate(rows), nexts


def mean(samples: F64Array) -> dict[str, float]:
    return {"value": samples.mean(), "standard_error": samples.std(ddof=1) / np.sqrt(len(samples))}


@pytest.mark.parametrize("window", [16, 33, 700])
def test_against_numpy(specdec: pathlib.Path, tmp_path: pathlib.Path, window: int) -> None:
    models = [bigram(seed) for seed in (0, 1)]
    model, reference = (m.write(tmp_path / f"{i}.gguf") for i, m in enumerate(models))
    text = random_text(2 * window + 11)
    result = perplexity(specdec, model, text, "-c", window, "--against", reference)

    q, nexts = scored(models[0], text, window)
    p, _ = scored(models[1], text, window)
    loss, reference_loss = (-rows[np.arange(len(nexts)), nexts] for rows in (q, p))
    divergence = (np.exp(p) * (p - q)).sum(-1)
    expected = mean(loss)
    close = {"rel": 1e-4, "abs": 1e-6}
    assert (result["windows"], result["window_tokens"], result["tokens_scored"]) == (2, window, len(nexts))
    assert result["negative_log_likelihood"] == pytest.approx(expected, **close)
    assert result["perplexity"]["value"] == pytest.approx(np.exp(expected["value"]), rel=1e-4)
    assert result["perplexity"]["standard_error"] == pytest.approx(
        np.exp(expected["value"]) * expected["standard_error"], rel=1e-4
    )
    assert result["reference_perplexity"]["value"] == pytest.approx(np.exp(reference_loss.mean()), rel=1e-4)
    assert result["log_perplexity_ratio"] == pytest.approx(mean(loss - reference_loss), **close)
    assert result["kl_divergence"] == pytest.approx(
        {
            "mean": divergence.mean(),
            "standard_error": mean(divergence)["standard_error"],
            "median": np.median(divergence),
            "percentile_99": np.quantile(divergence, 0.99),
            "max": divergence.max(),
        },
        **close,
    )
    assert result["same_top_token"] == pytest.approx(mean((p.argmax(-1) == q.argmax(-1)).astype(np.float64)), **close)


def test_a_uniform_model(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = make("llama", vocabulary=BYTES)
    flat = model.with_tensors({"output.weight": np.zeros_like(model.tensors["output.weight"])}).write(
        tmp_path / "flat.gguf"
    )
    result = perplexity(specdec, flat, random_text(100), "-c", 32)
    assert result["perplexity"]["value"] == pytest.approx(BYTES.size, rel=1e-12)
    assert result["perplexity"]["standard_error"] == pytest.approx(0, abs=1e-9)


def test_a_model_against_itself(specdec: pathlib.Path, draft_path: pathlib.Path, library_prompts: list[str]) -> None:
    result = perplexity(
        specdec, draft_path, "\n".join(library_prompts), "-c", 300, "--chunks", 2, "--against", draft_path
    )
    assert set(result["kl_divergence"].values()) == {0.0}
    assert result["same_top_token"] == {"value": 1.0, "standard_error": 0.0}
    assert result["log_perplexity_ratio"] == {"value": 0.0, "standard_error": 0.0}


def test_windows_do_not_see_each_other(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With attention: two windows in one run give the same as each alone."""
    path = make("llama", vocabulary=BYTES).write(tmp_path / "a.gguf")
    text, window = random_text(80), 40
    both = perplexity(specdec, path, text, "-c", window)
    alone = [
        perplexity(specdec, path, part, "-c", window) for part in (text[: window - 1], text[window : 2 * window - 1])
    ]
    losses = [result["negative_log_likelihood"]["value"] for result in alone]
    assert losses[0] != losses[1]
    assert both["negative_log_likelihood"]["value"] == pytest.approx(np.mean(losses), rel=1e-12)
    assert perplexity(specdec, path, text, "-c", window, "--chunks", 1) == alone[0]


def test_threads_do_not_matter(
    specdec: pathlib.Path, draft_path: pathlib.Path, target_path: pathlib.Path, library_prompts
) -> None:
    text = "\n".join(library_prompts)
    results = [
        perplexity(specdec, draft_path, text, "-c", 64, "--chunks", 2, "--against", target_path, "-t", t)
        for t in (1, 2)
    ]
    assert results[0] == results[1]
