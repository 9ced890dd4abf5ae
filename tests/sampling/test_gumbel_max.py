"""sampling.gumbel_max against argmax(log p + G), with noise made here from Philox4x32-10 and the documented
counters."""

import numpy as np
import pytest

from specdec_native import sampling

pytestmark = pytest.mark.quick

MASK = 0xFFFFFFFF


def philox(counter, key):
    """Salmon et al., SC 2011: ten rounds; each adds the Weyl constants to the key."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & MASK, (a >> 32) ^ c3 ^ k1, a & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def noise(seed, position, token):
    """Standard Gumbel noise; place 2 * group + half, purpose 3, groups of four tokens, request 0."""
    group, member = divmod(token, 4)
    words = [
        philox((position & MASK, position >> 32, (2 * group + half) << 2 | 3, 0), (seed & MASK, seed >> 32))[member]
        for half in (0, 1)
    ]
    u = ((words[0] << 32 | words[1]) >> 11) * 2.0**-53
    return -np.log(-np.log1p(-u))


@pytest.mark.parametrize("vocabulary", [1, 2, 5, 40])
def test_against_the_definition(vocabulary):
    rng = np.random.default_rng(vocabulary)
    for trial in range(60):
        seed, position = int(rng.integers(2**64, dtype=np.uint64)), int(rng.integers(2**40))
        probs = rng.random(vocabulary) ** 4 * (rng.random(vocabulary) < 0.7)
        probs[trial % vocabulary] += 0.01
        probs /= probs.sum()
        scores = [np.log(p) + noise(seed, position, token) if p > 0 else -np.inf for token, p in enumerate(probs)]
        assert sampling.gumbel_max(probs, seed=seed, position=position) == int(np.argmax(scores))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 0.4], 1, 0), "sum of probs is 0.9"),
        (([[1.0]], 1, 0), r"probs has shape \(1, 1\): must be \[V\]"),
        (([1.0], 1, -1), "position is -1; it must be 0 or more"),
    ],
)
def test_bad_input(arguments, message):
    probs, seed, position = arguments
    with pytest.raises(ValueError, match=message):
        sampling.gumbel_max(probs, seed=seed, position=position)
