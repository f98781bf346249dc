"""When tokens are spoken, from where the decoder looked while it wrote them.

Some heads of cross-attention follow the speech. Their weights over the encoder's frames, sharpened and
averaged, are a map of tokens against time, and the cheapest monotonic way through it (dynamic time warping)
says when each token begins. Source of the method and its constants: openai/whisper timing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

FRAMES_PER_S = 50
"""The encoder makes a frame of 20 ms. Source: openai/whisper audio.py, TOKENS_PER_SECOND."""

MEDIAN_WIDTH = 7
"""Frames over which the weights are smoothed."""

_MEDIAN_OF_7 = (
    (0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6), (2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4),
)  # fmt: skip
"""Exchanges that bring the median of seven to place 3. Source: N. Devillard, Fast median search, 1998."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Alignment:
    """When the text tokens of a window are spoken, in seconds from its start.

    `times_s` has the beginning of each token and, last, the end of the last; `probabilities` one entry each.
    """

    times_s: Sequence[float]
    probabilities: Sequence[float]


def frames_of(duration_s: float) -> int:
    """Frames that hold so much audio; at least 2, which a path needs."""
    return max(2, round(duration_s * FRAMES_PER_S))


def alignment_of_scores(scores: Floats, n_frames: int, probabilities: Sequence[float]) -> Alignment:
    """Align tokens by the raw scores of the heads that follow the speech.

    Args:
        scores: float32 (n_tokens + 1, n_heads, frames), before the softmax: of what stands before the first
            token, and of each token.
        n_frames: Frames that hold audio, at least 2.
        probabilities: Of each token.
    """
    heard = scores[:, :, :n_frames].transpose(1, 0, 2)
    weights = np.exp(heard - heard.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    weights -= weights.mean(axis=1, keepdims=True)
    weights /= weights.std(axis=1, keepdims=True) + np.float32(1e-6)
    tokens, frames = cheapest_path(-_smoothed(weights).mean(axis=0))
    return alignment_of_path(tokens, frames, probabilities)


def alignment_of_path(
    tokens: Sequence[int], frames: Sequence[int], probabilities: Sequence[float]
) -> Alignment:
    """Read a path through tokens and frames: a token begins at the first frame that is given to it."""
    begins = [
        frame / FRAMES_PER_S for at, frame in enumerate(frames) if at == 0 or tokens[at] != tokens[at - 1]
    ]
    return Alignment(begins, probabilities)


def cheapest_path(cost: Floats) -> tuple[list[int], list[int]]:
    """Dynamic time warping: the cheapest way from corner to corner, in steps of one in either or both.

    The cells of an antidiagonal do not depend on each other, so that each is one operation on arrays.

    Args:
        cost: float32 (n, m), m at least 2.

    Returns:
        The rows and the columns passed, each from first to last.
    """
    n, m = cost.shape
    flat = np.ascontiguousarray(cost, np.float32).ravel()
    came = np.zeros(
        (n + m + 1, n + 1), np.uint8
    )  # 0: from both before, 1: from the row before, 2: the column
    before, last = np.full(n + 1, np.inf, np.float32), np.full(n + 1, np.inf, np.float32)
    before[0] = 0
    for diagonal in range(2, n + m + 1):
        low, high = max(1, diagonal - m), min(n, diagonal - 1)
        both, row, column = before[low - 1 : high], last[low - 1 : high], last[low : high + 1]
        cells = flat[(low - 1) * m + diagonal - low - 1 :: m - 1][: high - low + 1]
        either = np.minimum(row, column)
        now = np.full(n + 1, np.inf, np.float32)
        now[low : high + 1] = cells + np.minimum(both, either)
        came[diagonal, low : high + 1] = np.where(both <= either, 0, np.where(row < column, 1, 2))
        before, last = last, now
    rows, columns = [], []
    i, j = n, m
    while i > 0 and j > 0:
        rows.append(i - 1)
        columns.append(j - 1)
        step = came[i + j, i]
        i, j = i - int(step != 2), j - int(step != 1)
    return rows[::-1], columns[::-1]


def _smoothed(weights: Floats) -> Floats:
    """The running median over `MEDIAN_WIDTH` frames, the edges mirrored."""
    half = MEDIAN_WIDTH // 2
    if weights.shape[2] <= half:
        return weights
    padded = np.pad(weights, ((0, 0), (0, 0), (half, half)), mode="reflect")
    lanes = [lane.copy() for lane in np.moveaxis(sliding_window_view(padded, MEDIAN_WIDTH, axis=2), 3, 0)]
    for low, high in _MEDIAN_OF_7:
        lanes[low], lanes[high] = np.minimum(lanes[low], lanes[high]), np.maximum(lanes[low], lanes[high])
    return cast(Floats, lanes[half])
