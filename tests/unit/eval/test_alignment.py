from __future__ import annotations

import pytest

from stentor.eval.alignment import Run, Spoken, align, origins, times


def test_runs_cover_both_texts_in_order() -> None:
    assert align(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]) == (
        Run("equal", 0, 1, 0, 1),
        Run("substitute", 1, 2, 1, 2),
        Run("equal", 2, 4, 2, 4),
        Run("insert", 4, 4, 4, 5),
    )


def test_where_nothing_was_said_all_is_inserted() -> None:
    assert align([], ["thank", "you"]) == (Run("insert", 0, 0, 0, 2),)
    assert align(["well"], []) == (Run("delete", 0, 1, 0, 0),)
    assert align([], []) == ()


def test_tokens_are_found_again_where_normalising_joined_them() -> None:
    assert origins([["it", "is"], ["twenty"], ["five"], ["now"]], ["it", "is", "25", "now"])[:2] == [
        (0, 0),
        (0, 1),
    ]
    assert origins([["a"], ["b"]], ["a", "x", "b"]) == [(0, 0), None, (1, 0)]


def test_tokens_have_the_times_of_their_words() -> None:
    words = [
        Spoken(" Well,", 0.5, 1.0),
        Spoken(" I'm", 1.0, 2.0),
        Spoken(" —", 2.0, 2.5),
        Spoken(" here.", 3.0, 4.0),
    ]
    assert times(words, ["well", "i", "am", "here"], "en") == [(0.5, 1.0), (1.0, 1.5), (1.5, 2.0), (3.0, 4.0)]


def test_characters_share_the_time_of_their_word() -> None:
    assert times([Spoken("天气", 1.0, 2.0)], ["天", "气"], "zh") == [
        pytest.approx((1.0, 1.5)),
        pytest.approx((1.5, 2.0)),
    ]
