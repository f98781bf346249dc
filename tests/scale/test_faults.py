"""Clients that leave and replicas that die, over real sockets and real processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from stentor.engine.base import Engine
from support.replicas import serve_pids
from support.server import Served, serving
from support.waiting import until

PATH = "/v1/audio/transcriptions"


@pytest.fixture
async def served(tiny: Engine) -> AsyncIterator[Served]:
    async with serving(tiny) as served:
        yield served


@pytest.fixture
async def http(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, timeout=200) as client:
        yield client


def body(audio: bytes) -> bytes:
    """Its head and body, as a client sends them."""
    form = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + audio + b"\r\n--x--\r\n"
    )
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(form)}\r\n"
    return f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode() + form


async def transcript(http: httpx.AsyncClient, audio: bytes) -> str:
    answer = await http.post(PATH, files={"file": ("a.flac", audio)})
    answer.raise_for_status()
    text: str = answer.json()["text"]
    return text


@pytest.mark.parametrize("how", ["fin", "reset"])
async def test_a_client_that_leaves_frees_the_replicas(
    served: Served, tiny: Engine, long_speech: Path, how: str
) -> None:
    audio = await asyncio.to_thread(long_speech.read_bytes)
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(body(audio))
        await until(lambda: tiny.health().running > 0)
        if how == "fin":
            writer.close()
        else:
            writer.transport.abort()
        await until(lambda: served.counted("stentor_requests_active") == 0)
        await until(lambda: tiny.health().running == tiny.health().queued == 0)


async def test_five_hundred_cancels_at_any_moment_leave_nothing(
    served: Served, tiny: Engine, long_speech: Path
) -> None:
    audio = await asyncio.to_thread(long_speech.read_bytes)

    async def leave(number: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(body(audio))
        await asyncio.sleep(number % 50 / 100)  # not a wait for anything: the moment is the point
        writer.transport.abort()

    for first in range(0, 500, 20):
        await asyncio.gather(*(leave(number) for number in range(first, first + 20)))
    await until(lambda: served.counted("stentor_requests_active") == 0)
    await until(lambda: tiny.health().running == tiny.health().queued == 0)


async def test_an_overloaded_server_says_so_before_the_body_is_sent(tiny: Engine, long_speech: Path) -> None:
    audio = await asyncio.to_thread(long_speech.read_bytes)
    async with serving(tiny, max_requests=1) as served:
        _, first = await asyncio.open_connection("127.0.0.1", served.port)
        first.write(body(audio))
        await until(lambda: served.counted("stentor_requests_active") == 1)
        reader, second = await asyncio.open_connection("127.0.0.1", served.port)
        second.write(body(audio)[:300])
        assert (await reader.readline()).startswith(b"HTTP/1.1 429")
        first.close()
        second.close()
        await until(lambda: served.counted("stentor_requests_active") == 0)


async def test_a_killed_replica_costs_no_word(
    served: Served, http: httpx.AsyncClient, tiny: Engine, long_speech: Path
) -> None:
    audio = await asyncio.to_thread(long_speech.read_bytes)
    expected = await transcript(http, audio)
    answers = [asyncio.create_task(transcript(http, audio)) for _ in range(16)]
    await until(lambda: tiny.health().running >= 4)
    os.kill(serve_pids("engine")[0], signal.SIGKILL)
    assert await asyncio.gather(*answers) == [expected] * 16
    assert served.counted("stentor_engine_alive") == 1


async def test_without_replicas_liveness_is_red_until_serve_has_another(
    http: httpx.AsyncClient, tiny: Engine, long_speech: Path
) -> None:
    audio = await asyncio.to_thread(long_speech.read_bytes)
    await until(lambda: len(serve_pids("engine")) == 2)
    for pid in serve_pids("engine"):
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not tiny.health().alive)
    assert (await http.get("/health/live")).status_code == 503
    assert (await http.get("/health/ready")).status_code == 503
    # It is in time for the first try's limit: such a call waits, and is answered.
    assert await transcript(http, audio)
    await until(lambda: tiny.health().alive)
    assert (await http.get("/health/ready")).status_code == 200
