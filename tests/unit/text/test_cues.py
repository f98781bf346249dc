"""Segments cut into cues within limits: where, when, and that nothing is lost."""

from __future__ import annotations

import html
from io import StringIO
from itertools import accumulate, pairwise

import pysubs2
import pytest
import webvtt
from hypothesis import example, given
from hypothesis import strategies as st

from stentor.errors import InvalidValue
from stentor.text.cues import MIN_CUE_MS, NO_LIMITS, CueLimits, cues_of
from stentor.text.lines import display_width
from stentor.text.subtitles import to_srt, to_vtt
from stentor.types import Segment, Word

CONVENTION = CueLimits(max_line_width=42, max_line_count=2, max_cue_s=7)

SENTENCES = (
    " It was the best of times, it was the worst of times. It was the age of wisdom, it was the age of"
    " foolishness. Then nothing happened for a while."
)


def timed(*words: tuple[str, float, float]) -> Segment:
    """A segment with words at these times."""
    spoken = tuple(Word(text, start_s, end_s, 0.9) for text, start_s, end_s in words)
    return Segment("".join(word.text for word in spoken), words[0][1], words[-1][2], words=spoken)


def texts(segments: list[Segment], limits: CueLimits) -> list[str]:
    return [cue.text for cue in cues_of(segments, limits)]


def lines(text: str, width: int) -> list[str]:
    """The lines of a text that is one cue."""
    (cue,) = cues_of([Segment(text, 0, 30)], CueLimits(max_line_width=width))
    return cue.text.split("\n")


LATIN = st.lists(
    st.text("abcdefgh.,!'é", min_size=1, max_size=14) | st.sampled_from(["-->", "&", "<i>", "&lt;", "1"]),
    min_size=1,
    max_size=30,
).map(lambda words: "".join(f" {word}" for word in words))
UNSPACED = st.text("日本語はひらがなっー、。「」กขาเ์A1 ", min_size=1, max_size=40).filter(str.strip)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)

LIMITS = st.builds(
    CueLimits, st.integers(1, 50), st.none() | st.integers(1, 3), st.none() | st.floats(1, 10)
) | st.builds(CueLimits, max_cue_s=st.floats(1, 10))


@st.composite
def spoken(draw: st.DrawFn, text: st.SearchStrategy[str]) -> list[Segment]:
    """Segments one after the other, some with words at odd times, as an alignment may give them."""
    steps = draw(st.lists(st.tuples(st.floats(0, 5), st.floats(0.02, 30)), min_size=1, max_size=5))
    edges = list(accumulate(step for pair in steps for step in pair))
    found = []
    for start_s, end_s in zip(edges[::2], edges[1::2], strict=True):
        said = draw(text)
        at = sorted(draw(st.lists(st.integers(0, len(said)), max_size=8)))
        pieces = [said[begin:end] for begin, end in pairwise([0, *at, len(said)])]
        times = draw(st.lists(st.floats(0, 1), min_size=len(pieces) + 1, max_size=len(pieces) + 1))
        places = [start_s + (end_s - start_s) * share for share in sorted(times)]
        words = [
            Word(piece, begin_s, until_s, 0.9)
            for piece, (begin_s, until_s) in zip(pieces, pairwise(places), strict=True)
        ]
        found.append(Segment(said, start_s, end_s, words=tuple(words) if draw(st.booleans()) else ()))
    return found


def letters(text: str) -> str:
    return "".join(text.split())


@given(spoken(LATIN), LIMITS)
def test_words_stay_and_lines_are_no_wider_than_they_may_be(
    segments: list[Segment], limits: CueLimits
) -> None:
    cues = cues_of(segments, limits)
    assert " ".join(cue.text for cue in cues).split() == "".join(s.text for s in segments).split()
    for cue in cues:
        shown = cue.text.split("\n")
        assert all(shown)
        assert len(shown) <= (limits.max_line_count or len(shown)) or len(cue.text.split()) == 1
        if limits.max_line_width is None:
            assert len(shown) == 1
        else:
            assert all(len(line) <= limits.max_line_width or len(line.split()) == 1 for line in shown)


@given(spoken(LATIN | UNSPACED), LIMITS)
def test_cues_have_length_never_overlap_and_end_in_time(segments: list[Segment], limits: CueLimits) -> None:
    cues = cues_of(segments, limits)
    assert all(cue.end_ms - cue.start_ms >= MIN_CUE_MS for cue in cues)
    assert all(before.end_ms <= after.start_ms for before, after in pairwise(cues))
    if limits.max_cue_s is not None:
        assert all(cue.end_ms - cue.start_ms <= limits.max_cue_s * 1000 for cue in cues)


@given(spoken(UNSPACED | ANY_TEXT), LIMITS)
@example([Segment(" \u00a0 a\u00a0! ", 0, 1)], CueLimits(max_line_width=1))
def test_characters_stay_in_every_script(segments: list[Segment], limits: CueLimits) -> None:
    cues = cues_of(segments, limits)
    assert letters("".join(cue.text for cue in cues)) == letters("".join(s.text for s in segments))
    assert all(line.strip() for cue in cues for line in cue.text.split("\n"))


@given(st.text("日本語漢字", min_size=1, max_size=80), st.integers(2, 50), st.integers(1, 3))
def test_chinese_characters_take_two_columns(text: str, width: int, count: int) -> None:
    for cue in cues_of([Segment(text, 0, 20)], CueLimits(width, count)):
        shown = cue.text.split("\n")
        assert len(shown) <= count
        assert all(display_width(line) == 2 * len(line) <= width for line in shown)


@given(spoken(LATIN), LIMITS)
def test_readers_find_the_same_cues_in_every_format(segments: list[Segment], limits: CueLimits) -> None:
    cues = [(cue.start_ms, cue.end_ms, cue.text.split()) for cue in cues_of(segments, limits)]
    srt, vtt = to_srt(segments, limits), to_vtt(segments, limits)

    def milliseconds(stamp: str) -> int:
        hours, minutes, rest = stamp.replace(",", ".").split(":")
        return (int(hours) * 60 + int(minutes)) * 60_000 + round(float(rest) * 1000)

    from_vtt = webvtt.from_string(vtt, strict=True).captions
    assert [
        (milliseconds(c.start), milliseconds(c.end), html.unescape(c.raw_text).split()) for c in from_vtt
    ] == cues
    from_srt = webvtt.from_buffer(StringIO(srt), "srt").captions
    assert [(milliseconds(c.start), milliseconds(c.end), c.raw_text.split()) for c in from_srt] == [
        (start_ms, end_ms, [word.replace("-->", "→") for word in words]) for start_ms, end_ms, words in cues
    ]
    for kind, written in (("srt", srt), ("vtt", vtt)):
        events = pysubs2.SSAFile.from_string(written, format_=kind)
        assert [(event.start, event.end) for event in events] == [cue[:2] for cue in cues]


@given(spoken(LATIN))
def test_without_limits_a_cue_is_a_segment(segments: list[Segment]) -> None:
    assert texts(segments, NO_LIMITS) == [segment.text.strip() for segment in segments]


def test_no_segments_no_cues() -> None:
    assert to_srt([], CONVENTION) == ""
    assert to_vtt([Segment(" \u00a0\n", 0, 1)], CONVENTION) == "WEBVTT\n\n"


def test_what_fits_is_left_whole_on_one_line() -> None:
    assert texts([Segment(" Call me Ishmael. Some years ago,", 0, 4)], CONVENTION) == [
        "Call me Ishmael. Some years ago,"
    ]


def test_long_texts_are_cut_at_sentences_and_broken_at_commas() -> None:
    assert texts([Segment(SENTENCES, 0, 18)], CONVENTION) == [
        "It was the best of times,\nit was the worst of times.",
        "It was the age of wisdom,\nit was the age of foolishness.",
        "Then nothing happened for a while.",
    ]


def test_long_sentences_are_cut_at_commas_and_then_near_the_middle() -> None:
    limits = CueLimits(max_line_width=20, max_line_count=1)
    assert texts([Segment(" one two three, four five six seven eight", 0, 9)], limits) == [
        "one two three,",
        "four five six",
        "seven eight",
    ]


def test_a_line_is_broken_near_the_middle() -> None:
    assert lines("aaaa bbbb cccc dddd e", 20) == ["aaaa bbbb", "cccc dddd e"]


def test_a_good_break_never_costs_a_line() -> None:
    assert lines("No. aaaa bbbb cccc dddd e", 20) == ["No. aaaa bbbb cccc", "dddd e"]


def test_a_word_wider_than_a_line_stays_whole() -> None:
    assert lines("so incomprehensibilities are", 10) == ["so", "incomprehensibilities", "are"]


def test_a_quote_after_the_mark_belongs_to_the_sentence() -> None:
    limits = CueLimits(max_line_width=12, max_line_count=1)
    assert texts([Segment('"Who?" he said', 0, 2)], limits) == ['"Who?"', "he said"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("今日は良い。明日は雨", ["今日は良い。", "明日は雨"]),
        ("「はい」と言って", ["「はい」", "と言って"]),
        ("東京でGitHubを", ["東京で", "GitHubを"]),
        ("サーバーはニャー", ["サーバー", "はニャー"]),
        ("안녕하세요 여러분", ["안녕하세요", "여러분"]),
        ("Bien\u00a0! Bon jour", ["Bien\u00a0!", "Bon jour"]),
    ],
    ids=[
        "Chinese and kana",
        "brackets",
        "Latin among kana",
        "long and small kana",
        "Korean",
        "French",
    ],
)
def test_scripts_are_broken_by_their_own_rules(text: str, shown: list[str]) -> None:
    assert lines(text, 12) == shown


def test_thai_vowels_stay_with_their_consonants() -> None:
    shown = lines("เราไปตลาดน้ำ", 3)
    assert "".join(shown) == "เราไปตลาดน้ำ"
    assert not any(line[0] in "าำ้" or line[-1] in "เไ" for line in shown)
    assert all(display_width(line) <= 3 for line in shown)


def test_times_are_the_words_where_there_are_words() -> None:
    segment = timed((" Yes.", 1.0, 1.4), (" No.", 6.5, 6.8), (" Maybe", 11.0, 11.6), (" so.", 11.6, 12.0))
    assert [(c.start_ms, c.end_ms, c.text) for c in cues_of([segment], CueLimits(max_cue_s=5))] == [
        (1000, 1400, "Yes."),
        (6500, 6800, "No."),
        (11000, 12000, "Maybe so."),
    ]


def test_a_space_put_before_a_segment_moves_no_word() -> None:
    segment = timed(("Yes.", 1.0, 1.4), (" No.", 8.0, 9.0))
    moved = Segment(" Yes. No.", segment.start_s, segment.end_s, words=segment.words)
    limits = CueLimits(max_cue_s=2)
    assert cues_of([moved], limits) == cues_of([segment], limits)
    assert [cue.start_ms for cue in cues_of([moved], limits)] == [1000, 8000]


@pytest.mark.parametrize("words", [(), (Word(" other", 3, 4, 0.5),)], ids=["no words", "other words"])
def test_times_go_by_characters_elsewhere(words: tuple[Word, ...]) -> None:
    segment = Segment("abc. efgh.", 10, 20, words=words)
    assert [(c.start_ms, c.end_ms) for c in cues_of([segment], CueLimits(max_cue_s=6))] == [
        (10_000, 14_000),
        (15_000, 20_000),
    ]


def test_one_long_word_is_shown_no_longer_than_allowed() -> None:
    (cue,) = cues_of([Segment(" Ommm", 2, 29)], CONVENTION)
    assert (cue.start_ms, cue.end_ms) == (2000, 9000)


@pytest.mark.parametrize(
    ("limits", "param"),
    [
        ({"max_line_width": 0}, "max_line_width"),
        ({"max_line_width": 42, "max_line_count": 0}, "max_line_count"),
        ({"max_line_count": 2}, "max_line_count"),
        ({"max_cue_s": 0.5}, "max_cue_s"),
        ({"max_cue_s": float("inf")}, "max_cue_s"),
        ({"max_cue_s": float("nan")}, "max_cue_s"),
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(limits: dict[str, float], param: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        CueLimits(**limits)  # type: ignore[arg-type]
    assert refusal.value.param == param
