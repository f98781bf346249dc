"""A request's id: taken from the caller where it is sane, made where it is not, on every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

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
    async with serving(engine, max_requests=2) as served:
        yield served


@pytest.fixture
def audio(tmp_path: Path) -> bytes:
    return write(tmp_path / "audio.flac", noise(1)).read_bytes()


@pytest.mark.parametrize(
    "given", ["abc", "6f1c9a52-0a42-4c0e-b2a1-2a1a1a8b0c11", "req_1/retry:2", "01HXYZ+abc=", "a" * 128]
)
async def test_a_sane_id_comes_back(http: httpx.AsyncClient, given: str) -> None:
    assert (await http.get("/health", headers={"x-request-id": given})).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a b", "a" * 129, "<script>", "a;b", "-", "é", "a\tb", "{}"])
async def test_any_other_is_replaced(http: httpx.AsyncClient, given: str) -> None:
    response = await http.get("/health", headers=[(b"x-request-id", given.encode("latin-1"))])
    assert response.status_code == 200
    assert response.headers["x-request-id"].startswith("req_")


async def test_every_answer_carries_it(
    http: httpx.AsyncClient, served: Served, engine: FakeEngine, audio: bytes
) -> None:
    headers = {"x-request-id": "mine"}
    answers = [
        await http.post(PATH, headers=headers, **form(audio)),
        await http.post(PATH, headers=headers, **form(audio, stream="true")),
        await http.post(PATH, headers=headers, **form(audio, language="klingon")),
        await http.get("/nothing", headers=headers),
        await http.get(PATH, headers=headers),
    ]
    before = len(engine.started)
    engine.gate.clear()
    running = [asyncio.create_task(http.post(PATH, **form(audio))) for _ in range(2)]
    await engine.until(lambda e: len(e.started) == before + 2)
    answers.append(await http.post(PATH, headers=headers, **form(audio)))
    engine.gate.set()
    await asyncio.gather(*running)
    assert [answer.status_code for answer in answers] == [200, 200, 400, 404, 405, 429]
    assert {answer.headers["x-request-id"] for answer in answers} == {"mine"}


async def test_so_does_an_error_that_nobody_expected(
    http: httpx.AsyncClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(served.services.engine, "health", broken)
    with capture_logs([structlog.contextvars.merge_contextvars]) as lines:
        response = await http.get("/health", headers={"x-request-id": "mine"})
    assert (response.status_code, response.headers["x-request-id"]) == (500, "mine")
    assert response.json()["error"]["code"] == "internal_error"
    assert "a defect" not in response.text
    assert [(line["event"], line["request_id"]) for line in lines] == [("unexpected error", "mine")]


async def test_logs_carry_it(http: httpx.AsyncClient, audio: bytes) -> None:
    with capture_logs([structlog.contextvars.merge_contextvars]) as lines:
        await http.post(PATH, headers={"x-request-id": "mine"}, **form(audio, stream="true"))
    assert [(line["event"], line["request_id"]) for line in lines] == [("request", "mine")]


async def test_calls_under_one_id_do_not_abort_each_other(
    served: Served, engine: FakeEngine, audio: bytes
) -> None:
    engine.gate.clear()
    headers = {"x-request-id": "mine"}
    async with (
        httpx.AsyncClient(base_url=served.url, timeout=20) as stays,
        httpx.AsyncClient(base_url=served.url, timeout=20) as leaves,
    ):
        staying = asyncio.create_task(stays.post(PATH, headers=headers, **form(audio, language="en")))
        await engine.until(lambda e: len(e.started) == 1)
        leaving = asyncio.create_task(leaves.post(PATH, headers=headers, **form(audio, language="en")))
        await engine.until(lambda e: len(e.started) == 2)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await engine.until(lambda e: bool(e.aborted))
        engine.gate.set()
        assert (await staying).status_code == 200
    first, second = engine.begun
    assert engine.aborted == [second]
    assert engine.finished == [first]
    assert first != second
    assert first.startswith("mine~")
    assert second.startswith("mine~")
