"""Who may use the server: keys, what stays open without one, and pages of other origins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest
from structlog.testing import capture_logs

from stentor.engine.fake import FakeEngine
from support.audio import noise, write
from support.server import Served, serving

PATH = "/v1/audio/transcriptions"
KEYS = ("sk-first", "sk-second")


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(FakeEngine(), api_keys=KEYS, cors_origins=("https://app.example",)) as served:
        yield served


@pytest.mark.parametrize("key", KEYS)
async def test_each_key_opens_every_route(served: Served, tmp_path: Path, key: str) -> None:
    audio = write(tmp_path / "audio.flac", noise(1))
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0) as client:
        assert (await client.audio.transcriptions.create(file=audio, model="whisper-1")).text == "chunk 0"
        names = ["fake", "whisper-1", "gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe"]
        assert [model.id async for model in client.models.list()] == names


async def test_openai_client_sees_a_wrong_key(served: Served) -> None:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="sk-third", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.audio.transcriptions.create(file=b"never read", model="whisper-1")
    assert (refused.value.code, refused.value.type) == ("invalid_api_key", "invalid_request_error")
    assert refused.value.request_id


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Basic sk-first",
        "sk-first",
        "Bearer sk-firs",
        "Bearer sk-first2",
        "Bearer é",
    ],
)
async def test_anything_else_is_401_on_every_route(
    http: httpx.AsyncClient, served: Served, authorization: str | None
) -> None:
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    for method, path in [("POST", PATH), ("POST", "/v1/audio/translations"), ("GET", "/v1/models")]:
        response = await http.request(method, path, headers=headers)
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers["x-request-id"]
    assert served.counted("stentor_unauthorized_total") == 3
    assert served.counted("stentor_requests_received_total", endpoint="transcribe") == 0


async def test_the_key_is_judged_before_the_body_and_admission(served: Served) -> None:
    served.services.admission.draining = True  # admission would say 503
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    writer.write(f"{head}Content-Length: 1000000\r\n\r\n".encode())  # and never the body
    assert await reader.readline() == b"HTTP/1.1 401 Unauthorized\r\n"
    writer.close()
    await writer.wait_closed()


async def test_probes_and_metrics_are_open_by_default(http: httpx.AsyncClient) -> None:
    for path in ("/health", "/health/live", "/health/ready", "/metrics"):
        assert (await http.get(path)).status_code == 200


async def test_metrics_and_probes_can_be_locked() -> None:
    async with (
        serving(FakeEngine(), api_keys=KEYS, keyless=("health",)) as served,
        httpx.AsyncClient(base_url=served.url) as http,
    ):
        assert (await http.get("/health/live")).status_code == 200
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/metrics", headers={"authorization": "Bearer sk-second"})).status_code == 200
    async with (
        serving(FakeEngine(), api_keys=KEYS, keyless=()) as served,
        httpx.AsyncClient(base_url=served.url) as http,
    ):
        assert (await http.get("/health/live")).status_code == 401


async def test_keys_are_in_no_log(http: httpx.AsyncClient) -> None:
    with capture_logs() as lines:
        await http.get("/v1/models", headers={"authorization": "Bearer sk-wrong"})
        await http.get("/v1/models", headers={"authorization": "Bearer sk-first"})
    assert lines
    assert "sk-" not in str(lines)


async def test_a_page_of_a_known_origin_may_ask_and_call(http: httpx.AsyncClient) -> None:
    asks = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-stainless-lang",
    }
    preflight = await http.options(PATH, headers=asks)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    refused = await http.post(PATH, headers={"origin": "https://app.example"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"
    exposed = refused.headers["access-control-expose-headers"].lower()
    assert all(name in exposed for name in ("x-request-id", "retry-after"))


async def test_a_page_of_another_origin_may_not(http: httpx.AsyncClient) -> None:
    asks = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    assert (await http.options(PATH, headers=asks)).status_code == 400
    response = await http.get("/health", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in response.headers


async def test_no_origin_is_known_by_default() -> None:
    async with serving(FakeEngine()) as served, httpx.AsyncClient(base_url=served.url) as http:
        response = await http.get("/health", headers={"origin": "https://app.example"})
        assert not [name for name in response.headers if name.startswith("access-control")]
