"""One row of a preprocessing measurement: for people a line of a table, for later a line of JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from stentor.bench.report import Machine

Value: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Record:
    """What was done in a part of the bench, and what came of it. Names carry their units."""

    part: str
    plan: Mapping[str, Value]
    figures: Mapping[str, Value]


def append_json(path: Path, record: Record) -> None:
    """Add a record, with the time and the machine, to a file of JSON lines."""
    line = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": asdict(Machine.here()),
        **asdict(record),
    }
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def show(records: Sequence[Record], console: Console) -> None:
    """Print the records of one part as rows; what all plans have in common goes into the title."""
    if not records:
        return
    plan = records[0].plan
    varied = [name for name in plan if len({record.plan[name] for record in records}) > 1]
    common = [f"{name}={_cell(value)}" for name, value in plan.items() if name not in varied]
    header = [*varied, *records[0].figures]
    rows = [
        [*(_cell(record.plan[name]) for name in varied), *map(_cell, record.figures.values())]
        for record in records
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ("  ".join(map(str.rjust, row, widths)) for row in (header, *rows))
    title = f"{records[0].part}: {', '.join(common)}"
    console.print("\n".join((title, *lines, "")), markup=False, highlight=False, soft_wrap=True)


def median(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None when nothing was."""
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None


def _cell(value: Value) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"
