"""Where a text may be cut, where it is cut best, and how many columns it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.text.lines import display_width, divided, joined, units_of


def pieces(text: str) -> list[str]:
    return [unit.text for unit in units_of(text)]


def halves(text: str) -> list[str]:
    """The text cut once, at the best place."""
    units = units_of(text)
    return [joined(run) for run in divided(units, lambda run: len(run) < len(units))]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_units_are_the_text_in_order(text: str) -> None:
    units = units_of(text)
    assert all(text[unit.begin : unit.end] == unit.text and unit.text.strip() for unit in units)
    assert joined(units).split() == text.split()


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("two words", ["two", "words"]),
        ("well-known", ["well-known"]),
        ("日本", ["日", "本"]),
        ("良い。明、", ["良", "い。", "明、"]),
        ("「は」と（い）", ["「は」", "と", "（い）"]),
        ("ラーメン々", ["ラー", "メ", "ン々"]),
        ("きゃっと", ["きゃっ", "と"]),
        ("か\u3099き", ["か\u3099", "き"]),
        ('"日"本', ['"日"本']),
        ("GitHubを10年", ["GitHub", "を", "10", "年"]),
        ("น้ำ", ["น้ำ"]),
        ("ไปมา", ["ไป", "มา"]),
        ("ក្ក", ["ក្ក"]),
        ("日\u2060本", ["日\u2060本"]),
        ("日\u00a0本", ["日\u00a0本"]),
        ("안녕하세요", ["안녕하세요"]),
    ],
)
def test_what_stays_together(text: str, units: list[str]) -> None:
    assert pieces(text) == units


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("a, b c d. e f, g h i j k", ["a, b c d.", "e f, g h i j k"]),
        ("a, b c d e f g", ["a,", "b c d e f g"]),
        ("aa bb cc dd", ["aa bb", "cc dd"]),
        ('a b c d e f "g." h i', ['a b c d e f "g."', "h i"]),
        ("a b c d e (f,) g", ["a b c d e (f,)", "g"]),
        ("あいう えおかきくけこさ", ["あいう", "えおかきくけこさ"]),
        ("あ。いうえおかき", ["あ。", "いうえおかき"]),
        ("あいうえ", ["あい", "うえ"]),
        ("what? a b c d e", ["what?", "a b c d e"]),
    ],
)
def test_the_best_place_to_cut(text: str, cut: list[str]) -> None:
    assert halves(text) == cut


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("日本", 4),
        ("한국", 4),
        ("ｱ", 1),
        ("Ａ", 2),
        ("e\u0301", 1),
        ("ที่", 1),
        ("a\u200bb", 2),
        ("…", 1),
        ("", 0),
    ],
)
def test_columns(text: str, columns: int) -> None:
    assert display_width(text) == columns
