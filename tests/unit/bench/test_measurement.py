from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from stentor.bench.manifest import Utterance
from stentor.bench.measurement import UNSTREAMED, Measurement, show
from stentor.bench.results import HealthFigures, Latency, LevelResult, RequestResult, ServerFigures

OPTIONS = {"send_language": True}
TITLE = "stentor native, base at http://server:8000"


def level(concurrency: int = 4) -> LevelResult:
    german = Utterance(Path("a.wav"), 6.0, "de", "guten tag")
    chinese = Utterance(Path("b.wav"), 4.0, "zh", "天气")
    unknown = Utterance(Path("c.wav"), None, None, None)
    return LevelResult(
        concurrency,
        (
            RequestResult(german, 200, 0.5, text="Guten Tag."),
            RequestResult(chinese, 200, 1.0, text="天汽"),
            RequestResult(unknown, 200, 0.25, text="whatever"),
            RequestResult(german, 429, 0.01, error="[bold]full[/bold]"),
            RequestResult(german, None, 2.0, error="ReadTimeout: "),
        ),
        wall_s=2.0,
        health=HealthFigures(100, 1, Latency(0.001, 0.002, 0.003, 0.004)),
        server=ServerFigures(cpu_s=3.5, peak_rss_bytes=250_000_000),
    )


def test_record_says_what_was_measured_and_how() -> None:
    record = Measurement.of(OPTIONS, level(1)).record()
    assert record.plan == {
        "send_language": True,
        "concurrency": 1,
        "utterances": 5,
        "audio_s": 22.0,
        "languages": {"de": 3, "zh": 1, "und": 1},
    }
    count = {"references": 2, "substitutions": 0, "deletions": 0, "insertions": 0}
    german = {"unit": "word", **count, "rate": 0.0}
    chinese = {"unit": "character", **count, "substitutions": 1, "rate": 0.5}
    assert record.figures == {
        "wall_s": 2.0,
        "audio_s": 10.0,
        "rtfx": 5.0,
        "requests_per_s": 1.5,
        "transcribed": 3,
        "streamed": 0,
        "errors": {"429": 1, "none": 1},
        "latency": {"p50_s": 0.5, "p95_s": 1.0, "p99_s": 1.0, "max_s": 1.0},
        "first_delta": None,
        "stages_s": None,
        "health": {
            "probes": 100,
            "failures": 1,
            "latency": {"p50_s": 0.001, "p95_s": 0.002, "p99_s": 0.003, "max_s": 0.004},
        },
        "server": {"cpu_s": 3.5, "peak_rss_bytes": 250_000_000},
        "words": german,
        "characters": chinese,
        "languages": {"de": german, "zh": chinese},
    }


def test_level_without_answers_has_figures_that_are_none() -> None:
    failed = RequestResult(Utterance(Path("a"), 1.0, "en", "x"), None, 0.1, error="ConnectError: ")
    figures: Mapping[str, Any] = Measurement.of(OPTIONS, LevelResult(1, (failed,), 0.1)).record().figures
    assert (figures["latency"], figures["health"], figures["server"]) == (None, None, None)
    assert figures["words"]["rate"] is None


def test_plain_table_puts_levels_side_by_side_in_columns_that_line_up() -> None:
    out = io.StringIO()
    measurements = [Measurement.of(OPTIONS, level(concurrency)) for concurrency in (1, 16)]
    show(TITLE, measurements, Console(file=out, width=40))
    title, *rest = out.getvalue().splitlines()
    figures, (languages, *rows) = rest[:18], rest[18:]
    assert title == TITLE
    assert figures[0].split() == ["in", "flight", "1", "16"]
    assert len(set(map(len, figures))) == 1
    assert dict(re.split("  +", row.strip())[:2] for row in figures[1:]) == {
        "transcribed": "3",
        "errors": "2",
        "wall s": "2.0",
        "RTFx": "5.0",
        "requests/s": "1.50",
        "latency p50 s": "0.50",
        "latency p95 s": "1.00",
        "latency p99 s": "1.00",
        "latency max s": "1.00",
        "WER %": "0.00",
        "CER %": "50.00",
        "CPU s": "3.5",
        "peak RSS MB": "250",
        "liveness p50 s": "0.0010",
        "liveness p99 s": "0.0030",
        "liveness max s": "0.0040",
        "liveness failures": "1/100",
    }
    assert languages == "languages, 16 in flight"
    assert [row.split() for row in rows[1:3]] == [
        ["de", "word", "0.00", "2", "0", "0", "0"],
        ["zh", "character", "50.00", "2", "1", "0", "0"],
    ]
    assert rows[3:] == ["2 × 429: [bold]full[/bold]", "2 × no answer: ReadTimeout: "]


def test_table_leaves_out_what_nobody_measured() -> None:
    out = io.StringIO()
    bare = replace(level(), health=None, server=None)
    show(TITLE, [Measurement.of(OPTIONS, bare)], Console(file=out))
    assert "RTFx" in out.getvalue()
    assert "liveness" not in out.getvalue()
    assert "RSS" not in out.getvalue()


def test_terminal_gets_a_framed_table() -> None:
    out = io.StringIO()
    show(TITLE, [Measurement.of(OPTIONS, level())], Console(file=out, force_terminal=True, width=250))
    assert "RTFx" in out.getvalue()
    assert "┃" in out.getvalue()


def test_nothing_measured_prints_nothing() -> None:
    out = io.StringIO()
    show(TITLE, [], Console(file=out))
    assert out.getvalue() == ""


def test_server_that_does_not_stream_is_named() -> None:
    out = io.StringIO()
    bare = level()
    whole = replace(bare, requests=tuple(replace(answer, first_delta_s=0.5) for answer in bare.requests))
    show(TITLE, [Measurement.of(OPTIONS, whole)], Console(file=out))
    assert UNSTREAMED in out.getvalue()
    assert re.search("first delta p50 s +0.50", out.getvalue())
