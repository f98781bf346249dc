from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stentor.bench.manifest import Mark, Utterance
from stentor.eval.alignment import Spoken
from stentor.eval.judge import Heard, judge
from stentor.eval.listeners import spread

SAID = Utterance(
    Path("a.flac"),
    10.0,
    "en",
    "red blue green big small tiny",
    "calls",
    (Mark("red blue green", 0.5, 3.0), Mark("big small tiny", 5.0, 8.0)),
)


def heard(*words: tuple[str, float, float]) -> Heard:
    spoken = tuple(Spoken(f" {text}", start_s, end_s) for text, start_s, end_s in words)
    return Heard("".join(word.text for word in spoken).strip(), "en", spoken, True)


RIGHT = heard(
    ("Red", 0.5, 1), ("blue", 1, 2), ("green", 2, 3.2), ("big,", 5.4, 6), ("small", 6, 7), ("tiny.", 7, 7.9)
)  # fmt: skip


def test_what_is_right_has_no_edits_and_its_times_are_held_against_the_marks() -> None:
    verdict = judge(SAID, RIGHT, cuts_s=[4.0])
    assert (verdict.count.edits, verdict.count.references, verdict.seam_edits) == (0, 6, 0)
    assert verdict.time_errors_s == pytest.approx((0.0, 0.2, 0.4, 0.1))
    assert verdict.disorder == 0


def test_edits_near_a_cut_are_the_seams() -> None:
    lost = replace(RIGHT, words=RIGHT.words[:2] + RIGHT.words[4:], text="red blue small tiny")
    assert judge(SAID, lost, cuts_s=[4.0]).seam_edits == 2
    assert judge(SAID, lost, cuts_s=[9.5]).seam_edits == 0
    doubled = heard(
        *[(word.text.strip(), word.start_s, word.end_s) for word in RIGHT.words], ("tiny", 8, 8.5)
    )
    assert judge(SAID, doubled, cuts_s=[4.0]).seam_edits == 0
    assert judge(SAID, doubled, cuts_s=[9.0]).seam_edits == 1


def test_a_word_that_was_heard_wrong_tells_no_time() -> None:
    wrong = replace(
        RIGHT, words=(Spoken(" Rod", 0.1, 1), *RIGHT.words[1:]), text="rod blue green big small tiny"
    )
    assert judge(SAID, wrong).time_errors_s == pytest.approx((0.2, 0.4, 0.1))


def test_a_failure_has_heard_nothing() -> None:
    verdict = judge(SAID, None, error="400: no audio")
    assert (verdict.count.deletions, verdict.count.rate, verdict.error) == (6, 1.0, "400: no audio")


def test_words_in_silence_are_told_and_have_no_rate() -> None:
    silence = Utterance(Path("s.wav"), 30.0, None, "")
    verdict = judge(silence, heard(("Thank", 0, 1), ("you.", 1, 2)))
    assert (verdict.count.insertions, verdict.count.rate) == (2, None)


def test_times_that_go_back_or_leave_the_audio_are_counted() -> None:
    odd = heard(("red", 2, 3), ("blue", 1, 0.5), ("green", 9, 12))
    assert judge(SAID, odd).disorder == 3


def test_words_without_times_share_their_segments() -> None:
    assert spread([Spoken(" a bbb", 1.0, 3.0)]) == (Spoken("a", 1.0, 1.5), Spoken("bbb", 1.5, 3.0))
    assert spread([Spoken("  ", 1.0, 3.0)]) == ()
