"""Clients that leave, over real sockets: nothing goes on for them, and the books say so."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stentor.engine.fake import FakeEngine
from stentor.types import Segment
from support.audio import bursts, write
from support.forms import form_bytes, head
from support.server import Dial, Served, serving
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
    return form_bytes(audio)


@pytest.fixture
def stream_body(body: bytes) -> bytes:
    field = b'--x\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
    return field + body


async def sent(dial: Dial, served: Served, data: bytes) -> asyncio.StreamWriter:
    _, writer = await dial(served)
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
    dial: Dial, served: Served, engine: FakeEngine, body: bytes, leave: object
) -> None:
    assert callable(leave)
    writer = await sent(dial, served, head(len(body)) + body)
    await engine.until(lambda e: len(e.begun) == 4)
    leave(writer)
    await engine.until(lambda e: len(e.aborted) == 4)
    assert engine.aborted == engine.begun
    await until(lambda: engine.health().running == engine.health().queued == 0)
    await until(lambda: served.counted("stentor_requests_active") == 0)
    assert cancelled(served) == 1


async def test_leaving_during_the_upload_begins_nothing(
    dial: Dial, served: Served, engine: FakeEngine, body: bytes
) -> None:
    writer = await sent(dial, served, head(len(body)) + body[: len(body) // 2])
    await until(lambda: served.counted("stentor_requests_active") == 1)
    writer.close()
    await until(lambda: cancelled(served) == 1)
    assert engine.begun == []


async def test_leaving_a_stream_before_its_first_byte(
    dial: Dial, served: Served, engine: FakeEngine, stream_body: bytes
) -> None:
    writer = await sent(dial, served, head(len(stream_body)) + stream_body)
    await engine.until(lambda e: len(e.begun) == 4)
    writer.close()
    await engine.until(lambda e: len(e.aborted) == 4)
    await until(lambda: served.counted("stentor_requests_active") == 0)
    assert cancelled(served) == 1


async def test_leaving_in_mid_stream_aborts_the_rest(
    dial: Dial, served: Served, engine: FakeEngine, stream_body: bytes
) -> None:
    engine.gate.set()
    engine.close_gate_after(1)
    reader, writer = await dial(served)
    writer.write(head(len(stream_body)) + stream_body)
    assert b"chunk 0" in await reader.readuntil(b"}\n\n")
    await engine.until(lambda e: len(e.begun) > len(e.finished) + 1)
    writer.close()
    await until(lambda: cancelled(served) == 1)
    assert engine.aborted
    assert set(engine.aborted) == set(engine.begun) - set(engine.finished)
    await until(lambda: engine.health().running == engine.health().queued == 0)


async def test_a_half_closed_connection_is_a_client_that_left(
    dial: Dial, served: Served, engine: FakeEngine, body: bytes
) -> None:
    writer = await sent(dial, served, head(len(body)) + body)
    await engine.until(lambda e: len(e.begun) == 4)
    writer.write_eof()
    await engine.until(lambda e: len(e.aborted) == 4)
    await until(lambda: cancelled(served) == 1)
    writer.close()


async def test_leaving_in_language_detection_aborts_the_probe(
    dial: Dial, served: Served, engine: FakeEngine, body: bytes
) -> None:
    unnamed = body.replace(b'name="language"\r\n\r\nen', b'name="prompt"\r\n\r\nHm')
    writer = await sent(dial, served, head(len(unnamed)) + unnamed)
    await engine.until(lambda e: len(e.started) == 1)
    writer.close()
    await engine.until(lambda e: len(e.aborted) == 1)
    assert engine.aborted == engine.begun
    assert engine.aborted[0].endswith("-lang")
    await until(lambda: served.counted("stentor_engine_aborts_total", stage="probe") == 1)


async def test_leaving_while_waiting_for_a_preprocessing_slot_begins_nothing(
    dial: Dial, served: Served, engine: FakeEngine, body: bytes
) -> None:
    hold = threading.Event()
    pool = served.services.pool
    busy = [asyncio.create_task(pool.run(hold.wait)) for _ in range(pool.workers)]
    await until(lambda: pool.running == pool.workers)
    writer = await sent(dial, served, head(len(body)) + body)
    await until(lambda: pool.waiting == 1)
    writer.close()
    await until(lambda: pool.waiting == 0)
    await until(lambda: cancelled(served) == 1)
    hold.set()
    await asyncio.gather(*busy)
    assert engine.begun == []


async def test_an_upload_that_pauses_is_cut_off_with_408(dial: Dial, engine: FakeEngine, body: bytes) -> None:
    async with serving(engine, upload_pause_s=0.1) as served:
        reader, writer = await dial(served)
        writer.write(head(len(body)) + body[:1000])
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
        await until(lambda: served.counted("stentor_requests_active") == 0)
        assert engine.begun == []


async def test_a_good_answer_after_many_left(
    dial: Dial, served: Served, engine: FakeEngine, body: bytes
) -> None:
    for number in range(5):
        writer = await sent(dial, served, head(len(body)) + body)
        await engine.until(lambda e, n=number: len(e.begun) == 4 * (n + 1))  # type: ignore[misc]
        writer.close()
        await engine.until(lambda e, n=number: len(e.aborted) == 4 * (n + 1))  # type: ignore[misc]
    engine.gate.set()
    reader, writer = await dial(served)
    writer.write(head(len(body)) + body)
    status = await reader.readline()
    assert status == b"HTTP/1.1 200 OK\r\n"
    writer.close()
    assert cancelled(served) == 5


async def test_a_deadline_aborts_what_has_begun(dial: Dial, engine: FakeEngine, body: bytes) -> None:
    async with serving(engine, request_timeout_s=0.2) as served:
        reader, writer = await dial(served)
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


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="needs Linux's TCP_USER_TIMEOUT")
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_that_nobody_reads_frees_its_connection(
    dial: Dial, stream_body: bytes, body: bytes, streamed: bool
) -> None:
    wordy = FakeEngine(lambda request: [Segment(" word" * 2_000_000, 0, request.chunk.duration_s)])
    async with serving(wordy, send_timeout_s=0.2) as served:
        _, writer = await dial(served)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        sent = stream_body if streamed else body
        writer.write(head(len(sent)) + sent)
        await until(lambda: served.counted("stentor_requests_active") == 1)
        await until(lambda: served.connections == 0)
        await until(lambda: served.counted("stentor_requests_active") == 0)
        await until(lambda: wordy.health().running == wordy.health().queued == 0)
        assert cancelled(served) == streamed  # else the answer was whole, and only its delivery failed


async def test_a_send_timeout_longer_than_the_system_holds_is_none(
    dial: Dial, engine: FakeEngine, body: bytes
) -> None:
    engine.gate.set()
    async with serving(engine, send_timeout_s=float("inf")) as served:
        reader, writer = await dial(served)
        writer.write(head(len(body)) + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
