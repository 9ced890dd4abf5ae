"""sampling.verify_token, residual and predicted_speedup on numpy arrays. The C++ tests check the exact
distributions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling.random_cycles import cycles, draw, probability_rows

from specdec_native import sampling

pytestmark = pytest.mark.quick


def reference(drafted, draft, target, uniforms):
    for i, token in enumerate(drafted):
        if uniforms[i] * draft[i, token] < target[i, token]:
            continue
        left = np.maximum(0, target[i] - draft[i])
        return i, draw(left / left.sum() if left.any() else target[i], uniforms[-1])
    return len(drafted), draw(target[-1], uniforms[-1])


def test_predicted_speedup():
    assert sampling.predicted_speedup(0.8, 4, 1.8, 14.1) == pytest.approx(2.648, abs=1e-3)
    with pytest.raises(ValueError, match=r"rate is 1.5; it must be in \(0, 1\]"):
        sampling.predicted_speedup(1.5, 4, 1.8, 14.1)


def test_verdict():
    verdict = sampling.verify_token([0], [[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])
    num_accepted, next_token = verdict
    assert (num_accepted, next_token) == (verdict.num_accepted, verdict.next_token) == (1, 1)
    assert repr(verdict) == "Verdict(num_accepted=1, next_token=1)"
    assert verdict == sampling.Verdict(num_accepted=1, next_token=1) != sampling.Verdict(0, 1)
    assert verdict != (1, 1)
    assert len({verdict, sampling.Verdict(1, 1), sampling.Verdict(1, 0)}) == 2
    with pytest.raises(AttributeError):
        verdict.num_accepted = 0


@given(cycles())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_against_numpy(cycle):
    drafted, draft, target, uniforms = cycle
    verdict = sampling.verify_token(drafted, draft, target, uniforms)
    assert tuple(verdict) == reference(drafted, draft, target, uniforms)


@given(st.data(), st.integers(1, 8))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_residual_against_numpy(data, vocabulary):
    target, draft = data.draw(probability_rows(2, vocabulary))
    left = np.maximum(0, target - draft)
    expected = left / left.sum() if left.any() else target
    np.testing.assert_allclose(sampling.residual(target, draft), expected, rtol=0, atol=1e-12)


HALF = [0.5, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0]], [HALF], [HALF, HALF], [0, 0]), r"draft_tokens has shape \(1, 1\): must be \[K\]"),
        (([0], HALF, [HALF, HALF], [0, 0]), r"draft_probs has shape \(2,\): must be \[K, V\], K = 1"),
        (([0], [HALF, HALF], [HALF, HALF], [0, 0]), r"draft_probs has shape \(2, 2\): must be \[K, V\], K = 1"),
        (([0], [[1.0]], [HALF, HALF], [0, 0]), r"draft_probs has shape \(1, 1\).*V = 2 as target_probs"),
        (([0], [HALF], [HALF], [0, 0]), r"target_probs has shape \(1, 2\): must be \[K\+1, V\], K = 1"),
        (([0], [HALF], [HALF, HALF], [0]), r"uniforms has shape \(1,\): must be \[K\+1\], K = 1"),
        (([2], [HALF], [HALF, HALF], [0, 0]), r"draft_tokens\[0\] is 2; it must be an integer in \[0, 2\)"),
        (([-1], [HALF], [HALF, HALF], [0, 0]), r"draft_tokens\[0\] is -1"),
        (([0.5], [HALF], [HALF, HALF], [0, 0]), r"draft_tokens\[0\] is 0.5; it must be an integer"),
        (([0], [[np.nan, 1]], [HALF, HALF], [0, 0]), r"draft_probs\[0\]\[0\] is nan; it must be a probability"),
        (([0], [HALF], [HALF, [-0.5, 1.5]], [0, 0]), r"target_probs\[1\]\[0\] is -0.5; it must be a probability"),
        (([0], [HALF], [HALF, [0.5, 0.4]], [0, 0]), r"sum of target_probs\[1\] is 0.9; it must be 1"),
        (([0], [[0.5, 0.50001]], [HALF, HALF], [0, 0]), r"sum of draft_probs\[0\] is 1.00001"),
        (([1], [[1.0, 0.0]], [HALF, HALF], [0, 0]), r"draft_tokens\[0\] = 1 has probability 0 in draft_probs\[0\]"),
        (([0], [HALF], [HALF, HALF], [1.0, 0]), r"uniforms\[0\] is 1; it must be in \[0, 1\)"),
        (([0], [HALF], [HALF, HALF], [0, -0.1]), r"uniforms\[1\] is -0.1"),
        (([0], [HALF], [HALF, HALF], [0, np.nan]), r"uniforms\[1\] is nan"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        sampling.verify_token(*arguments)


@pytest.mark.parametrize(
    ("target", "draft", "message"),
    [
        ([HALF], [HALF], r"target_probs has shape \(1, 2\): must be \[V\]"),
        (HALF, [0.2, 0.3, 0.5], r"draft_probs has shape \(3,\): must be \[V\], V = 2"),
        ([0.5, np.inf], HALF, r"target_probs\[1\] is inf"),
        ([], [], r"sum of target_probs is 0"),
        (HALF, [0.5, 0.4], "sum of draft_probs is 0.9"),
    ],
)
def test_bad_residual(target, draft, message):
    with pytest.raises(ValueError, match=message):
        sampling.residual(target, draft)
