"""Levels of the same files on the same machine, beside each other: only these can be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from pydantic import TypeAdapter

from stentor.bench.machine import Machine
from stentor.bench.records import Line
from stentor.bench.report.shapes import Count, Figure, shaped
from stentor.bench.results import HealthFigures, Latency, ServerFigures
from stentor.bench.tables import NONE, cell

GIB = 1 << 30
DIGEST_DIGITS = 8
"""Of the weights' digest, in labels."""


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """Errors per unit of the references; None without references."""

    rate: Figure | None


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """What of a level's plan says which files were sent, and how many at once."""

    concurrency: Count
    utterances: Count
    audio_s: Figure
    languages: dict[str, int]


SAME = frozenset(field.name for field in fields(LevelPlan))
"""What of a plan does not make a measurement another one."""


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """What of a level's figures is shown."""

    rtfx: Figure
    transcribed: int
    errors: dict[str, int]
    latency: Latency | None
    first_delta: Latency | None
    health: HealthFigures | None
    server: ServerFigures | None
    stages_s: dict[str, Figure] | None
    words: ErrorRate
    characters: ErrorRate


@dataclass(frozen=True, slots=True)
class Level:
    """A line of a load or of a peer."""

    line: Line
    plan: LevelPlan
    figures: LevelFigures

    @classmethod
    def of(cls, line: Line) -> Level:
        """Read a line.

        Raises:
            ValueError: It is none of a level.
        """
        return cls(line, shaped(_PLAN, line.plan), shaped(_FIGURES, line.figures))

    @property
    def stages_s(self) -> Mapping[str, float]:
        """Seconds of each stage per transcribed request; nothing where the server does not say."""
        count = self.figures.transcribed
        return {stage: s / count for stage, s in (self.figures.stages_s or {}).items()} if count else {}


_PLAN, _FIGURES = TypeAdapter(LevelPlan), TypeAdapter(LevelFigures)


@dataclass(frozen=True, slots=True)
class Server:
    """What was measured in one way: its levels by concurrency, each the median run (by RTFx) of `runs`."""

    label: str
    levels: Mapping[int, Level]
    runs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Servers under the same files on the same machine."""

    machine: Machine
    files: str
    servers: Sequence[Server]

    @property
    def best(self) -> Mapping[int, float]:
        """The best RTFx at each concurrency."""
        found: dict[int, float] = {}
        for server in self.servers:
            for concurrency, level in server.levels.items():
                found[concurrency] = max(found.get(concurrency, 0.0), level.figures.rtfx)
        return dict(sorted(found.items()))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, one for each server at each concurrency; columns without a figure are left out."""
        best = self.best
        header = ["server", "in flight", "runs", "RTFx", "of best", *FIGURES]
        rows = [
            [
                server.label,
                str(concurrency),
                str(server.runs[concurrency]),
                cell(level.figures.rtfx),
                f"{level.figures.rtfx / best[concurrency]:.2f}" if best[concurrency] else NONE,
                *(figure(level) for figure in FIGURES.values()),
            ]
            for concurrency in best
            for server in self.servers
            if (level := server.levels.get(concurrency)) is not None
        ]
        kept = [at for at in range(len(header)) if any(row[at] != NONE for row in rows)]
        return [header[at] for at in kept], [[row[at] for at in kept] for row in rows]


def comparisons_of(levels: Iterable[Level]) -> list[Comparison]:
    """Put beside each other what may be, in the order of the lines."""
    groups: defaultdict[Hashable, list[Level]] = defaultdict(list)
    for level in levels:
        groups[machine_key(level.line.machine), _files(level.plan)].append(level)
    return [
        Comparison(group[0].line.machine, _files(group[0].plan), _servers(group)) for group in groups.values()
    ]


def machine_key(machine: Machine) -> tuple[str, int, int]:
    """What tells machines apart; a new kernel or Python makes no other machine."""
    return machine.cpu, machine.cores, round(machine.memory_bytes / GIB)


def machine_name(machine: Machine) -> str:
    """A machine as a heading names it."""
    cpu, cores, gib = machine_key(machine)
    return f"{cores} cores of {cpu}, {gib} GiB"


def _files(plan: LevelPlan) -> str:
    """Which files were sent, as far as a plan tells."""
    count = f"{plan.utterances} {'file' if plan.utterances == 1 else 'files'}"
    return f"{count}, {plan.audio_s:.0f} s of audio ({', '.join(sorted(plan.languages))})"


def _servers(levels: Sequence[Level]) -> list[Server]:
    """Levels by what was measured: name, model, weights, versions and every option."""
    groups: defaultdict[tuple[tuple[str, str], ...], list[Level]] = defaultdict(list)
    for level in levels:
        groups[tuple(_way(level).items())].append(level)
    ways = list(map(dict, groups))
    return [_server(_label(dict(way), ways), own) for way, own in groups.items()]


def _server(label: str, levels: Sequence[Level]) -> Server:
    runs: defaultdict[int, list[Level]] = defaultdict(list)
    for level in levels:
        runs[level.plan.concurrency].append(level)
    medians = {
        concurrency: sorted(own, key=lambda level: level.figures.rtfx)[(len(own) - 1) // 2]
        for concurrency, own in sorted(runs.items())
    }
    return Server(label, medians, {concurrency: len(own) for concurrency, own in runs.items()})


def _way(level: Level) -> dict[str, str]:
    """All that makes a measurement another one, beside the files and their number in flight."""
    line = level.line
    options = {name: cell(value) for name, value in line.plan.items() if name not in SAME}
    weights = (line.digest or NONE)[:DIGEST_DIGITS]
    own = {"name": line.name, "model": line.model or NONE, "weights": weights}
    return {**line.versions, **options, **own}


def _label(way: Mapping[str, str], ways: Sequence[Mapping[str, str]]) -> str:
    """Name and model, and what tells it from others of that name and model."""
    twins = [other for other in ways if (other["name"], other["model"]) == (way["name"], way["model"])]
    more = [
        f"{name}={value}" for name, value in way.items() if any(twin.get(name) != value for twin in twins)
    ]
    return ", ".join((way["name"], way["model"], *more))


def _percent(error_rate: ErrorRate) -> str:
    return NONE if error_rate.rate is None else f"{100 * error_rate.rate:.2f}"


def _seconds(latency: Latency | None, percentile: str) -> str:
    if latency is None:
        return NONE
    seconds: float = getattr(latency, percentile)
    return f"{seconds:.{2 if seconds >= 1 else 3}f}"


def _rss_mb(server: ServerFigures | None) -> str:
    return NONE if server is None else f"{server.peak_rss_bytes / 1e6:.0f}"


def _live_ms(health: HealthFigures | None) -> str:
    return NONE if health is None or health.latency is None else f"{1000 * health.latency.p99_s:.1f}"


def _others(level: Level) -> str:
    share = level.line.load.others_cpu
    return NONE if share is None else f"{100 * share:.0f}"


FIGURES: Mapping[str, Callable[[Level], str]] = {
    "p50 s": lambda level: _seconds(level.figures.latency, "p50_s"),
    "p95 s": lambda level: _seconds(level.figures.latency, "p95_s"),
    "p99 s": lambda level: _seconds(level.figures.latency, "p99_s"),
    "first delta p50 s": lambda level: _seconds(level.figures.first_delta, "p50_s"),
    "first delta p95 s": lambda level: _seconds(level.figures.first_delta, "p95_s"),
    "WER %": lambda level: _percent(level.figures.words),
    "CER %": lambda level: _percent(level.figures.characters),
    "errors": lambda level: str(sum(level.figures.errors.values())),
    "CPU s": lambda level: cell(server.cpu_s) if (server := level.figures.server) else NONE,
    "peak RSS MB": lambda level: _rss_mb(level.figures.server),
    "live p99 ms": lambda level: _live_ms(level.figures.health),
    "others' CPU %": _others,
}
"""What the table tells of a level, beside its RTFx."""
