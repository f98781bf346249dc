"""Connections that dawdle before, between and after their requests, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from stentor.edge.listening import refuse_connections
from stentor.engine.fake import FakeEngine
from support.audio import noise, write
from support.forms import form_bytes, head
from support.server import Dial, Served, serving

LIMIT_BYTES = 1_000_000
QUESTION = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A server that takes a megabyte, and bears 0.3 s without a request."""
    engine = FakeEngine()
    engine.gate.clear()
    async with serving(engine, between_s=0.3, max_upload_bytes=LIMIT_BYTES) as served:
        yield served


async def status(reader: asyncio.StreamReader) -> int:
    """An answer's status; the answer is read to its end."""
    answer = await reader.readuntil(b"\r\n\r\n")
    (length,) = (line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return int(answer.split()[1])


async def cut_off(reader: asyncio.StreamReader) -> None:
    """Wait until the server has closed a connection."""
    with suppress(ConnectionResetError):  # something that nobody reads any more was on its way
        assert await reader.read() == b""


@pytest.mark.parametrize("more", ["", "Connection: close\r\n"])
async def test_a_refusal_reaches_a_client_that_sends_all_before_it_reads(
    dial: Dial, served: Served, more: str
) -> None:
    size_bytes = 20 * LIMIT_BYTES
    reader, writer = await dial(served)
    writer.write(head(size_bytes, more=more))
    for _ in range(20):
        writer.write(bytes(LIMIT_BYTES))
        await writer.drain()
    assert await status(reader) == 413


@pytest.mark.parametrize("more", ["", "Connection: close\r\n"])
async def test_what_was_refused_is_not_read_for_ever(dial: Dial, served: Served, more: str) -> None:
    reader, writer = await dial(served)
    writer.write(head(10**12, more=more))
    assert await status(reader) == 413

    async def send() -> None:
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)  # not a wait for anything: a client that is slow

    with pytest.raises(ConnectionError):
        await send()


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"P", QUESTION[:-2]])
async def test_a_head_that_does_not_come_is_not_waited_for(dial: Dial, served: Served, begun: bytes) -> None:
    reader, writer = await dial(served)
    writer.write(begun)
    await cut_off(reader)


async def test_nor_is_the_head_of_the_next_request(dial: Dial, served: Served) -> None:
    reader, writer = await dial(served)
    for _ in range(2):
        writer.write(QUESTION)
        assert await status(reader) == 200
    writer.write(b"GET /hea")
    await cut_off(reader)


async def test_an_upload_and_its_answer_may_take_longer(dial: Dial, served: Served, tmp_path: Path) -> None:
    form = form_bytes(write(tmp_path / "clip.flac", noise(1)).read_bytes())
    reader, writer = await dial(served)
    writer.write(head(len(form)) + form[:1000])
    silent, _ = await dial(served)
    await cut_off(silent)  # so the time is over for the first one as well
    writer.write(form[1000:])
    await served.engine.until(lambda engine: len(engine.started) == 1)
    silent, _ = await dial(served)
    await cut_off(silent)
    served.engine.gate.set()
    assert await status(reader) == 200


@pytest.mark.skipif(sys.platform != "linux", reason="the packet filter is Linux's")
async def test_a_port_that_closes_takes_nobody_more_and_loses_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        with socket.create_connection(address) as early:
            refuse_connections(listening)
            late = asyncio.create_task(asyncio.open_connection(*address))
            accepted, _ = await asyncio.to_thread(listening.accept)
            with accepted:
                early.sendall(b"question")
                assert await asyncio.to_thread(accepted.recv, 100) == b"question"
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.accept()
    with pytest.raises(ConnectionRefusedError):  # its system has asked again, and was told
        await late
