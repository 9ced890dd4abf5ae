"""sampling.verify_block on numpy arrays, against a reference written from the paper. C++ tests check the
distributions."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.sampling.random_cycles import cycles, draw

from specdec_native import sampling

pytestmark = pytest.mark.quick


def reference(drafted, draft, target, uniforms):
    """Sun et al., arXiv:2403.10444, algorithm 2. Returns the verdict and the distance of the nearest decision to a
    tie."""
    k, margin = len(drafted), 1.0
    p = [1.0]
    for i, token in enumerate(drafted):
        p.append(min(p[i] * target[i, token] / draft[i, token], 1.0))
    longest = 0
    for i in range(1, k + 1):
        if i == k:
            h = p[k]
        else:
            rest = np.maximum(p[i] * target[i] - draft[i], 0).sum()
            h = rest / (rest + 1 - p[i]) if rest > 0 else 0.0
        margin = min(margin, abs(uniforms[i - 1] - h))
        if uniforms[i - 1] < h:
            longest = i
    last = target[k]
    if longest < k:
        last = np.maximum(p[longest] * target[longest] - draft[longest], 0)
        if not last.any():
            last = target[longest]
        last = last / last.sum()
    margin = min(margin, np.abs(np.cumsum(last)[:-1] - uniforms[k]).min(initial=1.0))
    return (longest, draw(last, uniforms[k])), margin


@given(cycles())
@settings(max_examples=400, deadline=None, derandomize=True)
def test_against_numpy(cycle):
    drafted, draft, target, uniforms = cycle
    expected, margin = reference(drafted, draft, target, uniforms)
    if margin > 1e-12:
        assert tuple(sampling.verify_block(drafted, draft, target, uniforms)) == expected


def test_bad_input():
    half = [0.5, 0.5]
    with pytest.raises(ValueError, match=r"target_probs has shape \(1, 2\): must be \[K\+1, V\], K = 1"):
        sampling.verify_block([0], [half], [half], [0, 0])
    with pytest.raises(ValueError, match=r"draft_tokens\[0\] = 1 has probability 0 in draft_probs\[0\]"):
        sampling.verify_block([1], [[1.0, 0.0]], [half, half], [0, 0])
