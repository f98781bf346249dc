"""SIGTERM, as a supervisor sends it, to a server process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from support.audio import bursts, noise, write

PATH = "/v1/audio/transcriptions"
SERVICE = Path(__file__).parents[1] / "support" / "service.py"


@dataclass(frozen=True, slots=True)
class Service:
    """A server process, and a client of it."""

    process: asyncio.subprocess.Process
    http: httpx.AsyncClient

    def transcribe(self, audio: Path) -> asyncio.Task[httpx.Response]:
        files = {"file": ("a.flac", audio.read_bytes())}
        return asyncio.create_task(self.http.post(PATH, data={"language": "en"}, files=files))

    async def until(self, series: str) -> None:
        while series not in (await self.http.get("/metrics")).text:
            pass


@asynccontextmanager
async def service(*arguments: str) -> AsyncIterator[Service]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVICE), *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            yield Service(process, http)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write(tmp_path / "clip.flac", noise(1))


@pytest.fixture
def long(tmp_path: Path) -> Path:
    return write(tmp_path / "long.flac", bursts(150))


async def test_an_idle_server_ends_at_once_with_0() -> None:
    async with service("--drain-timeout-s", "20") as served:
        served.process.send_signal(signal.SIGTERM)
        assert await served.process.wait() == 0


async def test_running_work_is_finished_while_new_work_is_refused(clip: Path, long: Path) -> None:
    async with service("--drain-timeout-s", "20", "--gate", "held") as served:
        running = served.transcribe(long)
        await served.until("stentor_engine_running 2.0")
        served.process.send_signal(signal.SIGTERM)
        while (ready := await served.http.get("/health/ready")).status_code == 200:
            pass
        assert ready.json() == {"status": "draining"}
        refused = await served.transcribe(clip)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["connection"] == "close"
        await served.http.post("/gate/open")
        answer = await running
        assert answer.status_code == 200
        assert answer.json()["text"].startswith("chunk 0 chunk 1")
        assert await served.process.wait() == 0


async def test_whoever_connects_is_answered(tmp_path: Path) -> None:
    """Uploads without a pause between them, each on a connection of its own, until nobody can connect."""
    audio = write(tmp_path / "noise.wav", noise(30))
    files = {"file": ("a.wav", audio.read_bytes())}
    async with service("--drain-timeout-s", "20") as served:
        answered = asyncio.Event()
        told: Counter[int] = Counter()

        async def ask() -> None:
            limits = httpx.Limits(max_keepalive_connections=0)
            async with httpx.AsyncClient(base_url=served.http.base_url, limits=limits, timeout=20) as http:
                while True:
                    told[(await http.post(PATH, data={"language": "en"}, files=files)).status_code] += 1
                    answered.set()

        asking = [asyncio.create_task(ask()) for _ in range(8)]
        await answered.wait()
        served.process.send_signal(signal.SIGTERM)
        for one in asking:
            with pytest.raises(httpx.ConnectError):
                await one
        assert set(told) == {200, 503}
        assert await served.process.wait() == 0


async def closed(served: Service) -> None:
    """Wait until nobody can connect."""
    with suppress(httpx.ConnectError):
        while True:
            await served.http.get("/health/ready")


async def test_who_has_connected_before_the_end_may_still_ask() -> None:
    async with service("--drain-timeout-s", "20") as served:
        url = served.http.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        served.process.send_signal(signal.SIGTERM)
        await closed(served)
        writer.write(b"GET /health/ready HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"503" in await reader.readline()
        assert b"draining" in await reader.read()
        writer.close()
        assert await served.process.wait() == 0


async def test_what_outlasts_the_drain_is_aborted(long: Path) -> None:
    async with service("--drain-timeout-s", "0.2", "--gate", "held") as served:
        running = served.transcribe(long)
        await served.until("stentor_engine_running 2.0")
        served.process.send_signal(signal.SIGTERM)
        assert await served.process.wait() == 0
        with pytest.raises((httpx.HTTPError, AssertionError)):
            assert (await running).status_code == 200


async def test_a_second_signal_ends_it_at_once(long: Path) -> None:
    async with service("--drain-timeout-s", "1000", "--gate", "held") as served:
        running = served.transcribe(long)
        await served.until("stentor_engine_running 2.0")
        os.kill(served.process.pid, signal.SIGTERM)
        while (await served.http.get("/health/ready")).status_code == 200:
            pass
        os.kill(served.process.pid, signal.SIGTERM)
        assert await served.process.wait() == 0
        with pytest.raises((httpx.HTTPError, AssertionError)):
            assert (await running).status_code == 200
