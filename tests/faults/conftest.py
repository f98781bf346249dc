"""Connections of their own, closed behind every test, also one that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.server import Dial, Served


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connects to a server."""
    writers: list[asyncio.StreamWriter] = []

    async def connect(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0)  # the loop closes the sockets in its next turn
