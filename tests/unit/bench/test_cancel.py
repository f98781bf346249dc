from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stentor.bench.calls import Answer, Call, Disconnect, Target, calling, form
from stentor.bench.cancel import CancelPlan, measure_cancel
from stentor.bench.commands import app
from stentor.bench.inputs import Inputs
from stentor.bench.records import Record
from stentor.bench.series import Series
from stentor.bench.servers import serving_fake, serving_model
from stentor.bench.stages import STAGES
from stentor.engine.fake import FakeEngine, numbered
from stentor.errors import SetupError
from stentor.types import EngineRequest, Segment
from support.audio import bursts, write
from support.server import Served, serving

CLI = CliRunner()
TINY = CancelPlan(repeats=1, long_s=60.0, chunk_s=12.0, clip_s=1.0, clips=1, limit_s=5.0)
COMPUTE_S = 0.1
FIGURES = {
    *("freed_ms", "freed_max_ms", "idle_ms", "idle_max_ms", "clip_ms", "clip_max_ms"),
    *("clip_at_rest_ms", "missed", "failed"),
}


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speech") / "speech.wav"
    return write(path, bursts(12, pause_every_s=4.0))


@pytest.fixture(scope="module")
def inputs(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("inputs"), speech)


def computing(request: EngineRequest) -> Sequence[Segment]:
    """Take some time over a chunk, as an engine does that an abort cannot interrupt."""
    threading.Event().wait(COMPUTE_S)
    return numbered(request)


async def measured(
    served: Served, inputs: Inputs, plan: CancelPlan, metrics_path: str | None = "/metrics"
) -> list[Record]:
    records: list[Record] = []
    target = Target(served.url, "fake", os.getpid(), metrics_path)
    await measure_cancel(plan, target, inputs, records.append)
    return records


@pytest.mark.parametrize(("stage", "how"), list(zip(STAGES, [*Disconnect] * 4, strict=True)))
async def test_every_stage_is_left_and_has_its_figures(stage: str, how: Disconnect, inputs: Inputs) -> None:
    plan = CancelPlan.of(stage, how, repeats=1, long_s=60.0, chunk_s=12.0, clip_s=1.0, clips=1, limit_s=5.0)
    engine = FakeEngine(computing)
    async with serving(engine) as served:
        (record,) = await measured(served, inputs, plan)
        left = served.counted(
            "stentor_requests_ended_total",
            endpoint="transcribe",
            outcome="cancelled",
            reason="client_disconnected",
        )
    assert (record.plan["stage"], record.plan["disconnect"]) == (stage, how.value)
    figures = record.figures
    assert set(figures) == FIGURES
    assert (figures["missed"], figures["failed"]) == (0, 0)
    freed_ms, idle_ms, clip_ms = figures["freed_ms"], figures["idle_ms"], figures["clip_ms"]
    assert isinstance(freed_ms, float)
    assert isinstance(idle_ms, float)
    assert isinstance(clip_ms, float)
    assert 0 < freed_ms <= idle_ms
    assert clip_ms > 1000 * COMPUTE_S
    if stage != "dropped":  # by then this engine is done with all that was sent
        assert left == 2 * STAGES[stage].requests
    if stage in {"queued", "engine", "one_chunk"}:
        assert engine.aborted
    if stage == "language":
        assert any(engine_id.endswith("-lang") for engine_id in engine.begun)


async def test_engine_that_goes_on_is_told(inputs: Inputs) -> None:
    release = threading.Event()

    def endless(request: EngineRequest) -> Sequence[Segment]:
        if request.chunk.duration_s > TINY.clip_s + 1:
            release.wait()
        return numbered(request)

    plan = CancelPlan.of("engine", "fin", repeats=1, long_s=60.0, clip_s=1.0, clips=1, limit_s=0.3)
    async with serving(FakeEngine(endless)) as served:
        try:
            (record,) = await measured(served, inputs, plan)
        finally:
            release.set()
    assert record.figures["failed"] == 1
    assert record.figures["freed_ms"] is record.figures["idle_ms"] is record.figures["clip_ms"] is None


async def test_other_servers_are_watched_by_cpu_alone(inputs: Inputs) -> None:
    plan = CancelPlan.of("uploaded", "rst", repeats=1, long_s=30.0, clip_s=1.0, clips=1, limit_s=5.0)
    async with serving(FakeEngine()) as served:
        (record,) = await measured(served, inputs, plan, metrics_path=None)
        with pytest.raises(SetupError, match="has no stentor_requests_active"):
            await measured(served, inputs, plan, metrics_path="/openapi.json")
    assert record.figures["freed_ms"] is None
    assert record.figures["idle_ms"] is not None
    assert record.figures["failed"] == 0


def test_command_measures_a_running_server(speech: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    with serving_fake(2_000_000) as target:
        where = ["--url", target.url, "--pid", str(target.pid), "--model", target.model]
        what = ["--stage", "uploading", "--repeats", "1", "--long-s", "20", "--json", str(runs)]
        result = CLI.invoke(app, ["cancel", "--speech", str(speech), *where, *what])
    assert result.exit_code == 0, result.output
    assert "stage=uploading" in result.stdout
    records = [json.loads(line) for line in runs.read_text().splitlines()]
    assert [record["plan"]["disconnect"] for record in records] == ["fin", "rst"]
    assert {"cpu", "cores"} <= records[0]["machine"].keys()
    assert records[0]["figures"]["failed"] == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--stage", "uploading,dreaming"], "dreaming is none of uploading, uploaded"),
        (["--disconnect", "kill"], "kill is none of fin, rst"),
        (["--url", "https://127.0.0.1:9"], "only http://HOST[:PORT]"),
        (["--url", "http://127.0.0.1:9"], "does not transcribe"),
        (["--url", "http://127.0.0.1:9", "--pid", str(2**30)], "no pid"),
    ],
)
def test_what_cannot_be_measured_is_said(options: list[str], named: str, speech: Path) -> None:
    result = CLI.invoke(app, ["cancel", "--speech", str(speech), "--long-s", "20", *options])
    assert result.exit_code == 2
    assert named in result.stderr


def test_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="does not start"), serving_model(str(tmp_path / "nothing")):
        pass


@pytest.mark.parametrize("how", Disconnect)
async def test_server_sees_how_its_client_left(how: Disconnect) -> None:
    seen: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen.set_result(await reader.read())
        except ConnectionResetError:
            seen.set_result(None)
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server, calling(here(server), length=100) as call:
        await call.send(call.head)
        call.disconnect(how)
        assert await seen == (call.head if how is Disconnect.FIN else None)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b'HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{"text": "hi"}', Answer(200, b'{"text": "hi"}')),
        (b"HTTP/1.1 413 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", Answer(413, b"no")),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", Answer(200, b"until the end")),
        (b"", None),
    ],
)
async def test_answers_are_read_to_their_end(said: bytes, answer: Answer | None) -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async def heard(call: Call) -> Answer | None:
        await call.send(call.head)
        try:
            return await call.answer()
        except ConnectionError:
            return None

    server = await asyncio.start_server(answering, "127.0.0.1", 0)
    async with server, calling(here(server), length=100) as call:
        assert await heard(call) == answer
    assert answer is None or answer.text == ("hi" if answer.body.startswith(b"{") else None)


def test_form_has_its_fields_before_its_file() -> None:
    body = form({"model": "m"}, b"RIFF", "a.wav")
    assert body.index(b'name="model"\r\n\r\nm\r\n') < body.index(
        b'name="file"; filename="a.wav"\r\n\r\nRIFF\r\n'
    )
    assert b"file" not in form({"model": "m"}, None)


def test_series_are_read_by_sample_name_and_endpoint() -> None:
    series = Series(
        "# HELP x y\nx_total 3.0\n"
        'ended_total{endpoint="a",outcome="finished"} 2.0\n'
        'ended_total{endpoint="a",outcome="failed"} 1.0\n'
        'ended_total{endpoint="b",outcome="failed"} 4.0\n'
        "stentor_engine_queued 5.0\n"
    )
    assert (series["x_total"], series["y_total"], "x_total" in series) == (3, 0, True)
    assert series.total("ended_total") == 7
    assert series.by_endpoint("ended_total") == {"a": 3, "b": 4}
    assert series.at_work == {"stentor_engine_queued": 5}


def here(server: asyncio.Server) -> Target:
    return Target(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "m")
