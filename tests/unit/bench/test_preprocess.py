from __future__ import annotations

import io
import json
import sys
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import av
import pytest
from rich.console import Console
from typer.testing import CliRunner

from stentor.api.app import create_app
from stentor.bench.clips import DECODERS, PROCESSES
from stentor.bench.commands import app
from stentor.bench.inputs import CODECS, Inputs
from stentor.bench.plan import QUICK
from stentor.bench.records import Line, Record, median, show
from stentor.bench.served import InlinePool, inlined
from stentor.bench.uploads import serving
from stentor.config import Settings
from stentor.engine.fake import FakeEngine
from stentor.errors import SetupError
from stentor.transcriber import AudioRequest
from stentor.types import SAMPLE_RATE, DecodeOptions
from support.audio import bursts, write

CLI = CliRunner()
TINY = replace(
    QUICK,
    clips=2,
    clip_s=1.0,
    threads=(1, 2),
    ticker_s=0.02,
    upload_s=3.0,
    long_s=2.0,
    settings=("inline", "1"),
    decoding=(0, 1),
)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("speech") / "speech.wav", bursts(1.5, pause_every_s=0.5, pause_s=0.1)
    )


@pytest.fixture(scope="module")
def inputs(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("inputs"), speech)


@pytest.fixture(scope="module")
def measured(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All parts of the command, once: its records by part, its output, and its picture."""
    folder = tmp_path_factory.mktemp("measured")
    options = ["--speech", str(speech), "--uploads", "2", "--json", str(folder / "runs.jsonl")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stentor.bench.plan.QUICK", TINY)
        result = CLI.invoke(app, ["preprocess", "--quick", *options, "--plot", str(folder / "rtfx.svg")])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = {"out": result.stdout, "svg": (folder / "rtfx.svg").read_text(encoding="utf-8")}
    for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        found.setdefault(record["part"], []).append(record)
    return found


def test_every_format_is_decoded_by_every_decoder_in_threads(measured: dict[str, Any]) -> None:
    records = measured["clips"]
    told = [(r["plan"]["format"], r["plan"]["threads"], r["plan"]["decoder"]) for r in records]
    assert told == [(format, n, name) for format in CODECS for n in (1, 2) for name in [*DECODERS, PROCESSES]]
    for record in records:
        assert set(record) == {field.name for field in fields(Line)}
        assert set(record["figures"]) == {"ms", "cpu_ms", "clips_per_s", "reader_ratio"}
        # What other processes take of the processors is not known.
        unknown = {key for key, value in record["figures"].items() if value is None}
        assert unknown == ({"cpu_ms"} if record["plan"]["decoder"] == PROCESSES else set())
        assert min(value for value in record["figures"].values() if value is not None) > 0
        if record["plan"]["decoder"] == "reader":
            assert record["figures"]["reader_ratio"] == 1


def test_each_setting_of_the_server_has_its_figures(measured: dict[str, Any]) -> None:
    inline, pooled = measured["server"]
    # The system counts in hundredths of a second, and so little is decoded here.
    assert inline["figures"]["cpu_s"] + pooled["figures"]["cpu_s"] > 0
    assert [inline["plan"]["workers"], pooled["plan"]["workers"]] == ["inline", "1"]
    assert pooled["plan"]["uploads"] == 2
    for record in (inline, pooled):
        figures = record["figures"]
        assert figures["failed"] == figures["live_failures"] == 0
        assert 0 < figures["rtfx_min"] <= figures["rtfx"] <= figures["rtfx_max"]
        assert 0 < figures["live_p50_ms"] <= figures["live_p99_ms"] <= figures["live_max_ms"]
        assert figures["live_probes"] >= 1
        assert figures["peak_rss_mb"] > 10


def test_each_loop_ticks_with_and_without_workers(measured: dict[str, Any]) -> None:
    told = {(record["plan"]["event_loop"], record["plan"]["workers"]) for record in measured["loop"]}
    assert {("asyncio", 0), ("asyncio", 1)} <= told
    for record in measured["loop"]:
        figures = record["figures"]
        assert 0 <= figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"] <= figures["worst_max_ms"]


def test_memory_is_told_above_idle(measured: dict[str, Any]) -> None:
    (record,) = measured["memory"]
    figures = record["figures"]
    assert figures["above_idle_mb"] == pytest.approx(figures["peak_mb"] - figures["idle_mb"])
    assert figures["per_upload_mb"] == pytest.approx(figures["above_idle_mb"] / 2)
    assert figures["failed"] == 0


def test_parts_are_printed_and_drawn(measured: dict[str, Any]) -> None:
    titles = [line.split(":")[0] for line in measured["out"].splitlines() if ": " in line]
    assert titles == ["clips", "server", "loop", "memory"]
    assert "<svg" in measured["svg"]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("format", CODECS)
def test_decoders_are_given_the_same_work(inputs: Inputs, format: str, decoder: str) -> None:
    samples = DECODERS[decoder](inputs.clip(format, 2.0))
    assert samples / SAMPLE_RATE == pytest.approx(2.0, abs=0.06)  # a coder's delay and its last frame


def test_long_mp3_is_as_long_as_its_header_says_and_stereo(inputs: Inputs) -> None:
    path = inputs.long_mp3(60.0)
    with av.open(str(path)) as container:
        (stream,) = container.streams.audio
        assert (stream.rate, stream.channels) == (48_000, 2)
        assert (container.duration or 0) / av.time_base == pytest.approx(60.0, abs=0.05)
    assert DECODERS["reader"](path) / SAMPLE_RATE == pytest.approx(60.0, abs=0.1)


def test_speech_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "speech.wav").write_bytes(b"no audio")
    with pytest.raises(SetupError, match=r"speech\.wav cannot be read"):
        Inputs(tmp_path, tmp_path / "speech.wav")


async def test_inline_pool_runs_steps_on_the_loops_own_thread() -> None:
    pool = InlinePool()
    assert await pool.run(threading.get_ident) == threading.get_ident()
    async with pool.steps(lambda _: (threading.get_ident() for _ in range(2))) as steps:
        assert {ident async for ident in steps} == {threading.get_ident()}


@pytest.mark.parametrize("inline", [True, False])
async def test_inlined_app_decodes_without_preprocessing_threads(inputs: Inputs, inline: bool) -> None:
    engine = FakeEngine(slots=1)
    server = create_app(Settings(), lambda: engine)
    if inline:
        inlined(server)
    async with server.router.lifespan_context(server):
        with inputs.clip("mp3", 2.0).open("rb") as audio:
            request = AudioRequest("r", audio.fileno(), DecodeOptions(language="en"))
            transcript = await server.state.services.transcriber.transcribe(request)
        pooled = any(thread.name.startswith("stentor-preprocess") for thread in threading.enumerate())
    assert transcript.text == "chunk 0"
    assert engine.finished == ["r"]
    assert pooled is not inline


def test_server_that_does_not_start_is_told() -> None:
    with pytest.raises(SetupError, match="does not start"), serving("0", TINY):
        pass


def test_median_is_of_what_was_measured() -> None:
    assert median([3.0, None, 1.0, 2.0]) == 2.0
    assert median([None]) is None


def test_table_has_what_varies_in_columns_and_the_rest_in_its_title() -> None:
    out = io.StringIO()
    rows = [
        Record("loop", {"audio_s": 60.0, "workers": n}, {"p50_ms": 123.4 * n, "none": None}) for n in (0, 1)
    ]
    show(rows, Console(file=out, width=20))
    assert out.getvalue().splitlines() == [
        "loop: audio_s=60.0",
        "workers  p50_ms  none",
        "      0    0.00     -",
        "      1     123     -",
        "",
    ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--part", "clips,reading"], "reading is none of clips, server, loop, memory"),
        (["--part", "loop,server"], "--speech"),
        (["--part", "memory", "--plot", "rtfx.svg"], "--plot"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is(options: list[str], named: str) -> None:
    result = CLI.invoke(app, ["preprocess", *options])
    assert result.exit_code == 2
    assert named in result.stderr


def test_missing_matplotlib_is_named(speech: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CLI.invoke(app, ["preprocess", "--speech", str(speech), "--plot", "rtfx.svg"])
    assert result.exit_code == 2
    assert "matplotlib is not installed: pip install stentor[bench]" in result.stderr
