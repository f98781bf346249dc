"""What no client library sends: raw forms, wrong paths, health, metrics, full houses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from stentor import __version__
from stentor.engine.fake import FakeEngine
from support.audio import noise, write
from support.forms import form
from support.server import Served, serving

PATH = "/v1/audio/transcriptions"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
async def served(engine: FakeEngine) -> AsyncIterator[Served]:
    async with serving(engine, max_requests=2, max_upload_bytes=1_000_000) as served:
        yield served


@pytest.fixture
def audio(tmp_path: Path) -> bytes:
    return write(tmp_path / "audio.flac", noise(1)).read_bytes()


def error_of(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert response.headers["x-request-id"].startswith("req_")
    return dict(body["error"])


async def test_the_model_may_be_left_out(http: httpx.AsyncClient, audio: bytes) -> None:
    response = await http.post(PATH, **form(audio))
    assert response.status_code == 200
    assert response.json() == {
        "text": "chunk 0",
        "languages": [{"code": "en"}],
        "usage": {"type": "duration", "seconds": 1.0},
    }


@pytest.mark.parametrize(
    ("media_type", "response_format"),
    [
        ("application/json", "json"),
        ("text/plain; charset=utf-8", "text"),
        ("application/x-subrip; charset=utf-8", "srt"),
        ("text/vtt; charset=utf-8", "vtt"),
        ("application/json", "verbose_json"),
    ],
)
async def test_media_types(
    http: httpx.AsyncClient, audio: bytes, response_format: str, media_type: str
) -> None:
    response = await http.post(PATH, **form(audio, response_format=response_format))
    assert response.headers["content-type"] == media_type


async def test_list_fields_come_with_and_without_brackets(http: httpx.AsyncClient, audio: bytes) -> None:
    for name in ("timestamp_granularities", "timestamp_granularities[]"):
        fields = {"response_format": "verbose_json", name: "segment"}
        assert (await http.post(PATH, **form(audio, **fields))).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temprature": "0"}, "temprature"),
        ({"temperature": "warm"}, "temperature"),
        ({"stream": "often"}, "stream"),
    ],
)
async def test_fields_are_checked_by_name(
    http: httpx.AsyncClient, audio: bytes, fields: dict[str, str], param: str
) -> None:
    response = await http.post(PATH, **form(audio, **fields))
    assert response.status_code == 400
    assert error_of(response)["param"] == param


async def test_an_object_may_come_as_json(http: httpx.AsyncClient, audio: bytes) -> None:
    strategy = '{"type": "server_vad", "prefix_padding_ms": 100}'
    assert (await http.post(PATH, **form(audio, chunking_strategy=strategy))).json()["text"] == ""
    refused = await http.post(PATH, **form(audio, chunking_strategy="{broken"))
    assert (refused.status_code, error_of(refused)["param"]) == (400, "chunking_strategy")


async def test_a_field_twice_is_refused(http: httpx.AsyncClient, audio: bytes) -> None:
    response = await http.post(PATH, data={"language": ["en", "de"]}, files={"file": ("a", audio)})
    assert (response.status_code, error_of(response)["param"]) == (400, "language")


async def test_a_form_without_file_is_refused(http: httpx.AsyncClient) -> None:
    response = await http.post(PATH, files={"model": (None, "fake")})
    assert (response.status_code, error_of(response)["param"]) == (400, "file")


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"{}", "application/json"),
        (b"", "multipart/form-data"),
        (b"nonsense", "multipart/form-data; boundary=x"),
        (b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc', "multipart/form-data; boundary=x"),
    ],
)
async def test_what_is_no_whole_form_is_refused(
    http: httpx.AsyncClient, content: bytes, content_type: str
) -> None:
    response = await http.post(PATH, content=content, headers={"content-type": content_type})
    assert response.status_code == 400
    error_of(response)


async def test_an_oversize_body_is_refused_with_and_without_a_declared_length(
    http: httpx.AsyncClient,
) -> None:
    async def chunked() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
        for _ in range(20):
            yield bytes(100_000)

    headers = {"content-type": "multipart/form-data; boundary=x"}
    declared = await http.post(PATH, content=bytes(2_000_000), headers=headers)
    assert (declared.status_code, error_of(declared)["code"]) == (413, "request_too_large")
    undeclared = await http.post(PATH, content=chunked(), headers=headers)
    assert (undeclared.status_code, error_of(undeclared)["code"]) == (413, "request_too_large")


async def test_wrong_paths_and_methods(http: httpx.AsyncClient) -> None:
    missing = await http.get("/v1/nothing")
    assert (missing.status_code, error_of(missing)["code"]) == (404, "not_found")
    method = await http.get(PATH)
    assert (method.status_code, error_of(method)["code"]) == (405, "method_not_allowed")
    assert "POST" in method.headers["allow"]


async def test_health_and_readiness(http: httpx.AsyncClient, served: Served) -> None:
    assert (await http.get("/health")).json() == {"status": "ok"}
    assert (await http.get("/health/live")).status_code == 200
    assert (await http.get("/health/ready")).json() == {"status": "ready"}
    served.services.admission.draining = True
    assert (await http.get("/health/ready")).json() == {"status": "draining"}
    assert (await http.get("/health/live")).status_code == 200
    await served.services.engine.close()
    live = await http.get("/health/live")
    assert (live.status_code, live.json()["status"]) == (503, "dead")
    assert (await http.get("/health/ready")).status_code == 503


async def test_a_full_house_says_when_to_come_back(
    http: httpx.AsyncClient, served: Served, engine: FakeEngine, audio: bytes
) -> None:
    engine.gate.clear()
    running = [asyncio.create_task(http.post(PATH, **form(audio))) for _ in range(2)]
    await engine.until(lambda e: len(e.started) == 2)
    assert (await http.get("/health/ready")).json() == {"status": "full"}
    refused = await http.post(PATH, **form(audio))
    assert (refused.status_code, error_of(refused)["code"]) == (429, "rate_limit_exceeded")
    assert int(refused.headers["retry-after"]) >= 1
    engine.gate.set()
    assert [(await task).status_code for task in running] == [200, 200]


async def test_who_is_refused_while_the_server_drains_is_no_error_of_the_server(
    http: httpx.AsyncClient, served: Served, audio: bytes
) -> None:
    served.services.admission.draining = True
    with capture_logs() as lines:
        refused = await http.post(PATH, **form(audio))
    assert (refused.status_code, error_of(refused)["code"]) == (503, "draining")
    told = [(line["log_level"], line["code"]) for line in lines if line["event"] == "request refused"]
    assert told == [("info", "draining")]
    assert {line["log_level"] for line in lines} == {"info"}


async def test_the_books_balance(http: httpx.AsyncClient, served: Served, audio: bytes) -> None:
    await http.post(PATH, **form(audio))
    await http.post(PATH, **form(b"no audio" * 50))
    await http.post(PATH, **form(audio, model="none"))
    served.services.admission.draining = True
    await http.post(PATH, **form(audio))
    text = (await http.get("/metrics")).text
    assert 'stentor_requests_received_total{endpoint="transcribe"} 4.0' in text
    for outcome, reason in [
        ("finished", "ok"),
        ("failed", "invalid_audio"),
        ("failed", "model_not_found"),
        ("rejected", "draining"),
    ]:
        line = (
            f'stentor_requests_ended_total{{endpoint="transcribe",outcome="{outcome}",reason="{reason}"}} 1.0'
        )
        assert line in text
    assert "stentor_requests_active 0.0" in text


async def test_audio_is_counted(http: httpx.AsyncClient, audio: bytes) -> None:
    await http.post(PATH, **form(audio))
    await http.post(PATH, **form(b"no audio" * 50))
    text = (await http.get("/metrics")).text
    for line in [
        'stentor_audio_seconds_total{stage="decoded"} 1.0',
        'stentor_audio_seconds_total{stage="transcribed"} 1.0',
        'stentor_audio_files_total{format="flac"} 1.0',
        'stentor_audio_files_total{format="unknown"} 1.0',
        "stentor_preprocess_step_seconds_count",
        "stentor_preprocess_waiting 0.0",
    ]:
        assert line in text


async def test_status_tells_what_is_served_and_how_busy_it_is(
    http: httpx.AsyncClient, served: Served, engine: FakeEngine, audio: bytes
) -> None:
    idle = {
        "status": "ready",
        "version": __version__,
        "engine": "fake",
        "model": "fake",
        "digest": None,
        "languages": ["en", "de", "fr", "ja"],
        "translates": True,
        "requests": 0,
        "queued_audio_s": 0,
        "rtfx": None,
    }
    assert (await http.get("/status")).json() == idle
    engine.gate.clear()
    running = [asyncio.create_task(http.post(PATH, **form(audio))) for _ in range(2)]
    await engine.until(lambda e: len(e.started) == 2)
    busy = (await http.get("/status")).json()
    assert (busy["status"], busy["requests"]) == ("full", 2)
    assert busy["queued_audio_s"] > 0
    engine.gate.set()
    await asyncio.gather(*running)
    after = (await http.get("/status")).json()
    assert after["rtfx"] > 0
    assert after | {"rtfx": None} == idle
    served.services.admission.draining = True
    assert (await http.get("/status")).json()["status"] == "draining"
    await engine.close()
    assert (await http.get("/status")).json()["status"] == "dead"
