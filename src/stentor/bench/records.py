"""What the bench finds, one record at a time: for people a row of a table, for later a line of JSON.

Every command writes lines of the same shape (`Line`), whatever its figures are.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from stentor import __version__
from stentor.bench.machine import LoadWatch, Machine, MachineLoad
from stentor.bench.tables import cell, print_table
from stentor.errors import SetupError

Value: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Record:
    """What was done in a part of the bench, and what came of it. Names carry their units."""

    part: str
    plan: Mapping[str, object]
    figures: Mapping[str, object]


Store: TypeAlias = Callable[[Record], None]
"""Takes each record as soon as there is one."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured.

    Attributes:
        name: What it is called in reports.
        url: Where it answers; None for what runs in this program or in one started for it.
        model: Its model; None where it has none.
        digest: SHA-256 of the model's weights; None where that cannot be known.
        versions: Of the bench and of what it measures, by name.
    """

    name: str
    url: str | None = None
    model: str | None = None
    digest: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a result file: a record, and all that its figures hang on.

    Attributes:
        bench: The command.
        part: Of the command.
        time: When it was written, ISO 8601.
    """

    bench: str
    part: str
    time: str
    name: str
    url: str | None
    model: str | None
    digest: str | None
    versions: dict[str, str]
    machine: Machine
    load: MachineLoad
    plan: dict[str, object]
    figures: dict[str, object]


class Journal:
    """Appends the records of one command to a file of JSON lines, each as soon as there is one.

    Args:
        path: The file; it is made with the first line.
        bench: The command.
        subject: What it measures.
        pid: The server's, where it is not started by this program.

    Raises:
        SetupError: The file cannot be written, or there is no such pid.
    """

    def __init__(self, path: Path, bench: str, subject: Subject, *, pid: int | None = None) -> None:
        _check_writable(path)
        self._path = path
        self._bench = bench
        self._subject = subject
        self._machine = Machine.here()
        self._watch = LoadWatch(pid, server_here=subject.url is not None)
        self.lines = 0

    def add(self, record: Record) -> None:
        """Write a record."""
        subject = self._subject
        line = Line(
            bench=self._bench,
            part=record.part,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            name=subject.name,
            url=subject.url,
            model=subject.model,
            digest=subject.digest,
            versions={"stentor": __version__, **subject.versions},
            machine=self._machine,
            load=self._watch.read(),
            plan=dict(record.plan),
            figures=dict(record.figures),
        )
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(line), ensure_ascii=False) + "\n")
        self.lines += 1


def _check_writable(path: Path) -> None:
    """Find out before an hour of measuring, and without leaving an empty file behind."""
    folder = path.parent
    if not (os.access(path, os.W_OK) if path.exists() else folder.is_dir() and os.access(folder, os.W_OK)):
        raise SetupError(f"{path} cannot be written: give another file with --json")


def versions_of(*packages: str) -> dict[str, str]:
    """The versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def columns(records: Sequence[Record]) -> tuple[str, list[str], list[list[str]]]:
    """The records of one part as a table: its title, header and rows.

    What all plans have in common goes into the title.
    """
    names = list(dict.fromkeys(name for record in records for name in record.plan))
    figures = list(dict.fromkeys(name for record in records for name in record.figures))
    varied = [name for name in names if len({cell(record.plan.get(name)) for record in records}) > 1]
    common = [f"{name}={cell(records[0].plan.get(name))}" for name in names if name not in varied]
    rows = [
        [
            *(cell(record.plan.get(name)) for name in varied),
            *(cell(record.figures.get(name)) for name in figures),
        ]
        for record in records
    ]
    return f"{records[0].part}: {', '.join(common)}", [*varied, *figures], rows


def show(records: Sequence[Record], console: Console) -> None:
    """Print the records of one part as rows."""
    if records:
        print_table(console, *columns(records))
        console.print()


def median(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None when nothing was."""
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None
