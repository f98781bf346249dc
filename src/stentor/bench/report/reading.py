"""Results out of files. What cannot be used is named and left out: half a report is better than none."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from stentor.bench import measurement
from stentor.bench.records import Line
from stentor.bench.report import preprocessing
from stentor.bench.report.comparisons import Level
from stentor.bench.report.shapes import shaped

LEVELS = ("load", "peers")
BENCHES = (*LEVELS, "preprocess", "engine", "cancel", "fairness", "chaos")
"""The commands that write lines."""

INTEGER_DIGITS = 18
"""More than any count here has; matplotlib and others have limits of their own."""

_LINE = TypeAdapter(Line)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is left out, and why."""

    path: Path
    number: int
    why: str

    def __str__(self) -> str:
        return f"{self.path} line {self.number}: {self.why}"


@dataclass(frozen=True, slots=True)
class Results:
    """All lines that can be used; each is also among the levels, the settings of pools, or the others."""

    lines: list[Line] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    settings: list[Line] = field(default_factory=list)
    others: list[Line] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def add(self, line: Line) -> None:
        """Put a line where it belongs.

        Raises:
            ValueError: It is not what its command writes.
        """
        if line.bench not in BENCHES:
            raise ValueError(f"unknown bench {line.bench!r}")
        if line.bench in LEVELS and line.part == measurement.PART:
            self.levels.append(Level.of(line))
        elif (line.bench, line.part) == (preprocessing.BENCH, preprocessing.PART):
            preprocessing.check_setting(line)
            self.settings.append(line)
        else:
            self.others.append(line)
        self.lines.append(line)


def read_results(paths: Sequence[Path]) -> Results:
    """Read files; bytes that are no UTF-8 break the line that they are in, and no other.

    Raises:
        OSError: A file cannot be read.
    """
    results = Results()
    for path in paths:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                try:
                    results.add(shaped(_LINE, _parsed(text)))
                except ValueError as error:
                    results.skipped.append(Skipped(path, number, str(error)))
    return results


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_short)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        _refuse(number)
    return float(number)


def _short(number: str) -> int:
    if len(number) > INTEGER_DIGITS:
        _refuse(f"{number[:INTEGER_DIGITS]}…")
    return int(number)
