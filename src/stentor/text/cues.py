"""From segments to cues: texts of a size that people can read, when each is shown."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from stentor.errors import InvalidValue
from stentor.text.lines import Units, divided, joined, lines_of, units_of
from stentor.types import Segment

MIN_CUE_MS: Final = 20
"""The shortest cue. Players drop cues without length; 20 ms is the step of Whisper's own timestamps."""

MIN_LIMIT_S: Final = 1.0
"""The least that `max_cue_s` may be. Nobody reads faster: the convention's shortest subtitle has 5/6 s.
Source: Netflix, Timed Text Style Guide, General Requirements, 1. Duration."""


@dataclass(frozen=True, slots=True)
class CueLimits:
    """How large a cue may be. What is None is not limited.

    The convention is 42 columns, 2 lines and 7 s. Source: Netflix, Timed Text Style Guide: General
    Requirements (7 seconds per subtitle event, 2 lines maximum) and English Template (42 characters per
    line). The names are those of openai/whisper's `max_line_width` and `max_line_count`.

    Attributes:
        max_line_width: Columns in a line, at least 1; a wide character takes two. A word is never broken.
        max_line_count: Lines in a cue, at least 1; without a width there are no lines to count.
        max_cue_s: Seconds that a cue is shown, at least `MIN_LIMIT_S`.

    Raises:
        InvalidValue: A limit is out of its range, or counts lines that have no width; `param` names it.
    """

    max_line_width: int | None = None
    max_line_count: int | None = None
    max_cue_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_line_width", self.max_line_width), ("max_line_count", self.max_line_count)):
            if value is not None and value < 1:
                raise InvalidValue(f"{name} must be at least 1", param=name)
        if self.max_line_count is not None and self.max_line_width is None:
            raise InvalidValue("max_line_count needs max_line_width", param="max_line_count")
        if self.max_cue_s is not None and not MIN_LIMIT_S <= self.max_cue_s < math.inf:
            raise InvalidValue(f"max_cue_s must be at least {MIN_LIMIT_S:g} and finite", param="max_cue_s")


NO_LIMITS: Final = CueLimits()
"""A cue for each segment, as it is."""


@dataclass(slots=True)
class Cue:
    """A text and when it is shown, in whole milliseconds; no line of it is blank."""

    start_ms: int
    end_ms: int
    text: str


def cues_of(segments: Iterable[Segment], limits: CueLimits = NO_LIMITS) -> list[Cue]:
    """Cues in the segments' order that have length and do not overlap; blank segments make none.

    A cue ends where the next one starts at the latest. Where that would leave it without length, it keeps
    `MIN_CUE_MS` and the next one starts later.

    With limits, a segment too large becomes several cues, cut where sentences end, else clauses, else
    words, else, where the script puts nothing between words, between characters. Then times are the words'
    where the segment has them, else in proportion to the characters; white space is a space or a new line.
    """
    longest_ms = math.inf if limits.max_cue_s is None else int(limits.max_cue_s * 1000)
    cues: list[Cue] = []
    for segment in segments:
        for start_s, end_s, text in [_whole(segment)] if limits == NO_LIMITS else _limited(segment, limits):
            if not text:
                continue
            start_ms = max(0, round(start_s * 1000))
            if cues:
                previous = cues[-1]
                previous.end_ms = max(previous.start_ms + MIN_CUE_MS, min(previous.end_ms, start_ms))
                start_ms = max(start_ms, previous.end_ms)
            end_ms = max(start_ms + MIN_CUE_MS, round(end_s * 1000))
            cues.append(Cue(start_ms, int(min(end_ms, start_ms + longest_ms)), text))
    return cues


def _whole(segment: Segment) -> tuple[float, float, str]:
    """A segment without outer white space and without blank lines, which would end a cue early."""
    lines = (line.strip() for line in segment.text.splitlines())
    return segment.start_s, segment.end_s, "\n".join(line for line in lines if line)


def _limited(segment: Segment, limits: CueLimits) -> Iterator[tuple[float, float, str]]:
    """A segment as texts within limits, with start and end in seconds."""
    units = units_of(segment.text)
    if not units:
        return
    timeline = _Timeline(segment)

    def fits(run: Units) -> bool:
        start_s, end_s = timeline.span(run)
        if limits.max_cue_s is not None and end_s - start_s > limits.max_cue_s:
            return False
        return limits.max_line_count is None or len(_lines(run, limits)) <= limits.max_line_count

    for run in divided(units, fits):
        yield *timeline.span(run), "\n".join(map(joined, _lines(run, limits)))


def _lines(units: Units, limits: CueLimits) -> Sequence[Units]:
    return [units] if limits.max_line_width is None else lines_of(units, limits.max_line_width)


class _Timeline:
    """When each character of a segment is spoken: evenly inside each word, or inside the whole text."""

    def __init__(self, segment: Segment) -> None:
        spoken = "".join(word.text for word in segment.words)
        before = segment.text.removesuffix(spoken)  # the space that a transcript has at a seam, if anything
        if spoken and not before.strip():
            timed = [(word.text, word.start_s, word.end_s) for word in segment.words]
        else:
            before, timed = "", [(segment.text, segment.start_s, segment.end_s)]
        self._begins: list[int] = []
        self._spans: list[tuple[int, float, float]] = []
        at = len(before)
        for text, start_s, end_s in timed:
            if bare := text.strip():
                self._begins.append(at + text.index(bare))
                self._spans.append((len(bare), start_s, end_s))
            at += len(text)

    def span(self, run: Units) -> tuple[float, float]:
        """Seconds from the first character of some units to the last."""
        return self._time_s(run[0].begin, 0), self._time_s(run[-1].end - 1, 1)

    def _time_s(self, character: int, whole: int) -> float:
        """When a character begins (`whole` 0) or ends (1)."""
        at = max(bisect_right(self._begins, character) - 1, 0)
        length, start_s, end_s = self._spans[at]
        through = min(max((character - self._begins[at] + whole) / length, 0.0), 1.0)
        return start_s * (1 - through) + end_s * through
