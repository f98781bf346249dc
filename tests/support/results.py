"""Result files of the bench, with all that a report shows and with what may not break it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stentor.bench.manifest import Utterance
from stentor.bench.measurement import Measurement
from stentor.bench.records import Journal, Record, Subject
from stentor.bench.results import HealthFigures, Latency, LevelResult, RequestResult, ServerFigures

HOSTILE = """<script>alert(1)</script> & "q" 'a' $\\frac{_ 语音 \u2028"""
"""A name that is none of HTML, of a formula, of one line, and of the fonts that a plot has."""

NATIVE = Subject("Stentor native", "http://127.0.0.1:8000", "base", "ab" * 32, {"server": "stentor 0.1.0"})
OTHER = Subject(HOSTILE, "http://127.0.0.1:8001", "whisper-1", None, {})
STAGES = {"admission": 0.01, "receive": 0.2, "preprocess": 0.5, "engine compute": 3.0}


def level(concurrency: int, seconds: float, *, error: str | None = None, streamed: bool = True) -> Record:
    """A level of two files of 5 s, which took so long."""
    said = Utterance(Path("a.wav"), 5.0, "en", "hello there")
    first_s = seconds / 2 if streamed else None
    heard = RequestResult(said, 200, seconds, "hello where", None, first_s, streamed)
    failed = RequestResult(said, 500, 0.1, error=error)
    found = LevelResult(
        concurrency,
        (heard, heard if error is None else failed),
        wall_s=seconds,
        health=HealthFigures(100, 0, Latency(0.001, 0.002, 0.003, 0.004)),
        server=ServerFigures(1.0, 300_000_000),
        stages=STAGES,
    )
    return Measurement.of({"stream": streamed}, found).record()


def write_results(path: Path) -> None:
    """Append results of every command."""
    native = Journal(path, "load", NATIVE)
    for concurrency, seconds in ((1, 1.0), (4, 0.5), (16, 0.25)):
        native.add(level(concurrency, seconds))
    other = Journal(path, "load", OTHER)
    for concurrency, seconds in ((1, 2.0), (4, 2.0)):
        other.add(level(concurrency, seconds, error="<b>boom</b>"))
    Journal(path, "peers", Subject("faster-whisper", model="base")).add(level(1, 4.0, streamed=False))
    pools = Journal(path, "preprocess", Subject("stentor"))
    for workers, rtfx in (("inline", 500.0), ("1", 490.0), ("2", 900.0)):
        pools.add(
            Record(
                "server",
                {"engine": "fake", "uploads": 16, "workers": workers},
                {"rtfx": rtfx, "rtfx_min": rtfx - 9, "rtfx_max": rtfx + 9, "failed": 0},
            )
        )
    for bench, part in (("preprocess", "loop"), ("engine", "speed"), ("cancel", "cancel")):
        Journal(path, bench, NATIVE).add(Record(part, {"stage": HOSTILE}, {"freed_ms": 1.5, "none": None}))
    for bench, part in (("fairness", "fairness"), ("chaos", "chaos checks")):
        Journal(path, bench, OTHER).add(Record(part, {"clips": 5}, {"found": HOSTILE}))


def edited(line: str, **changes: Any) -> str:
    """A line with other values at some paths, as in `machine__cpu`."""
    value = json.loads(line)
    for name, new in changes.items():
        *outer, last = name.split("__")
        inner = value
        for key in outer:
            inner = inner[key]
        inner[last] = new
    return json.dumps(value)


def lines_of(path: Path) -> list[Mapping[str, Any]]:
    """What a result file holds."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
