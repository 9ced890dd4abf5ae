"""sampling.verify_token, residual and predicted_speedup on numpy arrays. The C++ tests check the exact distributions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling.random_cycles import cycles, draw, probability_rows

from specdec_native import sampling

DRAFT, TARGET = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.3, 0.45, 0.1, 0.15])


def reference(drafted, draft, target, uniforms):
    for i, token in enumerate(drafted):
        if uniforms[i] * draft[i, token] < target[i, token]:
            continue
        left = np.maximum(0, target[i] - draft[i])
        return i, draw(left / left.sum() if left.any() else target[i], uniforms[-1])
    return len(drafted), draw(target[-1], uniforms[-1])


def test_toy_example():
    np.testing.assert_allclose(sampling.residual(TARGET, DRAFT), [0, 0.75, 0, 0.25], atol=1e-15)
    for token, acceptance in enumerate([0.75, 1, 0.5, 1]):
        rows = [TARGET, TARGET]
        accepted = [
            sampling.verify_token([token], [DRAFT], rows, [u, 0.0]).num_accepted for u in (np.arange(1000) + 0.5) / 1000
        ]
        assert np.mean(accepted) == acceptance


def test_predicted_speedup():
    assert sampling.predicted_speedup(0.8, 4, 1.8, 14.1) == pytest.approx(2.648, abs=1e-3)
    assert sampling.predicted_speedup(0.62, 4, 1.8, 14.1) == pytest.approx(2.052, abs=1e-3)
    assert sampling.predicted_speedup(0.8, 4, 1.8, 14.1, t_target_batch=28.2) == pytest.approx(56.4 / 35.4)
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


def test_drafting_nothing():
    assert sampling.verify_token([], np.zeros((0, 3)), [[0.25, 0.25, 0.5]], [0.5]) == sampling.Verdict(0, 2)


def test_a_zero_probability_token_is_never_accepted():
    for target in ([0.0, 1.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]):
        draft = np.eye(len(target))[0]
        verdict = sampling.verify_token([0], [draft], [target, target], [0.0, 0.0])
        assert verdict.num_accepted == 0 and target[verdict.next_token] > 0


def test_residual_of_equal_rows_is_the_target():
    np.testing.assert_array_equal(sampling.residual(TARGET, TARGET), TARGET)


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


def chi_square_of_two_tokens(drafting, recorded, target, cycles=20000):
    """Chi-square of the first two tokens against the target: one cycle with K = 2, then a target token if it gave only one."""
    rng = np.random.default_rng(20260101)
    vocabulary = len(target)
    counts = np.zeros((vocabulary, vocabulary))
    draft_rows, target_rows = np.array([recorded] * 2), np.array([target] * 3)
    for _ in range(cycles):
        drafted = [draw(drafting, u) for u in rng.random(2)]
        num_accepted, next_token = sampling.verify_token(drafted, draft_rows, target_rows, rng.random(3))
        tokens = [*drafted[:num_accepted], next_token, draw(target, rng.random())]
        counts[tokens[0], tokens[1]] += 1
    expected = cycles * np.outer(target, target)
    return np.sum((counts - expected) ** 2 / expected)


CRITICAL = 37.697  # chi-square of 15 degrees of freedom at alpha = 0.001; the seed is fixed, so the outcome never changes


def test_chi_square():
    assert chi_square_of_two_tokens(DRAFT, DRAFT, TARGET) < CRITICAL


def test_chi_square_sees_argmax_drafting_with_a_recorded_softmax():
    assert chi_square_of_two_tokens(np.eye(4)[0], DRAFT, TARGET, cycles=5000) > 10 * CRITICAL
    assert chi_square_of_two_tokens(np.eye(4)[0], np.eye(4)[0], TARGET, cycles=5000) < CRITICAL  # recorded as one-hot: exact


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
