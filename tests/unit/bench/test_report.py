from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from stentor.bench.manifest import Utterance
from stentor.bench.report import Machine, Measurement, Subject, append_json, show
from stentor.bench.results import HealthFigures, Latency, LevelResult, RequestResult, ServerFigures

SUBJECT = Subject("base", "http://server:8000", {"send_language": True})


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


def test_json_line_says_what_was_measured_where_and_how(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    append_json(path, Measurement.of(SUBJECT, level(1)))
    append_json(path, Measurement.of(SUBJECT, level(4)))
    first, second = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (first["plan"]["concurrency"], second["plan"]["concurrency"]) == (1, 4)
    assert set(first) == {"time", "machine", "url", "model", "plan", "figures"}
    assert (first["url"], first["model"]) == ("http://server:8000", "base")
    assert set(first["machine"]) == {"cpu", "cores", "python", "platform"}
    assert first["plan"] == {
        "send_language": True,
        "concurrency": 1,
        "utterances": 5,
        "audio_s": 22.0,
        "languages": {"de": 3, "zh": 1, "und": 1},
    }
    figures = first["figures"]
    count = {"references": 2, "substitutions": 0, "deletions": 0, "insertions": 0}
    german = {"unit": "word", **count, "rate": 0.0}
    chinese = {"unit": "character", **count, "substitutions": 1, "rate": 0.5}
    assert figures == {
        "wall_s": 2.0,
        "audio_s": 10.0,
        "rtfx": 5.0,
        "requests_per_s": 1.5,
        "transcribed": 3,
        "errors": {"429": 1, "none": 1},
        "latency": {"p50_s": 0.5, "p95_s": 1.0, "p99_s": 1.0, "max_s": 1.0},
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


def test_level_without_answers_is_json_with_nulls(tmp_path: Path) -> None:
    failed = RequestResult(Utterance(Path("a"), 1.0, "en", "x"), None, 0.1, error="ConnectError: ")
    append_json(tmp_path / "runs.jsonl", Measurement.of(SUBJECT, LevelResult(1, (failed,), 0.1)))
    figures = json.loads((tmp_path / "runs.jsonl").read_text(encoding="utf-8"))["figures"]
    assert (figures["latency"], figures["health"], figures["server"]) == (None, None, None)
    assert figures["words"]["rate"] is None


def test_machine_is_described() -> None:
    here = Machine.here()
    assert here.cpu
    assert here.cores >= 1
    assert here.python.startswith("3.")


def test_plain_table_puts_levels_side_by_side_in_columns_that_line_up() -> None:
    out = io.StringIO()
    show([Measurement.of(SUBJECT, level(1)), Measurement.of(SUBJECT, level(16))], Console(file=out, width=40))
    title, *rest = out.getvalue().splitlines()
    figures, (languages, *rows) = rest[:18], rest[18:]
    assert title == "base at http://server:8000"
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
    show([Measurement.of(SUBJECT, bare)], Console(file=out))
    assert "RTFx" in out.getvalue()
    assert "liveness" not in out.getvalue()
    assert "RSS" not in out.getvalue()


def test_terminal_gets_a_framed_table() -> None:
    out = io.StringIO()
    show([Measurement.of(SUBJECT, level())], Console(file=out, force_terminal=True, width=250))
    assert "RTFx" in out.getvalue()
    assert "┃" in out.getvalue()


def test_nothing_measured_prints_nothing() -> None:
    out = io.StringIO()
    show([], Console(file=out))
    assert out.getvalue() == ""
