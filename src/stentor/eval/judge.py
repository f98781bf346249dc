"""What is right and wrong in one transcript."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stentor.bench.manifest import Mark, Utterance
from stentor.bench.score import ErrorCount, tokens, unit_of
from stentor.eval.alignment import Run, Spoken, align, origins, times

SEAM_S = 1.0
"""An error so near to a cut between chunks counts as the seam's: two or three words on either side."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a listener made of a file.

    Attributes:
        text: The transcript.
        language: The code it says it is in, if it says so.
        words: Its pieces with their times, in order.
        timed: Whether these are words, with times of their own; else the times are guessed from segments.
    """

    text: str
    language: str | None
    words: tuple[Spoken, ...]
    timed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """A transcript beside its reference.

    Attributes:
        utterance: What was to be heard.
        heard: What was heard; None where the listener failed.
        error: Why it failed.
        reference: Tokens of the reference.
        tokens: Tokens of what was heard.
        runs: How the one becomes the other.
        count: The same in numbers.
        seam_edits: How many of the edits lie within `SEAM_S` of a cut between chunks.
        cuts_s: Where the cuts are.
        disorder: Words that begin before the one before them, end before they begin, or after the audio.
        time_errors_s: For each mark whose first or last word was heard: how far from the truth it was put.
    """

    utterance: Utterance
    heard: Heard | None
    error: str | None
    reference: tuple[str, ...]
    tokens: tuple[str, ...]
    runs: tuple[Run, ...]
    count: ErrorCount
    seam_edits: int = 0
    cuts_s: tuple[float, ...] = ()
    disorder: int = 0
    time_errors_s: tuple[float, ...] = ()


def judge(
    utterance: Utterance, heard: Heard | None, *, error: str | None = None, cuts_s: Iterable[float] = ()
) -> Verdict:
    """Hold a transcript against its reference; where there is none, every word is missing."""
    language = utterance.language
    reference = tokens(utterance.text or "", language)
    said = tokens(heard.text, language) if heard else []
    runs, cuts = align(reference, said), tuple(cuts_s)
    spans = times(heard.words, said, language) if heard else []
    return Verdict(
        utterance,
        heard,
        error,
        tuple(reference),
        tuple(said),
        runs,
        _count(runs, len(reference), language),
        seam_edits=sum(run.edits for run in runs if run.edits and _near(run, spans, cuts)),
        cuts_s=cuts,
        disorder=_disorder(heard, utterance.seconds) if heard and heard.timed else 0,
        time_errors_s=_time_errors(utterance, reference, runs, spans) if heard and heard.timed else (),
    )


def _count(runs: Sequence[Run], references: int, language: str | None) -> ErrorCount:
    def edits(kind: str) -> int:
        return sum(run.edits for run in runs if run.kind == kind)

    return ErrorCount(unit_of(language), references, edits("substitute"), edits("delete"), edits("insert"))


def _near(run: Run, spans: Sequence[tuple[float, float] | None], cuts_s: Sequence[float]) -> bool:
    """Whether a run lies at a cut. What was deleted lies between its neighbours."""
    own = [span for span in spans[run.heard_start : run.heard_end] if span is not None]
    beside = [span for span in spans[max(run.heard_start - 1, 0) : run.heard_end + 1] if span is not None]
    known = own or beside
    return bool(known) and any(known[0][0] - SEAM_S <= cut_s <= known[-1][1] + SEAM_S for cut_s in cuts_s)


def _disorder(heard: Heard, seconds: float | None) -> int:
    backwards = sum(later.start_s < earlier.start_s for earlier, later in pairwise(heard.words))
    # Files state their length to the nearest frame or packet.
    outside = sum(word.start_s < 0 or (seconds or 1e9) + 0.1 < word.end_s for word in heard.words)
    return backwards + outside + sum(word.end_s < word.start_s for word in heard.words)


def _time_errors(
    utterance: Utterance,
    reference: Sequence[str],
    runs: Sequence[Run],
    spans: Sequence[tuple[float, float] | None],
) -> tuple[float, ...]:
    """How far the beginnings and ends of marks are off, where the word at that place was heard right."""
    heard_at = {
        run.reference_start + step: run.heard_start + step
        for run in runs
        if run.kind == "equal"
        for step in range(run.reference_end - run.reference_start)
    }
    found = []
    for first, last, mark in _mark_places(utterance.marks, reference, utterance.language):
        start = spans[heard_at[first]] if first in heard_at else None
        end = spans[heard_at[last]] if last in heard_at else None
        found += [abs(start[0] - mark.start_s)] if start else []
        found += [abs(end[1] - mark.end_s)] if end else []
    return tuple(found)


def _mark_places(
    marks: Sequence[Mark], reference: Sequence[str], language: str | None
) -> Iterable[tuple[int, int, Mark]]:
    """Where in the reference each mark's first and last token is; -1 where it cannot be told."""
    parts = [tokens(mark.text, language) for mark in marks]
    places = {origin: place for place, origin in enumerate(origins(parts, reference)) if origin is not None}
    for index, (mark, part) in enumerate(zip(marks, parts, strict=True)):
        yield places.get((index, 0), -1), places.get((index, len(part) - 1), -1), mark
