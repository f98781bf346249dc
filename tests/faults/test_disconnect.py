"""Clients that leave, over real sockets: nothing goes on for them, and the books say so."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stentor.engine.fake import FakeEngine
from support.audio import bursts, write
from support.server import Served, serving
from support.waiting import until


@pytest.fixture
def engine() -> FakeEngine:
    engine = FakeEngine()
    engine.gate.clear()
    return engine


@pytest.fixture
async def served(engine: FakeEngine) -> AsyncIterator[Served]:
    async with serving(engine) as served:
        yield served


@pytest.fixture
def body(tmp_path: Path) -> bytes:
    audio = write(tmp_path / "long.flac", bursts(150)).read_bytes()
    return b"".join(
        [
            b'--x\r\nContent-Disposition: form-data; name="language"\r\n\r\nen\r\n',
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.flac"\r\n\r\n',
            audio,
            b"\r\n--x--\r\n",
        ]
    )


def head(length: int) -> bytes:
    return (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


async def sent(served: Served, data: bytes) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(data)
    await writer.drain()
    return writer


def fin(writer: asyncio.StreamWriter) -> None:
    writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("leave", [fin, reset])
async def test_leaving_while_the_engine_works_aborts_what_has_begun(
    served: Served, engine: FakeEngine, body: bytes, leave: object
) -> None:
    assert callable(leave)
    writer = await sent(served, head(len(body)) + body)
    await engine.until(lambda e: len(e.begun) == 4)
    leave(writer)
    await engine.until(lambda e: len(e.aborted) == 4)
    assert engine.aborted == engine.begun
    await until(lambda: engine.health().running == engine.health().queued == 0)
    await until(lambda: served.counted("stentor_requests_active") == 0)
    assert cancelled(served) == 1


async def test_leaving_during_the_upload_begins_nothing(
    served: Served, engine: FakeEngine, body: bytes
) -> None:
    writer = await sent(served, head(len(body)) + body[: len(body) // 2])
    await until(lambda: served.counted("stentor_requests_active") == 1)
    writer.close()
    await until(lambda: cancelled(served) == 1)
    assert engine.begun == []


async def test_a_good_answer_after_many_left(served: Served, engine: FakeEngine, body: bytes) -> None:
    for number in range(5):
        writer = await sent(served, head(len(body)) + body)
        await engine.until(lambda e, n=number: len(e.begun) == 4 * (n + 1))  # type: ignore[misc]
        writer.close()
        await engine.until(lambda e, n=number: len(e.aborted) == 4 * (n + 1))  # type: ignore[misc]
    engine.gate.set()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(head(len(body)) + body)
    status = await reader.readline()
    assert status == b"HTTP/1.1 200 OK\r\n"
    writer.close()
    assert cancelled(served) == 5


async def test_a_deadline_aborts_what_has_begun(engine: FakeEngine, body: bytes) -> None:
    async with serving(engine, request_timeout_s=0.2) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(head(len(body)) + body)
        status = await reader.readline()
        writer.close()
        assert status.startswith(b"HTTP/1.1 504")
        assert engine.aborted == engine.begun


def cancelled(served: Served) -> float:
    return served.counted(
        "stentor_requests_ended_total",
        endpoint="transcribe",
        outcome="cancelled",
        reason="client_disconnected",
    )
