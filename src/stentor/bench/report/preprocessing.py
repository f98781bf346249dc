"""The preprocessing pools of result files, each with all its settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from stentor.bench.machine import Machine
from stentor.bench.plot import Spread
from stentor.bench.records import Line
from stentor.bench.report.comparisons import machine_key
from stentor.bench.report.shapes import Figure, shaped
from stentor.bench.tables import cell

BENCH, PART = "preprocess", "server"
INLINE = "inline"
SETTING_DIGITS = 3
MANY = 10**SETTING_DIGITS


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """What of a setting's figures is drawn."""

    rtfx: Figure
    rtfx_min: Figure
    rtfx_max: Figure


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What of a setting's plan is drawn: "inline", "default", or a number."""

    workers: str


_PLAN, _FIGURES = TypeAdapter(PoolPlan), TypeAdapter(PoolFigures)


@dataclass(frozen=True, slots=True)
class Pool:
    """Servers that differ in nothing but their pool's size, in the order of that."""

    machine: Machine
    title: str
    settings: Sequence[str]
    rtfx: Sequence[Spread]
    lines: Sequence[Line]


def check_setting(line: Line) -> None:
    """Look whether a line is one of the part `server`.

    Raises:
        ValueError: It is not.
    """
    shaped(_PLAN, line.plan)
    shaped(_FIGURES, line.figures)


def pools_of(lines: Iterable[Line]) -> list[Pool]:
    """Put settings beside each other; of one that was measured again, the last measurement."""
    groups: defaultdict[tuple[object, ...], dict[str, Line]] = defaultdict(dict)
    for line in lines:
        plan = {name: cell(value) for name, value in line.plan.items() if name != "workers"}
        key = (machine_key(line.machine), line.name, line.digest, *line.versions.items(), *plan.items())
        groups[key][shaped(_PLAN, line.plan).workers] = line
    return [_pool(group) for group in groups.values()]


def _pool(group: dict[str, Line]) -> Pool:
    settings = sorted(group, key=_size)
    lines = [group[setting] for setting in settings]
    plan = lines[0].plan
    title = ", ".join(f"{name}={cell(value)}" for name, value in plan.items() if name != "workers")
    found = [shaped(_FIGURES, line.figures) for line in lines]
    spreads = [Spread(own.rtfx, min(own.rtfx, own.rtfx_min), max(own.rtfx, own.rtfx_max)) for own in found]
    return Pool(lines[0].machine, title, settings, spreads, lines)


def _size(setting: str) -> tuple[int, str]:
    """Inline first, then by number, then all others."""
    if setting == INLINE:
        return 0, setting
    return (int(setting), "") if setting.isdecimal() and len(setting) <= SETTING_DIGITS else (MANY, setting)
