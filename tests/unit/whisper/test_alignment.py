"""Times out of attention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.whisper.alignment import alignment_of_path, alignment_of_scores, cheapest_path


def brute(cost: np.ndarray) -> float:
    """The cost of the cheapest path, cell by cell."""
    total = np.full((cost.shape[0] + 1, cost.shape[1] + 1), np.inf)
    total[0, 0] = 0
    for i in range(cost.shape[0]):
        for j in range(cost.shape[1]):
            total[i + 1, j + 1] = cost[i, j] + min(total[i, j], total[i, j + 1], total[i + 1, j])
    return float(total[-1, -1])


@given(n=st.integers(1, 7), m=st.integers(2, 9), seed=st.integers(0, 99))
def test_the_path_is_the_cheapest(n: int, m: int, seed: int) -> None:
    cost = np.random.default_rng(seed).normal(size=(n, m)).astype(np.float32)
    rows, columns = cheapest_path(cost)
    assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, n - 1, m - 1)
    steps = {(b - a, d - c) for a, b, c, d in zip(rows, rows[1:], columns, columns[1:], strict=False)}
    assert steps <= {(0, 1), (1, 0), (1, 1)}
    assert sum(float(cost[i, j]) for i, j in zip(rows, columns, strict=True)) == pytest.approx(
        brute(cost), abs=1e-4
    )


def test_attention_that_follows_the_speech_gives_its_times() -> None:
    begins = [0, 20, 50, 90, 130]  # frames at which each token, and what is after the last, begins
    scores = np.zeros((5, 2, 1500), np.float32)
    for token, (begin, end) in enumerate(zip(begins, [*begins[1:], 150], strict=True)):
        scores[token, :, begin:end] = 6
    scores[:, :, 150:] = 99  # past the audio: not looked at
    alignment = alignment_of_scores(scores, 150, [0.5] * 4)
    assert np.allclose(alignment.times_s, np.array(begins) / 50, atol=0.05)


def test_a_token_begins_with_its_first_frame() -> None:
    assert alignment_of_path([0, 0, 1, 2, 2], [0, 1, 2, 2, 3], [1, 1]).times_s == [0, 0.04, 0.04]
