"""SIGTERM, as a supervisor sends it, to a server process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
        await served.http.post("/gate/open")
        answer = await running
        assert answer.status_code == 200
        assert answer.json()["text"].startswith("chunk 0 chunk 1")
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
