"""Random drafts with their rows and uniforms, and sampling by inverse CDF, for the numpy references."""

import numpy as np
from hypothesis import strategies as st

weights = st.sampled_from([0.0, 0.0, 1.0]) | st.floats(1e-6, 1)
uniform = st.floats(0, 1, exclude_max=True)


def draw(probs, uniform):
    """Inverse CDF in ascending token order."""
    candidates = np.flatnonzero(probs)
    return int(
        candidates[min(np.searchsorted(np.cumsum(probs[candidates]), uniform, side="right"), len(candidates) - 1)]
    )


@st.composite
def probability_rows(draw_from, count, vocabulary):
    rows = np.array(
        draw_from(st.lists(st.lists(weights, min_size=vocabulary, max_size=vocabulary), min_size=count, max_size=count))
    )
    rows = rows.reshape(count, vocabulary)
    rows[rows.sum(axis=1) == 0] = 1
    return rows / rows.sum(axis=1, keepdims=True)


@st.composite
def cycles(draw_from):
    """drafted [K], draft [K, V], target [K + 1, V], uniforms [K + 1]; K up to 5, V up to 6."""
    k, vocabulary = draw_from(st.integers(0, 5)), draw_from(st.integers(1, 6))
    draft = draw_from(probability_rows(k, vocabulary))
    target = draw_from(probability_rows(k + 1, vocabulary))
    drafted = [draw(row, draw_from(uniform)) for row in draft]
    return drafted, draft, target, draw_from(st.lists(uniform, min_size=k + 1, max_size=k + 1))
