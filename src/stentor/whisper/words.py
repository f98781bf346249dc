"""The words of a window's segments, each with the time in which it is spoken.

The alignment gives a time to every token, and none to the pauses: those are in the words beside them, mostly
in punctuation. Here they are taken out again.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stentor.types import Segment, Word
from stentor.whisper.alignment import Alignment
from stentor.whisper.languages import joins_without_spaces
from stentor.whisper.pauses import Pause, between
from stentor.whisper.tokenizer import WhisperTokenizer

LEADING = "\"'“¿([{-"
TRAILING = "\"'.。,，!！?？:：”)]}、"
"""Punctuation that belongs to the word after it, and to the one before. Source: openai/whisper timing.py."""

PAUSES = ".。!！?？,，、:："
"""Punctuation that people pause at."""

MAX_MEDIAN_S = 0.7
LONG_WORD = 2.0
"""A word beside a pause that lasts longer than so many medians has the pause in it. Source: openai/whisper
timing.py, which bounds the median likewise and looks at the ends of sentences only."""


class Piece(NamedTuple):
    """A word's text, how many tokens it has, and how many of them, at its end, are punctuation."""

    text: str
    n_tokens: int
    n_closing: int


class Span(NamedTuple):
    """From a word's beginning over the end of what is spoken to the end of its punctuation."""

    start_s: float
    spoken_to_s: float
    end_s: float


def with_words(
    tokenizer: WhisperTokenizer,
    segments: Sequence[Segment],
    alignment: Alignment,
    language: str | None,
    *,
    offset_s: float,
    from_s: float,
    end_s: float,
    quiet: Sequence[Pause],
) -> tuple[Segment, ...]:
    """Give the segments of a window their words; joined, a segment's words are its text.

    A segment then lasts from its first word to its last: the timestamps that the model writes are up to a
    second beside them.

    Args:
        tokenizer: The model's.
        segments: Of one window, in order; their tokens are what was aligned.
        alignment: Of all their tokens together.
        language: Which decides where words end.
        offset_s: Where in the chunk the window begins.
        from_s: Where in the chunk the words before it have ended.
        end_s: Where in the chunk the window's words have ended, but for the last sound of the last one.
        quiet: The chunk's pauses.
    """
    spaced = language is None or not joins_without_spaces(language)
    cut = [list(split_words(tokenizer, segment.tokens, spaced=spaced)) for segment in segments]
    pieces = [piece for of_segment in cut for piece in of_segment]
    timed = list(_timed(pieces, alignment, offset_s, from_s, end_s))
    words = iter(between(timed, [pause for pause in quiet if from_s <= pause.end_s]))
    found: list[Segment] = []
    for segment, of_segment in zip(segments, cut, strict=True):
        own = tuple(next(words) for _ in of_segment)
        if own:
            segment = replace(segment, start_s=own[0].start_s, end_s=own[-1].end_s, words=own)
        found.append(segment)
    return tuple(found)


def split_words(tokenizer: WhisperTokenizer, tokens: Sequence[int], *, spaced: bool) -> Iterator[Piece]:
    """Cut tokens into words: at spaces, or at every character. Punctuation stays with its word."""
    word: Piece | None = None
    for text, count in _characters(tokenizer, tokens):
        closing = text != "" and all(character in TRAILING for character in text)
        glued = word is not None and (
            closing
            or (spaced and not text.startswith(" "))
            or all(character in LEADING for character in word.text.strip())
        )
        if word is not None and glued:
            n_closing = word.n_closing + count if closing else 0
            word = Piece(word.text + text, word.n_tokens + count, n_closing)
        else:
            if word is not None:
                yield word
            word = Piece(text, count, 0)
    if word is not None:
        yield word


def _characters(tokenizer: WhisperTokenizer, tokens: Sequence[int]) -> Iterator[tuple[str, int]]:
    """The shortest runs of tokens that are whole characters; what never becomes one is U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text, count = "", 0
    for token in tokens:
        told = tokenizer.bytes_of(token)
        # A token may have no bytes (50256 of the multilingual models); others begin a character or go on.
        if count and told and not 0x80 <= told[0] < 0xC0:
            yield text + decoder.decode(b"", final=True), count
            text, count = "", 0
        text += decoder.decode(told)
        count += 1
        if not decoder.getstate()[0]:
            yield text, count
            text, count = "", 0
    if count:
        yield text + decoder.decode(b"", final=True), count


def _timed(
    pieces: Sequence[Piece], alignment: Alignment, offset_s: float, from_s: float, end_s: float
) -> Iterator[Word]:
    """The words, in order, between the last two times."""
    spans, probabilities, first = [], [], 0
    for piece in pieces:
        last = first + piece.n_tokens
        times_s = alignment.times_s
        spans.append(Span(times_s[first], times_s[last - piece.n_closing], times_s[last]))
        probabilities.append(float(np.mean(alignment.probabilities[first:last])))
        first = last
    for piece, span, probability in zip(pieces, _without_pauses(pieces, spans), probabilities, strict=True):
        start_s = min(max(offset_s + span.start_s, from_s), end_s)
        from_s = min(max(offset_s + span.spoken_to_s, start_s), end_s)
        yield Word(piece.text, start_s, from_s, probability, piece.n_tokens)


def _without_pauses(pieces: Sequence[Piece], spans: Sequence[Span]) -> Iterator[Span]:
    """What is spoken of each span, without the pauses before and after it."""
    lengths = [span.spoken_to_s - span.start_s for span in spans if span.spoken_to_s > span.start_s]
    typical_s = min(MAX_MEDIAN_S, float(np.median(lengths))) if lengths else 0.0
    silent_from_s = 0.0  # where the word before ends
    after_pause = True
    for piece, span in zip(pieces, spans, strict=True):
        start_s, spoken_to_s, end_s = span
        if spoken_to_s <= start_s:
            # Punctuation has the word's frames: its own, or that of the word before.
            spoken_to_s = min(end_s, start_s + typical_s)
            if spoken_to_s <= start_s:
                start_s = max(silent_from_s, start_s - typical_s)
        longest_s = LONG_WORD * typical_s
        if spoken_to_s - start_s > longest_s:
            if after_pause:
                start_s = spoken_to_s - longest_s
            elif piece.n_closing:
                spoken_to_s = start_s + longest_s
        yield Span(start_s, spoken_to_s, end_s)
        silent_from_s = spoken_to_s
        after_pause = piece.text.rstrip()[-1:] in PAUSES
