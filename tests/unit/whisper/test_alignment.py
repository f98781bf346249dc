"""Words out of tokens, and times out of attention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.models import resolve
from stentor.types import Segment
from stentor.whisper.alignment import (
    Alignment,
    alignment_of_path,
    alignment_of_scores,
    cheapest_path,
    split_words,
    with_words,
)
from stentor.whisper.tokenizer import WhisperTokenizer


@pytest.fixture(scope="module")
def tokenizer() -> WhisperTokenizer:
    return WhisperTokenizer(resolve("tiny.en").directory)


def cut(tokenizer: WhisperTokenizer, text: str, *, spaced: bool = True) -> list[str]:
    return [word for word, _ in split_words(tokenizer, tokenizer.encode(text), spaced=spaced)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" It was the best.", [" It", " was", " the", " best."]),
        (' He said, "unbelievable!"', [" He", " said,", ' "unbelievable!"']),
        (" (Mr. O'Neill's café)", [" (Mr.", " O'Neill's", " café)"]),
        (" Well-known 1,250 facts", [" Well-known", " 1,250", " facts"]),
        ("", []),
    ],
)
def test_words_end_at_spaces_and_keep_their_punctuation(
    tokenizer: WhisperTokenizer, text: str, words: list[str]
) -> None:
    assert cut(tokenizer, text) == words


def test_without_spaces_each_character_is_a_word(tokenizer: WhisperTokenizer) -> None:
    assert cut(tokenizer, "東京は「夜」。", spaced=False) == ["東", "京", "は", "「", "夜", "」。"]


@given(text=st.text(max_size=40), spaced=st.booleans())
def test_words_joined_are_the_text(tokenizer: WhisperTokenizer, text: str, spaced: bool) -> None:
    tokens = tokenizer.encode(text)
    pieces = list(split_words(tokenizer, tokens, spaced=spaced))
    assert "".join(word for word, _ in pieces) == text
    assert sum(count for _, count in pieces) == len(tokens)


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


@given(seed=st.integers(0, 99))
def test_words_stay_in_order_and_inside_their_segments(tokenizer: WhisperTokenizer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [" One two.", " Three, four? Five."]
    tokens = [tokenizer.encode(text) for text in texts]
    segments = [
        Segment(texts[0], 10.5, 12.0, tokens=tuple(tokens[0])),
        Segment(texts[1], 12.5, 15.0, tokens=tuple(tokens[1])),
    ]
    count = sum(map(len, tokens))
    times = np.sort(rng.uniform(0, 6, count + 1)).tolist()
    found = with_words(tokenizer, segments, Alignment(times, [0.5] * count), "en", offset_s=10.0)
    for segment in found:
        assert "".join(word.text for word in segment.words) == segment.text
        edges = [edge for word in segment.words for edge in (word.start_s, word.end_s)]
        assert edges == sorted(edges)
        assert segment.start_s <= edges[0]
        assert edges[-1] <= segment.end_s


def test_a_pause_between_sentences_is_in_no_word(tokenizer: WhisperTokenizer) -> None:
    text = " Well, this is it. Then more was said."
    tokens = tokenizer.encode(text)
    times = [0.3 * at for at in range(len(tokens) + 1)]
    stop = tokens.index(tokenizer.encode(" it")[0]) + 1
    times[stop + 1 :] = [at + 5 for at in times[stop + 1 :]]  # five seconds of silence after "it"
    segment = Segment(text, 0, times[-1], tokens=tuple(tokens))
    (found,) = with_words(tokenizer, [segment], Alignment(times, [1.0] * len(tokens)), "en", offset_s=0)
    assert max(word.end_s - word.start_s for word in found.words) <= 0.7 * 2
