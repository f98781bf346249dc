"""An evaluation: every file of a corpus heard once, group by group."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from stentor.bench.manifest import Utterance
from stentor.bench.score import ErrorCount
from stentor.eval.joined import cuts_of
from stentor.eval.judge import Heard, Verdict, judge
from stentor.eval.listeners import Listener, ListenerError

PROMPT_S = 0.3
"""A time that is off by more is wrong: the eye sees a subtitle that comes so late."""


@dataclass(frozen=True, slots=True)
class Group:
    """The verdicts of one corpus in one language.

    Rates are the group's, sum of edits over sum of reference units, and a file that failed is one whose words
    are all missing.
    """

    corpus: str
    language: str
    verdicts: tuple[Verdict, ...]
    wall_s: float

    @property
    def name(self) -> str:
        return f"{self.corpus}/{self.language}"

    @property
    def count(self) -> ErrorCount:
        first, *rest = (verdict.count for verdict in self.verdicts)
        return sum(rest, start=first)

    @property
    def audio_s(self) -> float:
        return sum(verdict.utterance.seconds or 0.0 for verdict in self.verdicts)

    @property
    def rtfx(self) -> float:
        return self.audio_s / self.wall_s

    @property
    def failures(self) -> int:
        return sum(verdict.error is not None for verdict in self.verdicts)

    @property
    def cuts(self) -> int:
        return sum(len(verdict.cuts_s) for verdict in self.verdicts)

    @property
    def seam_edits(self) -> int:
        return sum(verdict.seam_edits for verdict in self.verdicts)

    @property
    def dreamt(self) -> int:
        """Files without a word in which words were heard."""
        return sum(bool(verdict.tokens) and not verdict.reference for verdict in self.verdicts)

    @property
    def wordless(self) -> int:
        return sum(not verdict.reference for verdict in self.verdicts)

    @property
    def other_language(self) -> int:
        """Files that were heard in another language than the one they are in."""
        return sum(
            verdict.heard is not None
            and verdict.utterance.language is not None
            and verdict.heard.language not in (None, verdict.utterance.language.split("-")[0])
            for verdict in self.verdicts
        )

    @property
    def disorder(self) -> int:
        return sum(verdict.disorder for verdict in self.verdicts)

    @property
    def time_errors_s(self) -> list[float]:
        return sorted(error for verdict in self.verdicts for error in verdict.time_errors_s)

    def figures(self) -> dict[str, object]:
        """All of it, for a file. Names carry their units."""
        count, errors_s = self.count, self.time_errors_s
        return {
            "files": len(self.verdicts),
            "failures": self.failures,
            "audio_s": self.audio_s,
            "wall_s": self.wall_s,
            "rtfx": self.rtfx,
            "unit": count.unit,
            "references": count.references,
            "substitutions": count.substitutions,
            "deletions": count.deletions,
            "insertions": count.insertions,
            "rate": count.rate,
            "cuts": self.cuts,
            "seam_edits": self.seam_edits,
            "wordless": self.wordless,
            "dreamt": self.dreamt,
            "other_language": self.other_language,
            "disorder": self.disorder,
            "times": len(errors_s),
            "time_error_p50_s": statistics.median(errors_s) if errors_s else None,
            "time_error_p95_s": errors_s[int(0.95 * (len(errors_s) - 1))] if errors_s else None,
            "time_error_max_s": errors_s[-1] if errors_s else None,
            "times_off": sum(error_s > PROMPT_S for error_s in errors_s),
        }


def grouped(utterances: Sequence[Utterance]) -> dict[tuple[str, str], list[Utterance]]:
    """Utterances with a reference by corpus and language, each in the order they came."""
    found: dict[tuple[str, str], list[Utterance]] = {}
    for utterance in utterances:
        if utterance.text is not None:
            found.setdefault((utterance.corpus, utterance.language or "none"), []).append(utterance)
    return dict(sorted(found.items()))


async def evaluate(
    corpus: str, language: str, utterances: Sequence[Utterance], listener: Listener, *, vad: bool = False
) -> Group:
    """Hear all files of a group, as many at a time as the listener takes.

    Args:
        corpus: The group's.
        language: The group's.
        utterances: Its files.
        listener: Hears them.
        vad: Whether it leaves out what is not speech, which moves the cuts.
    """
    at_once = asyncio.Semaphore(listener.at_once)

    async def hear(utterance: Utterance) -> Heard | ListenerError:
        async with at_once:
            try:
                return await listener.hear(utterance)
            except ListenerError as error:
                return error

    start_s = perf_counter()
    async with asyncio.TaskGroup() as tasks:
        hearings = [tasks.create_task(hear(utterance)) for utterance in utterances]
    wall_s = perf_counter() - start_s
    answers = [hearing.result() for hearing in hearings]
    verdicts = await asyncio.to_thread(_judge_all, utterances, answers, vad)
    return Group(corpus, language, verdicts, wall_s)


def _judge_all(
    utterances: Sequence[Utterance], answers: Sequence[Heard | ListenerError], vad: bool
) -> tuple[Verdict, ...]:
    return tuple(
        judge(utterance, None, error=str(answer))
        if isinstance(answer, ListenerError)
        else judge(utterance, answer, cuts_s=cuts_of(utterance.path, vad=vad))
        for utterance, answer in zip(utterances, answers, strict=True)
    )
