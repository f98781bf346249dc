"""Two chunks that heard the same stretch give each of its words once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.text.seams import reconcile
from stentor.types import Segment, TokenLogprob, Word

STEP_S = 0.35
"""How long a word takes."""


def segment(words: Sequence[Word]) -> Segment:
    return Segment(
        "".join(word.text for word in words),
        words[0].start_s,
        words[-1].end_s,
        tokens=tuple(range(2 * len(words))),
        words=tuple(words),
        logprobs=tuple(TokenLogprob(b"", -float(at)) for at in range(2 * len(words))),
    )


def spoken(texts: Sequence[str], first: int, jitter: random.Random, by_s: float) -> list[Word]:
    """Words as a chunk hears them, the first being the so-manieth of the file."""
    moved = [STEP_S * at + jitter.uniform(-by_s, by_s) for at in range(first, first + len(texts) + 1)]
    moved.sort()
    return [
        Word(f" {text}", start_s, end_s, 1.0, 2)
        for text, start_s, end_s in zip(texts, moved, moved[1:], strict=False)
    ]


def words_of(segments: Sequence[Segment]) -> list[str]:
    return [word.text.strip() for segment in segments for word in segment.words]


@given(
    texts=st.lists(st.sampled_from(["one", "two", "three", "four", "no"]), min_size=30, max_size=40),
    seed=st.integers(0, 999),
    cut=st.integers(10, 20),
    pieces=st.integers(1, 4),
)
def test_no_word_is_lost_or_doubled_whatever_the_edges_heard(
    texts: list[str], seed: int, cut: int, pieces: int
) -> None:
    """Nine words lie in both chunks. Each mishears the one at its own edge, which is cut in half."""
    jitter = random.Random(seed)
    left = spoken([*texts[: cut + 8], "gar"], 0, jitter, 0.1)
    right = spoken(["bage", *texts[cut + 1 :]], cut, jitter, 0.1)
    size = -(-len(left) // pieces)
    earlier = [segment(left[at : at + size]) for at in range(0, len(left), size)]
    found = reconcile(earlier, [segment(right)], STEP_S * cut, STEP_S * (cut + 9))
    assert words_of(found) == texts
    for each in found:
        assert each.text == "".join(word.text for word in each.words)
        assert len(each.tokens) == len(each.logprobs) == 2 * len(each.words)
    edges = [edge for each in found for word in each.words for edge in (word.start_s, word.end_s)]
    assert edges == sorted(edges)


def test_spelling_and_punctuation_do_not_hide_that_it_is_the_same_word() -> None:
    steady = random.Random(0)
    left = spoken(["we", "went", "home", "and", "then."], 0, steady, 0)
    right = spoken(["Home", "And", "then", "slept"], 2, steady, 0)
    found = reconcile([segment(left)], [segment(right)], 0.7, 1.75)
    assert " ".join(words_of(found)) in ("we went home And then slept", "we went home and then slept")


def test_a_chunk_that_heard_nothing_takes_nothing_away() -> None:
    said = [segment(spoken(["all", "of", "this"], 0, random.Random(0), 0))]
    assert reconcile(said, [], 0.0, 3.0) == said
    assert reconcile([], said, 0.0, 3.0) == said


def test_where_nothing_agrees_the_middle_parts_the_two() -> None:
    steady = random.Random(0)
    left, right = spoken(list("abcdef"), 0, steady, 0), spoken(list("uvwxyz"), 0, steady, 0)
    found = reconcile([segment(left)], [segment(right)], 0.0, 6 * STEP_S)
    assert words_of(found) == ["a", "b", "c", "x", "y", "z"]


def test_segments_without_words_meet_in_the_words_of_their_texts() -> None:
    """Their times are guessed and up to 1 s wrong: who speaks slower at first is ahead of his words."""
    left = Segment(" Slowly, at first, and then faster and faster he went on to the end of the roa", 0, 16)
    right = Segment(" bend of the road and over the hill, and down on the other side, and was gone.", 13, 29)
    found = reconcile([left], [right], 13, 16, timed=False)
    said = "".join(segment.text for segment in found)
    assert said.endswith(
        " went on to the end of the road and over the hill, and down on the other side, and was gone."
    )
    assert found[0].end_s <= found[1].start_s
    assert not any(segment.words for segment in found)


def test_a_text_without_spaces_and_without_words_meets_in_its_characters() -> None:
    found = reconcile([Segment("明日は晴れで", 0, 6)], [Segment("は晴れですね", 2, 8)], 2, 6, timed=False)
    assert "".join(segment.text for segment in found) == "明日は晴れですね"


@pytest.mark.parametrize("language_step", ["今", "日"])
def test_characters_are_words_where_nothing_is_spaced(language_step: str) -> None:
    steady = random.Random(0)
    left = [replaced(word) for word in spoken(list("明日は晴れ"), 0, steady, 0)]
    right = [replaced(word) for word in spoken(list(language_step + "は晴れです"), 1, steady, 0)]
    found = reconcile([segment(left)], [segment(right)], STEP_S, 5 * STEP_S)
    assert "".join(words_of(found)) == "明日は晴れです"


def replaced(word: Word) -> Word:
    return Word(word.text.strip(), word.start_s, word.end_s, word.probability, word.n_tokens)
