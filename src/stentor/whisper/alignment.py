"""Words and when they are spoken, from where the decoder looked while it wrote them.

Some heads of cross-attention follow the speech. Their weights over the encoder's frames, sharpened and
averaged, are a map of tokens against time, and the cheapest monotonic way through it (dynamic time warping)
says when each token begins. Source of the method and its constants: openai/whisper timing.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from stentor.types import Segment, Word
from stentor.whisper.languages import joins_without_spaces
from stentor.whisper.tokenizer import WhisperTokenizer

FRAMES_PER_S = 50
"""The encoder makes a frame of 20 ms. Source: openai/whisper audio.py, TOKENS_PER_SECOND."""

MEDIAN_WIDTH = 7
"""Frames over which the weights are smoothed."""

LEADING = "\"'“¿([{-"
TRAILING = "\"'.。,，!！?？:：”)]}、"
"""Punctuation that belongs to the word after it, and to the word before it."""

SENTENCE_ENDS = ".。!！?？"

MAX_MEDIAN_S = 0.7
LONG_WORD = 2.0
"""A word at a sentence's end or beginning that lasts longer than so many medians has a pause in it."""

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


def with_words(
    tokenizer: WhisperTokenizer,
    segments: Sequence[Segment],
    alignment: Alignment,
    language: str | None,
    *,
    offset_s: float,
) -> tuple[Segment, ...]:
    """Give the segments of a window their words; joined, a segment's words are its text.

    Args:
        tokenizer: The model's.
        segments: Of one window, in order; their tokens are what was aligned.
        alignment: Of all their tokens together.
        language: Which decides where words end.
        offset_s: Where in the chunk the window begins.
    """
    spaced = language is None or not joins_without_spaces(language)
    found: list[Segment] = []
    first = 0
    for segment in segments:
        pieces = list(split_words(tokenizer, segment.tokens, spaced=spaced))
        edges = list(accumulate((count for _, count in pieces), initial=first))
        first = edges[-1]
        words = [
            Word(
                text,
                offset_s + alignment.times_s[begin],
                offset_s + alignment.times_s[end],
                float(np.mean(alignment.probabilities[begin:end])),
            )
            for (text, _), (begin, end) in zip(pieces, pairwise(edges), strict=True)
        ]
        found.append(replace(segment, words=tuple(_within(segment, _without_pauses(words)))))
    return tuple(found)


def split_words(
    tokenizer: WhisperTokenizer, tokens: Sequence[int], *, spaced: bool
) -> Iterator[tuple[str, int]]:
    """Cut tokens into words, each with the number of its tokens: at spaces, or at every character.

    Punctuation stays with its word.
    """
    words: list[tuple[str, int]] = []
    for text, count in _characters(tokenizer, tokens):
        glued = bool(words) and (
            (spaced and not text.startswith(" "))
            or (text != "" and all(character in TRAILING for character in text))
            or all(character in LEADING for character in words[-1][0].strip())
        )
        if glued:
            words[-1] = (words[-1][0] + text, words[-1][1] + count)
        else:
            words.append((text, count))
    yield from words


def _characters(tokenizer: WhisperTokenizer, tokens: Sequence[int]) -> Iterator[tuple[str, int]]:
    """The shortest runs of tokens that are whole characters."""
    held, count = b"", 0
    for at, token in enumerate(tokens):
        held += tokenizer.bytes_of(token)
        count += 1
        try:
            text = held.decode()
        except UnicodeDecodeError:
            if at + 1 < len(tokens):
                continue
            text = held.decode(errors="replace")
        yield text, count
        held, count = b"", 0


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


def _without_pauses(words: Sequence[Word]) -> list[Word]:
    """Take the pause between sentences out of the words beside it, which the warping leaves nowhere else."""
    spans = [word.end_s - word.start_s for word in words if word.end_s > word.start_s]
    if not spans:
        return list(words)
    longest_s = LONG_WORD * min(MAX_MEDIAN_S, float(np.median(spans)))
    found: list[Word] = []
    for at, word in enumerate(words):
        if word.end_s - word.start_s > longest_s:
            if word.text.strip()[-1:] in SENTENCE_ENDS:
                word = replace(word, end_s=word.start_s + longest_s)
            elif at == 0 or words[at - 1].text.strip()[-1:] in SENTENCE_ENDS:
                word = replace(word, start_s=word.end_s - longest_s)
        found.append(word)
    return found


def _within(segment: Segment, words: Sequence[Word]) -> Iterator[Word]:
    """The words inside their segment, none before the one before."""
    from_s = segment.start_s
    for word in words:
        start_s = min(max(word.start_s, from_s), segment.end_s)
        from_s = min(max(word.end_s, start_s), segment.end_s)
        yield replace(word, start_s=start_s, end_s=from_s)
