"""An evaluation as a table, as JSON, and held against another one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from stentor import __version__
from stentor.bench.machine import Machine
from stentor.bench.tables import print_table
from stentor.errors import SetupError
from stentor.eval.judge import Verdict
from stentor.eval.listeners import Ask
from stentor.eval.run import Group


@dataclass(frozen=True, slots=True)
class Subject:
    """What was evaluated: a model, who ran it, and how it was asked."""

    model: str
    listener: str
    ask: Ask


COLUMNS = {
    "files": "files",
    "failed": "failures",
    "audio s": "audio_s",
    "RTFx": "rtfx",
    "error %": "rate",
    "of": "references",
    "sub": "substitutions",
    "del": "deletions",
    "ins": "insertions",
    "cuts": "cuts",
    "at seams": "seam_edits",
    "dreamt": "dreamt",
    "language": "other_language",
    "disorder": "disorder",
    "time p50 s": "time_error_p50_s",
    "p95 s": "time_error_p95_s",
    "max s": "time_error_max_s",
}
"""What the table shows of a group's figures."""


def show(groups: Sequence[Group], console: Console, before: Mapping[str, float] | None = None) -> None:
    """Print a line for each group; with another evaluation's rates, how much more was wrong here."""
    header = ["corpus", *COLUMNS, *(["points more"] if before is not None else [])]
    rows = []
    for group in groups:
        figures = group.figures()
        row = [group.name, *(cell(name, figures[name]) for name in COLUMNS.values())]
        if before is not None:
            more = points_more(group, before)
            row.append("-" if more is None else f"{more:+.2f}")
        rows.append(row)
    print_table(console, "errors", header, rows)


def points_more(group: Group, before: Mapping[str, float]) -> float | None:
    """How many points of error rate a group has more than before; None where there is nothing to compare."""
    rate = group.count.rate
    if rate is None or group.name not in before:
        return None
    return 100 * (rate - before[group.name])


def write_json(path: Path, subject: Subject, groups: Sequence[Group]) -> None:
    """Write all figures, and each file's transcript and errors."""
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "stentor": __version__,
        "machine": asdict(Machine.here()),
        "subject": asdict(subject),
        "groups": {group.name: group.figures() for group in groups},
        "files": [_file(verdict) for group in groups for verdict in group.verdicts],
    }
    path.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def read_rates(path: Path) -> dict[str, float]:
    """The groups' error rates out of what `write_json` wrote.

    Raises:
        SetupError: It is no such file.
    """
    try:
        groups = json.loads(path.read_text(encoding="utf-8"))["groups"]
        return {name: float(group["rate"]) for name, group in groups.items() if group["rate"] is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"{path} is no result of stentor eval --json: {error!r}") from error


def _file(verdict: Verdict) -> dict[str, object]:
    count = verdict.count
    return {
        "path": str(verdict.utterance.path),
        "corpus": verdict.utterance.corpus,
        "language": verdict.utterance.language,
        "error": verdict.error,
        "text": verdict.heard and verdict.heard.text,
        "heard_language": verdict.heard and verdict.heard.language,
        "references": count.references,
        "edits": count.edits,
        "seam_edits": verdict.seam_edits,
        "time_errors_s": [round(error_s, 3) for error_s in verdict.time_errors_s],
    }


def cell(name: str, value: object) -> str:
    """A figure as people read it."""
    if value is None:
        return "-"
    if name == "rate":
        return f"{100 * value:.2f}" if isinstance(value, float) else "-"
    return f"{value:.2f}" if isinstance(value, float) and value < 100 else f"{value:.0f}"
