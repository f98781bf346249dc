"""What is counted, and that the document shows all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from stentor.api.reference import metrics_table
from stentor.engine.fake import FakeEngine, numbered
from stentor.types import EngineRequest, Segment
from support.audio import noise, write
from support.forms import form
from support.server import Served, serving

PATH = "/v1/audio/transcriptions"


def script(request: EngineRequest) -> list[Segment]:
    request.report.fallbacks.append("repetition")
    return [Segment(segment.text, 0, 1, tokens=(1, 2, 3)) for segment in numbered(request)]


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(script)


@pytest.fixture
async def served(engine: FakeEngine) -> AsyncIterator[Served]:
    async with serving(engine) as served:
        yield served


@pytest.fixture
def audio(tmp_path: Path) -> bytes:
    return write(tmp_path / "audio.flac", noise(2)).read_bytes()


def test_the_document_shows_every_series() -> None:
    document = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert document.read_text(encoding="utf-8").endswith(metrics_table()), "run `make fix`"


@pytest.mark.parametrize("stream", ["true", "false"])
async def test_a_finished_request(http: httpx.AsyncClient, served: Served, audio: bytes, stream: str) -> None:
    assert (await http.post(PATH, **form(audio, stream=stream))).status_code == 200
    counted = served.counted
    assert counted("stentor_tokens_total", endpoint="transcribe") == 3
    assert counted("stentor_audio_seconds_total", stage="transcribed") == 2
    assert counted("stentor_fallbacks_total", reason="repetition") == 1
    for name in ("request_seconds", "first_part_seconds", "request_rtfx"):
        assert counted(f"stentor_{name}_count", endpoint="transcribe") == 1
        assert counted(f"stentor_{name}_sum", endpoint="transcribe") > 0
    first = counted("stentor_first_part_seconds_sum", endpoint="transcribe")
    assert first <= counted("stentor_request_seconds_sum", endpoint="transcribe")
    for name in ("chunk_seconds", "engine_queue_seconds", "engine_compute_seconds"):
        for stage in ("chunk", "probe"):
            assert counted(f"stentor_{name}_count", stage=stage) == 1
    whole = counted("stentor_chunk_seconds_sum", stage="chunk")
    parts = [counted(f"stentor_engine_{name}_seconds_sum", stage="chunk") for name in ("queue", "compute")]
    assert sum(parts) <= whole
    at_stages = 0.0
    for stage in ("admission", "uploading", "transcribing"):
        assert counted("stentor_request_stage_seconds_count", stage=stage) == 1
        at_stages += counted("stentor_request_stage_seconds_sum", stage=stage)
    assert whole < at_stages <= counted("stentor_request_seconds_sum", endpoint="transcribe") + 0.1
    assert counted("stentor_vad_removed_seconds_total") == 0


async def test_silence_writes_no_first_part(http: httpx.AsyncClient, served: Served, tmp_path: Path) -> None:
    silence = write(tmp_path / "silence.flac", noise(2, level=0)).read_bytes()
    assert (await http.post(PATH, **form(silence))).status_code == 200
    assert served.counted("stentor_request_seconds_count", endpoint="transcribe") == 1
    assert served.counted("stentor_first_part_seconds_count", endpoint="transcribe") == 0


async def test_audio_left_out_as_no_speech(http: httpx.AsyncClient, served: Served, audio: bytes) -> None:
    assert (await http.post(PATH, **form(audio, chunking_strategy="auto"))).status_code == 200
    assert served.counted("stentor_vad_removed_seconds_total") == 2


async def test_waiting_is_told_from_computing(served: Served, engine: FakeEngine, audio: bytes) -> None:
    engine.gate.clear()
    async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
        calls: list[asyncio.Task[httpx.Response]] = []
        for number in range(3):  # one after the other: two compute, the third has no slot
            calls.append(asyncio.create_task(client.post(PATH, **form(audio, language="en"))))
            await engine.until(lambda e, n=number: len(e.begun) == n + 1)  # type: ignore[misc]
        assert served.counted("stentor_requests", stage="transcribing") == 3
        calls[0].cancel()
        await engine.until(lambda e: bool(e.aborted))
        await engine.until(lambda e: len(e.started) == 3)
        engine.gate.set()
        await asyncio.gather(*calls[1:])
    assert served.counted("stentor_engine_queue_seconds_count", stage="chunk") == 3
    assert served.counted("stentor_chunk_seconds_count", stage="chunk") == 2
    assert served.counted("stentor_engine_aborts_total", stage="chunk") == 1
    assert served.counted("stentor_requests_cancelled_total", stage="transcribing") == 1
    waited = served.counted("stentor_engine_queue_seconds_sum", stage="chunk")
    assert waited > 0
    assert served.counted("stentor_requests", stage="transcribing") == 0


async def test_what_is_served(served: Served) -> None:
    [sample] = [
        sample
        for family in served.services.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "stentor_build_info"
    ]
    assert sample.labels["engine"] == sample.labels["model"] == "fake"
