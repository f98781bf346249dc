"""One text out of two that were heard in the same stretch of audio.

Where no quiet place was found to cut a file, two chunks share a few seconds. Each heard them with other
surroundings, the one with what came before, the other with what comes after, and each is unsure at its own
edge. Both texts are laid beside each other by time and words, and the first is left for the second where they
agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stentor.types import Segment, Word

NEAR_S = 0.5
"""The same word is heard in both chunks within this time."""

NEAR_GUESSED_S = 2.0
"""The same where the times of words are guessed. At 43 seams in four recordings 0.5 s would double or lose
three times as many words as known times do, 1 s twice as many, and 2 s a fifth more."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A word, in which segment it is and how many words of that segment come before it."""

    segment: int
    before: int
    word: Word
    spelling: str

    @property
    def middle_s(self) -> float:
        return (self.word.start_s + self.word.end_s) / 2


def reconcile(
    earlier: Sequence[Segment], later: Sequence[Segment], start_s: float, end_s: float, *, timed: bool = True
) -> list[Segment]:
    """What was said, from what two chunks heard up to and from a stretch that they share.

    Args:
        earlier: The end of the first chunk's segments, in order and in the file's timeline.
        later: The beginning of the second one's.
        start_s: Where the shared stretch begins.
        end_s: Where it ends.
        timed: Whether the times of words are known, or guessed.
    """
    left, right = list(_places(earlier)), list(_places(later))
    if not any(place.middle_s >= start_s for place in left) or not any(
        place.middle_s < end_s for place in right
    ):
        return _in_turn(list(earlier), list(later))  # only one of them heard anything there
    near_s = NEAR_S if timed else NEAR_GUESSED_S
    upto, since = _meeting(left, right, (start_s + end_s) / 2, near_s)
    return _in_turn([*_cut(earlier, left[:upto])], [*_cut(later, right[since:])])


def upto(segments: Sequence[Segment], end_s: float) -> list[Segment]:
    """The segments as far as their words end before a time."""
    return list(_cut(segments, [place for place in _places(segments) if place.word.end_s <= end_s]))


def _in_turn(earlier: list[Segment], later: list[Segment]) -> list[Segment]:
    """Both, the last of the first ending where the second begins, if it would end later."""
    if not earlier or not later:
        return [*earlier, *later]
    last, start_s = earlier[-1], later[0].start_s
    words = tuple(
        replace(word, start_s=min(word.start_s, start_s), end_s=min(word.end_s, start_s))
        for word in last.words
    )
    ended = replace(last, start_s=min(last.start_s, start_s), end_s=min(last.end_s, start_s), words=words)
    return [*earlier[:-1], ended, *later]


def _meeting(
    left: Sequence[_Place], right: Sequence[_Place], centre_s: float, near_s: float
) -> tuple[int, int]:
    """How many words to take of the first text, and from which one on of the second."""
    best = (0.0, 0.0, 0, 0, 0)  # of a run: how well it agrees, how central it is, its length, where it ends
    runs: dict[tuple[int, int], tuple[float, int]] = {}
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            # In order of time: what is far away is not compared, or a chunk of words costs 14 ms of the loop.
            if other.middle_s > one.middle_s + near_s:
                break
            apart_s = abs(one.middle_s - other.middle_s)
            if apart_s > near_s or one.spelling != other.spelling:
                continue
            agreed, length = runs.get((i - 1, j - 1), (0.0, 0))
            # Time counts as much as spelling: somebody may say the same word ten times.
            runs[i, j] = agreed, length = agreed + 1 - apart_s / near_s, length + 1
            best = max(best, (agreed, -abs(one.middle_s - centre_s), length, i, j))
    _, _, length, i, j = best
    if not length:
        upto = next((n for n, place in enumerate(left) if place.middle_s >= centre_s), len(left))
        return upto, next((n for n, place in enumerate(right) if place.middle_s >= centre_s), len(right))
    # Anywhere in the run will do for the text; its middle is farthest from what either was unsure about.
    back = (length - 1) // 2
    return i - back + 1, j - back + 1


def _places(segments: Sequence[Segment]) -> Iterator[_Place]:
    for index, segment in enumerate(segments):
        for before, word in enumerate(_words(segment)):
            spelling = "".join(character for character in word.text.casefold() if character.isalnum())
            yield _Place(index, before, word, spelling)


def _words(segment: Segment) -> tuple[Word, ...]:
    """A segment's words; where an engine gives none, its text shared out over its time by length."""
    if segment.words:
        return segment.words
    pieces = re.findall(r"\s*\S+", segment.text)
    if len(pieces) == 1:
        pieces = list(segment.text)  # a language that puts no spaces between words, or a single word
    rate = (segment.end_s - segment.start_s) / max(1, len(segment.text))
    words, start_s = [], segment.start_s
    for piece in pieces:
        end_s = start_s + rate * len(piece)
        words.append(Word(piece, start_s, end_s, 1.0))
        start_s = end_s
    return tuple(words)


def _cut(segments: Sequence[Segment], kept: Sequence[_Place]) -> Iterator[Segment]:
    """The segments, with those of their words that are kept: neighbours in each."""
    for index, segment in enumerate(segments):
        own = [place for place in kept if place.segment == index]
        if len(own) == len(_words(segment)):
            yield segment
        elif own:
            first = own[0].before
            yield _part_of(segment, first, first + len(own))


def _part_of(segment: Segment, first: int, last: int) -> Segment:
    """A segment with some of its words, from `first` to before `last`, and their tokens, if known."""
    all_words = _words(segment)
    words = all_words[first:last]
    begin = sum(word.n_tokens for word in all_words[:first])
    end = begin + sum(word.n_tokens for word in words)
    return replace(
        segment,
        text="".join(word.text for word in words),
        start_s=words[0].start_s,
        end_s=words[-1].end_s,
        tokens=segment.tokens[begin:end],
        words=words if segment.words else (),
        logprobs=segment.logprobs[begin:end],
    )
