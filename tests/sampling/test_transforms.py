"""sampling.transform against a plain numpy version of the same definitions."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specdec_native import sampling

pytestmark = pytest.mark.quick


def adjusted(logits, *, repeat_penalty, frequency_penalty, presence_penalty, penalty_last_n, logit_bias, history):
    """Logit bias, then penalties."""
    row = np.array(logits, dtype=np.float64)
    for token, bias in logit_bias.items():
        row[token] += bias
    window = history if penalty_last_n == -1 else history[max(0, len(history) - penalty_last_n) :]
    for token in set(window):
        row[token] = row[token] / repeat_penalty if row[token] > 0 else row[token] * repeat_penalty
        row[token] -= window.count(token) * frequency_penalty + presence_penalty
    return row


def reference(row, *, temperature, top_k, top_p, min_p):
    """The distribution of a row after bias and penalties: sorts it, cuts it three times, then applies temperature and
    softmax.

    Second result: the smallest distance of any decision to a tie.
    """
    margin = np.inf
    order = np.lexsort((np.arange(len(row)), -row))  # by logit, highest first; equal ones by id
    order = order[row[order] > -np.inf]
    highest = row[order[0]]
    if temperature < 1e-5:
        return np.eye(len(row))[order[0]], margin

    if top_k > 0:
        order = order[:top_k]
    if top_p < 1:
        weights = np.exp(row[order] - highest)
        cumulative = np.cumsum(weights) / np.sum(weights)
        margin = np.min(np.abs(cumulative - top_p))
        order = order[: np.count_nonzero(cumulative < top_p) + 1]
    if min_p > 0:
        distance = row[order] - highest - np.log(min_p)
        margin = min(margin, np.min(np.abs(distance[row[order] < highest]), initial=np.inf))
        order = order[(distance >= 0) | (row[order] == highest)]

    probs = np.zeros(len(row))
    probs[order] = np.exp((row[order] - highest) / temperature)
    return probs / probs.sum(), margin


def check(logits, history=(), **parameters):
    """Compares with the reference. False if nothing was compared, or a decision depends on rounding."""
    defaults = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    shape = {name: parameters.pop(name, value) for name, value in defaults.items()}
    adjust = {
        "repeat_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "penalty_last_n": 64,
        "logit_bias": {},
    }
    adjust |= {**parameters, "history": list(history)}
    row = adjusted(logits, **adjust)
    if not np.any(row > -np.inf):
        return False
    expected, margin = reference(row, **shape)
    if margin < 1e-9:
        return False

    probs = sampling.transform(logits, **shape, **adjust)
    assert probs.dtype == np.float64 and probs.shape == (len(logits),)
    np.testing.assert_allclose(probs, expected, rtol=0, atol=1e-12)
    assert abs(probs.sum() - 1) < 1e-12
    return True


ordinary = st.floats(-30, 30, width=32)
tied = st.integers(-3, 3).map(float)
extreme = st.sampled_from([0.0, -0.0, 1e-40, 1e30, 3.4e38, -3.4e38, -1e30, 88.0, -745.0, -np.inf])
logit_rows = st.one_of(
    *(st.lists(values, min_size=1, max_size=40) for values in (ordinary, tied, ordinary | tied | extreme))
)
shapes = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 1e-4, 0.5, 0.8, 1.0, 2.0, 1e4]) | st.floats(1e-3, 100),
        "top_k": st.integers(0, 45),
        "top_p": st.just(1.0) | st.floats(1e-6, 1),
        "min_p": st.sampled_from([0.0, 1.0]) | st.floats(1e-9, 1),
    }
)


@given(st.data(), logit_rows, shapes)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_against_numpy(data, logits, shape):
    tokens = st.integers(0, len(logits) - 1)
    penalties = {
        "repeat_penalty": data.draw(st.just(1.0) | st.floats(0.5, 2)),
        "frequency_penalty": data.draw(st.just(0.0) | st.floats(-2, 2)),
        "presence_penalty": data.draw(st.just(0.0) | st.floats(-2, 2)),
        "penalty_last_n": data.draw(st.integers(-1, 12)),
    }
    bias = data.draw(st.dictionaries(tokens, st.just(-np.inf) | st.floats(-10, 10), max_size=4))
    history = data.draw(st.lists(tokens, max_size=15))
    row = np.array(logits, dtype=np.float32)
    assume(check(row, history, logit_bias=bias, **penalties, **shape))


@pytest.mark.parametrize("size", [1000, 152000])
@pytest.mark.parametrize(
    "shape", [{}, {"top_k": 40}, {"top_p": 0.9}, {"top_p": 0.999, "temperature": 0.7}, {"min_p": 0.02}]
)
def test_large_vocabularies(size, shape):
    logits = np.random.default_rng(size).normal(0, 3, size).astype(np.float32)
    assert check(logits, **shape)


def test_huge_and_tiny_logits():
    np.testing.assert_array_equal(sampling.transform([3e38, -3e38, 3e38]), [0.5, 0, 0.5])
    np.testing.assert_array_equal(sampling.transform([1e-300, 0, -1e-300, 5e-324]), [0.25] * 4)
    np.testing.assert_array_equal(sampling.transform([-1e308, 1e308], temperature=1e-5), [0, 1])


def test_any_real_dtype():
    expected = sampling.transform([1.0, 2.0, 3.0], top_k=2)
    for dtype in (np.float16, np.float32, np.float64, np.int32):
        np.testing.assert_array_equal(sampling.transform(np.array([1, 2, 3], dtype=dtype), top_k=2), expected)
    strided = np.array([1, 0, 2, 0, 3, 0], dtype=np.float32)[::2]
    np.testing.assert_array_equal(sampling.transform(strided, top_k=2), expected)


@pytest.mark.parametrize(
    ("logits", "options", "message"),
    [
        ([0.0, np.nan], {}, r"logits contain NaN \(first at id 1\)"),
        ([0.0, np.inf], {"top_k": 1}, r"logits contain \+inf \(first at id 1\)"),
        ([-np.inf, -np.inf], {}, "no finite logit among 2"),
        ([], {}, "no finite logit among 0"),
        ([1.0, 2.0], {"logit_bias": {0: -np.inf, 1: -np.inf}}, "no finite logit"),
        ([[1.0, 2.0]], {}, r"logits has shape \(1, 2\): must be \[V\]"),
        ([1.0], {"temperature": -1}, "temperature is -1; it must be a finite number of at least 0"),
        ([1.0], {"temperature": np.nan}, "temperature is nan"),
        ([1.0], {"top_k": -1}, "top_k is -1"),
        ([1.0], {"top_p": 0}, r"top_p is 0; it must be a number above 0 and at most 1"),
        ([1.0], {"min_p": 2}, "min_p is 2"),
        ([1.0], {"repeat_penalty": 0}, "repeat_penalty is 0"),
        ([1.0], {"penalty_last_n": -2}, "penalty_last_n is -2"),
        ([1.0], {"logit_bias": {0: np.inf}}, r"logit_bias\[0\] is inf"),
        ([1.0], {"logit_bias": {1: 0.0}}, r"logit_bias token is 1; it must be an integer in \[0, 1\)"),
        ([1.0], {"history": [0, 7]}, r"history\[1\] is 7; it must be an integer in \[0, 1\)"),
        ([1.0], {"history": [0.5]}, r"history\[0\] is 0.5; it must be an integer"),
        ([1.0], {"history": [[0]]}, r"history has shape \(1, 1\)"),
    ],
)
def test_bad_input(logits, options, message):
    with pytest.raises(ValueError, match=message):
        sampling.transform(logits, **options)


def test_not_numbers():
    with pytest.raises(TypeError):
        sampling.transform(["a", "b"])
    with pytest.raises(TypeError):
        sampling.transform([1.0], top_k=1.5)
