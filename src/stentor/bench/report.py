"""Measurements for people (a table) and for later (one JSON object a line)."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from stentor.bench.results import Latency, LevelResult
from stentor.bench.score import ErrorCount, Pair, Score, score

CPU_FACTS = Path("/proc/cpuinfo")
"""Where Linux names the CPU; `platform` does not know it there."""

ERROR_LINES = 5
"""How many different errors a table tells; a dead server gives the same one a thousand times."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a figure is worth nothing without."""

    cpu: str
    cores: int
    python: str
    platform: str

    @classmethod
    def here(cls) -> Machine:
        """Describe this machine; the server's is another one when its URL says so."""
        facts = CPU_FACTS.read_text(encoding="utf-8") if CPU_FACTS.exists() else ""
        named = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
        cpu = named[1] if named else platform.processor() or platform.machine()
        return cls(cpu, os.cpu_count() or 1, platform.python_version(), platform.platform())


@dataclass(frozen=True, slots=True)
class Subject:
    """What was measured. `url` is None for a library; `options` are those that change the work."""

    model: str
    url: str | None
    options: Mapping[str, str | int | bool | None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A level with its error rates. What failed has no text and is not scored: it shows as an error."""

    subject: Subject
    level: LevelResult
    score: Score

    @classmethod
    def of(cls, subject: Subject, level: LevelResult) -> Measurement:
        """Score a level's texts where a reference says what they should be."""
        return cls(
            subject,
            level,
            score(
                Pair(request.utterance.language, request.utterance.text, request.text)
                for request in level.requests
                if request.text is not None and request.utterance.text is not None
            ),
        )


def json_line(measurement: Measurement) -> str:
    """Put a measurement with the machine and the plan on one line, without the texts."""
    subject, level = measurement.subject, measurement.level
    utterances = [request.utterance for request in level.requests]
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": asdict(Machine.here()),
        "url": subject.url,
        "model": subject.model,
        "plan": {
            **subject.options,
            "concurrency": level.concurrency,
            "utterances": len(utterances),
            "audio_s": sum(utterance.seconds or 0.0 for utterance in utterances),
            "languages": dict(Counter(utterance.language or "und" for utterance in utterances)),
        },
        "figures": {
            "wall_s": level.wall_s,
            "audio_s": level.audio_s,
            "rtfx": level.rtfx,
            "requests_per_s": level.requests_per_s,
            "transcribed": len(level.transcribed),
            "errors": level.errors,
            "latency": level.latency and asdict(level.latency),
            "health": level.health and asdict(level.health),
            "server": level.server and asdict(level.server),
            "words": _count_record(measurement.score.words),
            "characters": _count_record(measurement.score.characters),
            "languages": {
                language: _count_record(count) for language, count in measurement.score.languages.items()
            },
        },
    }
    return json.dumps(record, ensure_ascii=False)


def append_json(path: Path, measurement: Measurement) -> None:
    """Add a measurement to a file of JSON lines."""
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json_line(measurement) + "\n")


def _count_record(count: ErrorCount) -> dict[str, object]:
    return {**asdict(count), "rate": count.rate}


_NONE = "-"
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
    "WER %": lambda m: _percent(m.score.words),
    "CER %": lambda m: _percent(m.score.characters),
    "CPU s": lambda m: f"{m.level.server.cpu_s:.1f}" if m.level.server else _NONE,
    "peak RSS MB": lambda m: f"{m.level.server.peak_rss_bytes / 1e6:.0f}" if m.level.server else _NONE,
    "liveness p50 s": lambda m: _latency(_liveness(m), "p50_s", ".4f"),
    "liveness p99 s": lambda m: _latency(_liveness(m), "p99_s", ".4f"),
    "liveness max s": lambda m: _latency(_liveness(m), "max_s", ".4f"),
    "liveness failures": lambda m: (
        f"{m.level.health.failures}/{m.level.health.probes}" if m.level.health else _NONE
    ),
}


def show(measurements: Sequence[Measurement], console: Console) -> None:
    """Print the levels of one subject side by side, the last one's languages, and what went wrong."""
    if not measurements:
        return
    last = measurements[-1]
    rows = [[name, *map(cell, measurements)] for name, cell in _FIGURES.items()]
    print_table(
        console,
        last.subject.model + (f" at {last.subject.url}" if last.subject.url else ""),
        ["in flight", *(str(measurement.level.concurrency) for measurement in measurements)],
        [row for row in rows if set(row[1:]) != {_NONE}],
    )
    if len(last.score.languages) > 1:
        print_table(
            console,
            f"languages, {last.level.concurrency} in flight",
            ["language", "unit", "error %", "of", "substituted", "deleted", "inserted"],
            [_language_row(language, count) for language, count in last.score.languages.items()],
        )
    errors = Counter(
        f"{'no answer' if request.status is None else request.status}: {request.error}"
        for measurement in measurements
        for request in measurement.level.requests
        if request.error is not None
    )
    for error, times in errors.most_common(ERROR_LINES):
        console.print(f"{times} × {error}", markup=False, highlight=False, soft_wrap=True)


def print_table(console: Console, title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table: framed on a terminal, plain columns elsewhere."""
    if console.is_terminal:
        table = Table(*header, title=title)
        for column in table.columns:
            column.justify = "right"
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return
    # For files and pipes: no frame, no wrapping, columns that line up.
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ("  ".join(map(str.rjust, row, widths)) for row in (header, *rows))
    console.print("\n".join((title, *lines)), markup=False, highlight=False, soft_wrap=True)


def _language_row(language: str, count: ErrorCount) -> list[str]:
    edits = (count.references, count.substitutions, count.deletions, count.insertions)
    return [language, count.unit, _percent(count), *map(str, edits)]


def _liveness(measurement: Measurement) -> Latency | None:
    health = measurement.level.health
    return None if health is None else health.latency


def _percent(count: ErrorCount) -> str:
    return _NONE if count.rate is None else f"{100 * count.rate:.2f}"


def _latency(latency: Latency | None, percentile: str, form: str) -> str:
    return _NONE if latency is None else format(getattr(latency, percentile), form)
