"""Words out of tokens, each with its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.models import resolve
from stentor.types import Segment, Word
from stentor.whisper.alignment import Alignment
from stentor.whisper.tokenizer import WhisperTokenizer
from stentor.whisper.words import split_words, with_words


@pytest.fixture(scope="module")
def tokenizer() -> WhisperTokenizer:
    return WhisperTokenizer(resolve("tiny.en").directory)


def cut(tokenizer: WhisperTokenizer, text: str, *, spaced: bool = True) -> list[str]:
    return [piece.text for piece in split_words(tokenizer, tokenizer.encode(text), spaced=spaced)]


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
    assert "".join(piece.text for piece in pieces) == text
    assert sum(piece.n_tokens for piece in pieces) == len(tokens)


def test_half_a_character_spoils_its_own_word_only(tokenizer: WhisperTokenizer) -> None:
    tokens = tokenizer.encode(" the café was good")
    spoiled = next(at for at, token in enumerate(tokens) if tokenizer.bytes_of(token).endswith(b"\xc3\xa9"))
    half = next(token for token in range(tokenizer.eot) if tokenizer.bytes_of(token) == b"\xc3")
    tokens[spoiled] = half
    assert [piece.text for piece in split_words(tokenizer, tokens, spaced=True)][-2:] == [" was", " good"]
    assert "".join(piece.text for piece in split_words(tokenizer, tokens, spaced=True)) == tokenizer.decode(
        tokens
    )


def test_a_token_without_bytes_is_no_character() -> None:
    multilingual = WhisperTokenizer(resolve("base").directory)
    empty = multilingual.eot - 1
    assert multilingual.bytes_of(empty) == b""
    whole, half = multilingual.encode(" so it is"), multilingual.encode("東")
    for tokens in ([empty, *whole, empty], [*whole, half[0], empty, *half[1:]]):
        pieces = list(split_words(multilingual, tokens, spaced=True))
        assert "".join(piece.text for piece in pieces) == multilingual.decode(tokens)
        assert sum(piece.n_tokens for piece in pieces) == len(tokens)


def timed(tokenizer: WhisperTokenizer, *lengths: tuple[str, float]) -> list[Word]:
    """The words of a segment whose tokens last so long."""
    tokens = [tokenizer.encode(text) for text, _ in lengths]
    assert all(len(each) == 1 for each in tokens)
    times = np.cumsum([0.0, *(length for _, length in lengths)]).tolist()
    text = "".join(text for text, _ in lengths)
    segment = Segment(text, 0, times[-1], tokens=tuple(token for each in tokens for token in each))
    alignment = Alignment(times, [1.0] * len(lengths))
    (found,) = with_words(
        tokenizer, [segment], alignment, "en", offset_s=0, from_s=0, end_s=times[-1], quiet=()
    )
    return list(found.words)


def test_the_pause_at_a_comma_is_in_no_word(tokenizer: WhisperTokenizer) -> None:
    words = timed(tokenizer, (" wisdom", 0.4), (",", 0.6), (" it", 0.2), (" was", 0.2), (".", 0.1))
    assert [word.text for word in words] == [" wisdom,", " it", " was."]
    edges = [edge for word in words for edge in (word.start_s, word.end_s)]
    assert edges == pytest.approx([0, 0.4, 1.0, 1.2, 1.2, 1.4])


def test_a_word_gets_back_the_frames_that_punctuation_took(tokenizer: WhisperTokenizer) -> None:
    after = timed(tokenizer, (" wisdom", 0.3), (",", 0.9), (" it", 0.0), (" was", 0.3), (" so", 0.3))[1]
    assert [after.start_s, after.end_s] == pytest.approx([0.9, 1.2])
    own = timed(tokenizer, (" wisdom", 0.0), (",", 0.9), (" it", 0.3), (" was", 0.3))[0]
    assert [own.start_s, own.end_s] == pytest.approx([0, 0.3])


@given(seed=st.integers(0, 99))
def test_words_stay_in_order_and_make_the_times_of_their_segments(
    tokenizer: WhisperTokenizer, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    texts = [" One two.", " Three, four? Five."]
    tokens = [tokenizer.encode(text) for text in texts]
    segments = [
        Segment(texts[0], 10.5, 12.0, tokens=tuple(tokens[0])),
        Segment(texts[1], 12.5, 15.0, tokens=tuple(tokens[1])),
    ]
    count = sum(map(len, tokens))
    times = np.sort(rng.uniform(0, 6, count + 1)).tolist()
    alignment = Alignment(times, [0.5] * count)
    found = with_words(tokenizer, segments, alignment, "en", offset_s=10.0, from_s=10.0, end_s=15.0, quiet=())
    for segment in found:
        assert "".join(word.text for word in segment.words) == segment.text
        assert (segment.start_s, segment.end_s) == (segment.words[0].start_s, segment.words[-1].end_s)
    edges = [edge for segment in found for word in segment.words for edge in (word.start_s, word.end_s)]
    assert edges == sorted(edges)
    assert edges[0] >= 10
    assert edges[-1] <= 15


def test_a_pause_between_sentences_is_in_no_word(tokenizer: WhisperTokenizer) -> None:
    text = " Well, this is it. Then more was said."
    tokens = tokenizer.encode(text)
    times = [0.3 * at for at in range(len(tokens) + 1)]
    stop = tokens.index(tokenizer.encode(" it")[0]) + 1
    times[stop + 1 :] = [at + 5 for at in times[stop + 1 :]]  # five seconds of silence after "it"
    segment = Segment(text, 0, times[-1], tokens=tuple(tokens))
    alignment = Alignment(times, [1.0] * len(tokens))
    (found,) = with_words(
        tokenizer, [segment], alignment, "en", offset_s=0, from_s=0, end_s=times[-1], quiet=()
    )
    assert max(word.end_s - word.start_s for word in found.words) <= 0.7 * 2
