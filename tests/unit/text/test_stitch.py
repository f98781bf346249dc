"""Chunks become one transcript in the file's own timeline, with nothing lost or doubled between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.text.stitch import Stitcher
from stentor.types import SAMPLE_RATE, Chunk, EngineOutput, Part, Piece, Segment, Word


def chunk(index: int, start_s: float, duration_s: float = 10.0) -> Chunk:
    samples = np.zeros(round(duration_s * SAMPLE_RATE), np.float32)
    return Chunk(index, round(start_s * SAMPLE_RATE), samples)


def add(stitcher: Stitcher, chunk: Chunk, *segments: Segment, language: str = "en") -> Part:
    """Add all that was heard in a chunk."""
    return stitcher.add(chunk, EngineOutput(segments, chunk.duration_s), language)


def test_times_move_to_the_files_timeline_words_too() -> None:
    stitcher = Stitcher()
    word = Word(" two", 1.0, 1.5, 0.9)
    part = add(stitcher, chunk(3, 71.5), Segment(" two", 1.0, 2.0, words=(word,)))
    assert [(s.start_s, s.end_s) for s in part.segments] == [(72.5, 73.5)]
    assert part.segments[0].words == (Word(" two", 72.5, 73.0, 0.9),)
    assert part.end_s == 81.5


def test_silence_that_was_left_out_is_in_the_times_again() -> None:
    samples = np.zeros(6 * SAMPLE_RATE, np.float32)
    pieces = (Piece(0, 10 * SAMPLE_RATE), Piece(2 * SAMPLE_RATE, 40 * SAMPLE_RATE))
    packed = Chunk(0, 10 * SAMPLE_RATE, samples, pieces=pieces)
    said = [Segment(" one", 0.5, 2.0), Segment(" two", 2.0, 6.0), Segment(" over", 1.0, 3.0)]
    part = add(Stitcher(), packed, *said)
    assert [(s.start_s, s.end_s) for s in part.segments] == [(10.5, 12.0), (40.0, 44.0), (11.0, 41.0)]
    assert part.end_s == 44.0


def test_what_begins_or_ends_in_the_pause_at_a_seam_is_on_its_own_side() -> None:
    samples = np.zeros(6 * SAMPLE_RATE, np.float32)
    pieces = (Piece(0, 10 * SAMPLE_RATE), Piece(2 * SAMPLE_RATE, 40 * SAMPLE_RATE))
    packed = Chunk(0, 10 * SAMPLE_RATE, samples, pieces=pieces)
    said = [Segment(" early", 1.75, 4.0), Segment(" late", 0.0, 2.25), Segment(" within", 1.9, 2.1)]
    part = add(Stitcher(), packed, *said)
    spans = [(s.start_s, s.end_s) for s in part.segments]
    assert spans[:2] == [(40.0, 42.0), (10.0, 12.0)]
    assert spans[2] == pytest.approx((40.0, 40.2))


def test_a_seam_gets_the_space_it_lacks_and_no_second_one() -> None:
    stitcher = Stitcher()
    add(stitcher, chunk(0, 0), Segment("one", 0, 1), Segment(",", 1, 2))
    add(stitcher, chunk(1, 10), Segment("two", 0, 1))
    add(stitcher, chunk(2, 20), Segment(" three", 0, 1))
    transcript = stitcher.transcript()
    assert transcript.text == "one, two three"
    assert "".join(s.text for s in transcript.segments).strip() == transcript.text


def test_languages_without_spaces_get_none() -> None:
    stitcher = Stitcher()
    add(stitcher, chunk(0, 0), Segment("今日は", 0, 1), language="ja")
    add(stitcher, chunk(1, 10), Segment("晴れ", 0, 1), language="ja")
    assert stitcher.transcript().text == "今日は晴れ"


def test_languages_with_spaces_meet_those_without() -> None:
    stitcher = Stitcher()
    add(stitcher, chunk(0, 0), Segment("今日は", 0, 1), language="ja")
    add(stitcher, chunk(1, 10), Segment("hello", 0, 3))
    add(stitcher, chunk(2, 20), language="de")
    add(stitcher, chunk(3, 30), Segment("晴れ", 0, 1), language="ja")
    transcript = stitcher.transcript()
    assert transcript.text == "今日は hello晴れ"
    assert (transcript.language, transcript.languages) == ("en", ("en", "ja"))


def test_a_translation_has_spaces_whatever_is_spoken() -> None:
    stitcher = Stitcher("translate")
    add(stitcher, chunk(0, 0), Segment("Today", 0, 1), language="ja")
    add(stitcher, chunk(1, 10), Segment("it is fine", 0, 1), language="ja")
    assert stitcher.transcript().text == "Today it is fine"


def test_silence_is_an_empty_transcript_with_its_duration() -> None:
    stitcher = Stitcher()
    add(stitcher, chunk(0, 0))
    add(stitcher, chunk(1, 10), Segment("  ", 0, 1))
    transcript = stitcher.transcript()
    assert (transcript.text, transcript.segments, transcript.duration_s) == ("", (), 20.0)
    assert transcript.languages == ()


@given(st.lists(st.lists(st.text(min_size=1, max_size=5), max_size=3), max_size=5))
def test_every_word_survives_in_order(texts: list[list[str]]) -> None:
    stitcher = Stitcher()
    for index, spoken in enumerate(texts):
        add(stitcher, chunk(index, index * 10), *(Segment(text, 0, 1) for text in spoken))
    text = stitcher.transcript().text
    kept = [word for spoken in texts for piece in spoken for word in piece.split()]
    assert "".join(text.split()) == "".join(kept)


def test_a_chunk_may_come_in_outputs_each_of_which_tells_how_far_it_is() -> None:
    stitcher = Stitcher()
    parts = [
        stitcher.add(chunk(1, 30), EngineOutput((Segment(" one", 0, 2),), 4.0)),
        stitcher.add(chunk(1, 30), EngineOutput((Segment("two", 4, 6),), 10.0)),
    ]
    assert [part.end_s for part in parts] == [34.0, 40.0]
    transcript = stitcher.transcript()
    assert (transcript.text, transcript.duration_s) == ("one two", 40.0)


def overlapping(index: int, start_s: float, before_s: float = 0.0, after_s: float = 0.0) -> Chunk:
    return replace(
        chunk(index, start_s),
        before_samples=round(before_s * SAMPLE_RATE),
        after_samples=round(after_s * SAMPLE_RATE),
    )


def said(*words: tuple[str, float]) -> Segment:
    """A segment of words, each of which lasts half a second from the given time of its chunk on."""
    spoken = tuple(Word(f" {text}", at_s, at_s + 0.5, 1.0) for text, at_s in words)
    return Segment("".join(word.text for word in spoken), spoken[0].start_s, spoken[-1].end_s, words=spoken)


def test_what_two_chunks_heard_at_an_overlap_is_told_once_and_only_when_both_are_known() -> None:
    stitcher = Stitcher(words=False)
    first = overlapping(0, 0, after_s=3)
    second = overlapping(1, 7, before_s=3)
    part = add(
        stitcher, first, said(("it", 1), ("was", 2)), said(("the", 6), ("best", 7), ("of", 8), ("ti", 9))
    )
    assert [segment.text for segment in part.segments] == [" it was"]
    assert part.end_s == 7.0
    early = stitcher.add(second, EngineOutput((said(("est", 0), ("of", 1)),), 1.5))
    assert (early.segments, early.end_s) == ((), 7.0)
    part = stitcher.add(second, EngineOutput((said(("times", 2), ("and", 3)),), 9.0))
    assert "".join(segment.text for segment in part.segments) == " the best of times and"
    assert stitcher.add(second, EngineOutput((said(("more", 9.2)),), 10.0)).end_s == 17.0
    transcript = stitcher.transcript()
    assert transcript.text == "it was the best of times and more"
    assert not any(segment.words for segment in transcript.segments)
    times = [edge for segment in transcript.segments for edge in (segment.start_s, segment.end_s)]
    assert times == sorted(times)


def test_a_chunk_may_overlap_both_its_neighbours() -> None:
    stitcher = Stitcher()
    add(stitcher, overlapping(0, 0, after_s=3), said(("a", 7), ("b", 8)))
    add(stitcher, overlapping(1, 7, before_s=3, after_s=3), said(("a", 0), ("b", 1), ("c", 4), ("d", 8)))
    add(stitcher, overlapping(2, 14, before_s=3), said(("d", 1), ("e", 4)))
    assert stitcher.transcript().text == "a b c d e"
