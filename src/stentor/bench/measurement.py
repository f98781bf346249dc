"""A level of a load, or a peer's run, with its error rates: for people a table, for later a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from rich.console import Console

from stentor.bench.records import Record
from stentor.bench.results import Latency, LevelResult
from stentor.bench.score import ErrorCount, Pair, Score, score
from stentor.bench.tables import NONE, print_table

ERROR_LINES = 5
"""How many different errors a table tells; a dead server gives the same one a thousand times."""

PART = "level"

UNSTREAMED = "The server does not stream: the first delta is the whole answer."


@dataclass(frozen=True, slots=True)
class Measurement:
    """A level with its error rates. What failed has no text and is not scored: it shows as an error.

    `options` are those that change the work.
    """

    options: Mapping[str, str | int | bool | None]
    level: LevelResult
    score: Score

    @classmethod
    def of(cls, options: Mapping[str, str | int | bool | None], level: LevelResult) -> Measurement:
        """Score a level's texts where a reference says what they should be."""
        return cls(
            options,
            level,
            score(
                Pair(request.utterance.language, request.utterance.text, request.text)
                for request in level.requests
                if request.text is not None and request.utterance.text is not None
            ),
        )

    def record(self) -> Record:
        """All but the texts."""
        level, scored = self.level, self.score
        utterances = [request.utterance for request in level.requests]
        plan = {
            **self.options,
            "concurrency": level.concurrency,
            "utterances": len(utterances),
            "audio_s": sum(utterance.seconds or 0.0 for utterance in utterances),
            "languages": dict(Counter(utterance.language or "und" for utterance in utterances)),
        }
        figures = {
            "wall_s": level.wall_s,
            "audio_s": level.audio_s,
            "rtfx": level.rtfx,
            "requests_per_s": level.requests_per_s,
            "transcribed": len(level.transcribed),
            "streamed": level.streamed,
            "errors": level.errors,
            "latency": level.latency and asdict(level.latency),
            "first_delta": level.first_delta and asdict(level.first_delta),
            "health": level.health and asdict(level.health),
            "server": level.server and asdict(level.server),
            "stages_s": level.stages,
            "words": _count_record(scored.words),
            "characters": _count_record(scored.characters),
            "languages": {language: _count_record(count) for language, count in scored.languages.items()},
        }
        return Record(PART, plan, figures)


def _count_record(count: ErrorCount) -> dict[str, object]:
    return {**asdict(count), "rate": count.rate}


_Cell: TypeAlias = Callable[[Measurement], str]

_FIGURES: Mapping[str, _Cell] = {
    "transcribed": lambda m: str(len(m.level.transcribed)),
    "errors": lambda m: str(sum(m.level.errors.values())),
    "wall s": lambda m: f"{m.level.wall_s:.1f}",
    "RTFx": lambda m: f"{m.level.rtfx:.1f}",
    "requests/s": lambda m: f"{m.level.requests_per_s:.2f}",
    "latency p50 s": lambda m: _latency(m.level.latency, "p50_s", ".2f"),
    "latency p95 s": lambda m: _latency(m.level.latency, "p95_s", ".2f"),
    "latency p99 s": lambda m: _latency(m.level.latency, "p99_s", ".2f"),
    "latency max s": lambda m: _latency(m.level.latency, "max_s", ".2f"),
    "first delta p50 s": lambda m: _latency(m.level.first_delta, "p50_s", ".2f"),
    "first delta p95 s": lambda m: _latency(m.level.first_delta, "p95_s", ".2f"),
    "first delta p99 s": lambda m: _latency(m.level.first_delta, "p99_s", ".2f"),
    "WER %": lambda m: _percent(m.score.words),
    "CER %": lambda m: _percent(m.score.characters),
    "CPU s": lambda m: f"{m.level.server.cpu_s:.1f}" if m.level.server else NONE,
    "peak RSS MB": lambda m: f"{m.level.server.peak_rss_bytes / 1e6:.0f}" if m.level.server else NONE,
    "liveness p50 s": lambda m: _latency(_liveness(m), "p50_s", ".4f"),
    "liveness p99 s": lambda m: _latency(_liveness(m), "p99_s", ".4f"),
    "liveness max s": lambda m: _latency(_liveness(m), "max_s", ".4f"),
    "liveness failures": lambda m: (
        f"{m.level.health.failures}/{m.level.health.probes}" if m.level.health else NONE
    ),
}


def show(title: str, measurements: Sequence[Measurement], console: Console) -> None:
    """Print the levels of one subject side by side, the last one's languages, and what went wrong."""
    if not measurements:
        return
    last = measurements[-1]
    rows = [[name, *map(cell, measurements)] for name, cell in _FIGURES.items()]
    print_table(
        console,
        title,
        ["in flight", *(str(measurement.level.concurrency) for measurement in measurements)],
        [row for row in rows if set(row[1:]) != {NONE}],
    )
    if len(last.score.languages) > 1:
        print_table(
            console,
            f"languages, {last.level.concurrency} in flight",
            ["language", "unit", "error %", "of", "substituted", "deleted", "inserted"],
            [_language_row(language, count) for language, count in last.score.languages.items()],
        )
    if any(measurement.level.first_delta and not measurement.level.streamed for measurement in measurements):
        console.print(UNSTREAMED)
    errors = Counter(
        f"{'no answer' if request.status is None else request.status}: {request.error}"
        for measurement in measurements
        for request in measurement.level.requests
        if request.error is not None
    )
    for error, times in errors.most_common(ERROR_LINES):
        console.print(f"{times} × {error}", markup=False, highlight=False, soft_wrap=True)


def _language_row(language: str, count: ErrorCount) -> list[str]:
    edits = (count.references, count.substitutions, count.deletions, count.insertions)
    return [language, count.unit, _percent(count), *map(str, edits)]


def _liveness(measurement: Measurement) -> Latency | None:
    health = measurement.level.health
    return None if health is None else health.latency


def _percent(count: ErrorCount) -> str:
    return NONE if count.rate is None else f"{100 * count.rate:.2f}"


def _latency(latency: Latency | None, percentile: str, form: str) -> str:
    return NONE if latency is None else format(getattr(latency, percentile), form)
