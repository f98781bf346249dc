"""Traces, as a collector gets them: by OTLP over HTTP, set up by the standard variables alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from structlog.testing import capture_logs

from stentor.engine.fake import FakeEngine
from support.audio import bursts, write
from support.server import serving

PATH = "/v1/audio/transcriptions"
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


class Collector:
    """What came in."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.service = ""

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
            self.service = names["service.name"]
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Taker) as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        yield collector
        server.shutdown()


def values(span: Span) -> dict[str, Any]:
    return {
        entry.key: getattr(entry.value, str(entry.value.WhichOneof("value"))) for entry in span.attributes
    }


@pytest.mark.parametrize("stream", ["true", "false"])
async def test_a_span_for_each_stage_within_the_callers_trace(
    collector: Collector, tmp_path: Path, stream: str
) -> None:
    audio = write(tmp_path / "audio.flac", bursts(70)).read_bytes()
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "x-request-id": "mine"}
    with capture_logs([structlog.contextvars.merge_contextvars]) as lines:
        async with serving(FakeEngine(), tracing=True) as served, httpx.AsyncClient(timeout=20) as http:
            url = f"{served.url}{PATH}"
            answer = await http.post(
                url, headers=headers, data={"stream": stream}, files={"file": ("a", audio)}
            )
            assert answer.status_code == 200
            await http.get(f"{served.url}/health")
    assert [line["trace_id"] for line in lines if line["event"] == "request"] == [TRACE]
    assert collector.service == "stentor"
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    [call] = collector.named(f"POST {PATH}")
    assert call.parent_span_id.hex() == CALLER
    assert call.kind == Span.SPAN_KIND_SERVER
    assert values(call)["http.response.status_code"] == 200
    assert values(call)["stentor.request_id"] == "mine"
    stages = {name: collector.named(name) for name in ("admission", "uploading", "transcribing")}
    if stream == "false":
        stages["answering"] = collector.named("answering")
    for [stage] in stages.values():
        assert stage.parent_span_id == call.span_id
    [transcribing] = stages["transcribing"]
    inner = [*collector.named("preprocess"), *collector.named("probe"), *collector.named("chunk")]
    assert {span.parent_span_id for span in inner} == {transcribing.span_id}
    assert len(collector.named("preprocess")) == 4  # three chunks, and that there is no fourth
    assert len(collector.named("probe")) == 3  # noise tells no language for what follows
    chunks = sorted(map(values, collector.named("chunk")), key=lambda chunk: chunk["stentor.index"])
    assert [chunk["stentor.index"] for chunk in chunks] == [0, 1, 2]
    assert chunks[0]["stentor.start_s"] == 0
    assert sum(chunk["stentor.audio_s"] for chunk in chunks) == pytest.approx(70)
    assert all(chunk["stentor.computed_s"] > 0 for chunk in chunks)
    assert len(collector.spans) == len(inner) + len(stages) + 1


async def test_a_span_says_what_ended_it(collector: Collector, tmp_path: Path) -> None:
    audio = write(tmp_path / "audio.flac", bursts(2)).read_bytes()
    engine = FakeEngine()
    async with serving(engine, tracing=True) as served, httpx.AsyncClient(timeout=20) as http:
        url = f"{served.url}{PATH}"
        refused = await http.post(url, data={"language": "klingon"}, files={"file": ("a", audio)})
        assert refused.status_code == 400
        engine.gate.clear()
        call = http.post(url, data={"language": "en"}, files={"file": ("a", audio)})
        leaving = asyncio.create_task(call)
        await engine.until(lambda e: bool(e.started))
        leaving.cancel()
        await engine.until(lambda e: bool(e.aborted))
    assert [values(span).get("error.type") for span in collector.named("uploading")] == [
        "invalid_value",
        None,
    ]
    [chunk] = collector.named("chunk")
    assert values(chunk)["error.type"] == "cancelled"
    [transcribing] = collector.named("transcribing")
    assert values(transcribing)["error.type"] == "client_disconnected"
    statuses = [values(span)["http.response.status_code"] for span in collector.named(f"POST {PATH}")]
    assert statuses[0] == 400


def test_nothing_of_it_is_imported_when_off() -> None:
    program = (
        "import sys; from stentor.api.app import create_app; from stentor.config import Settings; "
        "create_app(Settings(), lambda: None); "
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_without_the_extra_the_server_says_what_to_install() -> None:
    program = "import sys; sys.modules['opentelemetry.sdk'] = None; from stentor.cli.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program, "serve", "--port", "0"],
        env={"STENTOR_TRACING": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "pip install 'stentor[otel]'" in run.stderr
