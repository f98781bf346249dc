from __future__ import annotations

import html
from collections.abc import Callable
from io import StringIO
from itertools import accumulate, pairwise

import pysubs2
import pytest
import webvtt
from hypothesis import example, given
from hypothesis import strategies as st

from stentor.text.cues import MIN_CUE_MS
from stentor.text.subtitles import to_srt, to_vtt
from stentor.types import Segment

Cue = tuple[int, int, str]
Writer = Callable[[list[Segment]], str]

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NASTY_TEXT = st.lists(
    st.sampled_from(["-->", "->", "\n", "\n\n", "\r\n", "\u2028", " ", "&", "&lt;", "<i>", ">", "1", "word"]),
    max_size=12,
).map("".join)
PLAIN_TEXT = st.text("abcdefghij ,.", min_size=1, max_size=20).filter(str.strip)


def segment(start_s: float, end_s: float, text: str = "word") -> Segment:
    return Segment(text, start_s, end_s)


def milliseconds(stamp: str) -> int:
    hours, minutes, rest = stamp.replace(",", ".").split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000 + round(float(rest) * 1000)


def read_srt(written: str) -> list[Cue]:
    if not written:
        return []  # webvtt-py calls an empty file malformed
    captions = webvtt.from_buffer(StringIO(written), "srt").captions
    return [(milliseconds(c.start), milliseconds(c.end), c.raw_text) for c in captions]


def read_vtt(written: str) -> list[Cue]:
    captions = webvtt.from_string(written, strict=True).captions
    return [(milliseconds(c.start), milliseconds(c.end), html.unescape(c.raw_text)) for c in captions]


def read_with_pysubs2(written: str, kind: str) -> list[Cue]:
    events = pysubs2.SSAFile.from_string(written, format_=kind)
    return [(event.start, event.end, event.plaintext) for event in events]


@st.composite
def orderly(draw: st.DrawFn, text: st.SearchStrategy[str]) -> list[Segment]:
    """Segments as a good engine gives them, in whole milliseconds: in order, with length, without overlap."""
    gap, length = st.integers(0, 5_000_000), st.integers(MIN_CUE_MS, 30_000)
    steps = draw(st.lists(st.tuples(gap, length), max_size=8))
    edges = list(accumulate(step for pair in steps for step in pair))
    times = zip(edges[::2], edges[1::2], strict=True)
    return [segment(start / 1000, end / 1000, draw(text)) for start, end in times]


SECONDS = st.floats(0, 10) | st.integers(0, 10).map(float)
DISORDERLY = st.lists(st.builds(segment, SECONDS, SECONDS, PLAIN_TEXT), max_size=8)


@pytest.mark.parametrize(
    ("time_s", "stamp"),
    [
        (0.0, "00:00:00,000"),
        (1.5, "00:00:01,500"),
        (9.9994, "00:00:09,999"),
        (9.9996, "00:00:10,000"),
        (59.9996, "00:01:00,000"),
        (3599.9996, "01:00:00,000"),
        (3661.001, "01:01:01,001"),
        (36_000.25, "10:00:00,250"),
        (360_000.0, "100:00:00,000"),
    ],
)
def test_times_carry_over_and_always_show_hours(time_s: float, stamp: str) -> None:
    segments = [segment(time_s, time_s + 1)]
    assert to_srt(segments).splitlines()[1].startswith(f"{stamp} --> ")
    assert to_vtt(segments).splitlines()[2].startswith(f"{stamp.replace(',', '.')} --> ")


def test_srt_as_players_know_it() -> None:
    assert to_srt([segment(0, 1, " Hello,"), segment(1, 2.5, " world.")]) == (
        "1\n00:00:00,000 --> 00:00:01,000\nHello,\n\n2\n00:00:01,000 --> 00:00:02,500\nworld.\n\n"
    )


def test_vtt_as_browsers_know_it() -> None:
    assert to_vtt([segment(0, 1, " Hello,"), segment(1, 2.5, " world.")]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello,\n\n00:00:01.000 --> 00:00:02.500\nworld.\n\n"
    )


@pytest.mark.parametrize("segments", [[], [segment(0, 1, " \n\t ")]])
def test_nothing_said_makes_a_valid_file_without_cues(segments: list[Segment]) -> None:
    assert to_srt(segments) == ""
    assert to_vtt(segments) == "WEBVTT\n\n"


def test_blank_segments_neither_take_numbers_nor_cut_their_neighbours() -> None:
    written = to_srt([segment(0, 2, "a"), segment(1, 2, " "), segment(3, 4, "b")])
    assert read_srt(written) == [(0, 2000, "a"), (3000, 4000, "b")]
    assert written.splitlines()[4] == "2"


@pytest.mark.parametrize(
    ("segments", "times_ms"),
    [
        ([segment(0, 5), segment(3, 6)], [(0, 3000), (3000, 6000)]),
        ([segment(1, 1)], [(1000, 1000 + MIN_CUE_MS)]),
        ([segment(2, 1)], [(2000, 2000 + MIN_CUE_MS)]),
        ([segment(-0.5, 1)], [(0, 1000)]),
        ([segment(1, 2), segment(1, 3)], [(1000, 1000 + MIN_CUE_MS), (1000 + MIN_CUE_MS, 3000)]),
        ([segment(0, 1.0004), segment(1.0001, 2)], [(0, 1000), (1000, 2000)]),
    ],
    ids=["overlap", "no length", "backwards", "before the start", "same start", "below a millisecond"],
)
def test_odd_times_are_mended(segments: list[Segment], times_ms: list[tuple[int, int]]) -> None:
    assert [cue[:2] for cue in read_srt(to_srt(segments))] == times_ms
    assert [cue[:2] for cue in read_vtt(to_vtt(segments))] == times_ms


@given(DISORDERLY)
def test_cues_have_length_and_never_overlap(segments: list[Segment]) -> None:
    cues = read_srt(to_srt(segments))
    assert len(cues) == len(segments)
    assert all(end - start >= MIN_CUE_MS for start, end, _ in cues)
    assert all(before[1] <= after[0] for before, after in pairwise(cues))
    assert read_vtt(to_vtt(segments)) == cues


@given(orderly(PLAIN_TEXT))
def test_orderly_times_and_texts_come_back(segments: list[Segment]) -> None:
    given_cues = [(round(s.start_s * 1000), round(s.end_s * 1000), s.text.strip()) for s in segments]
    assert read_srt(to_srt(segments)) == given_cues
    assert read_vtt(to_vtt(segments)) == given_cues
    assert read_with_pysubs2(to_srt(segments), "srt") == given_cues
    assert read_with_pysubs2(to_vtt(segments), "vtt") == given_cues


@given(orderly(ANY_TEXT | NASTY_TEXT))
@example([segment(0, 1, "a --> b"), segment(1, 2, "1\n00:00:01,000 --> 00:00:02,000\n\nc & <d>")])
def test_every_word_comes_back_whatever_the_text(segments: list[Segment]) -> None:
    spoken = [s for s in segments if s.text.strip()]
    srt, vtt = read_srt(to_srt(segments)), read_vtt(to_vtt(segments))
    assert [text.split() for *_, text in vtt] == [s.text.split() for s in spoken]
    assert [text.split() for *_, text in srt] == [s.text.replace("-->", "→").split() for s in spoken]
    assert to_srt(segments).count("-->") == to_vtt(segments).count("-->") == len(spoken)


@pytest.mark.parametrize("write", [to_srt, to_vtt])
def test_lines_inside_a_text_stay_and_blank_ones_go(write: Writer) -> None:
    assert "\none\ntwo\n\n" in write([segment(0, 1, "\r\n  one \n\n \n two\n\n")])


def test_markup_is_escaped_in_vtt_only() -> None:
    segments = [segment(0, 1, "R&D <b> &amp;")]
    assert "R&amp;D &lt;b&gt; &amp;amp;" in to_vtt(segments)
    assert "R&D <b> &amp;" in to_srt(segments)
