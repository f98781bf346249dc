"""A real server on a loopback port, in the test's own event loop, so that tests see into its engine.

Sockets are real: an in-process ASGI client cancels the app together with its own call, and would let an
unguarded handler look guarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from stentor.api.app import create_app
from stentor.api.services import Services
from stentor.config import Settings
from stentor.edge.connections import BETWEEN_S
from stentor.edge.server import DrainingServer
from stentor.engine.base import Engine
from stentor.engine.fake import FakeEngine
from support.waiting import until

Dial = Callable[["Served"], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to a server."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    port: int
    services: Services
    server: uvicorn.Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    @property
    def engine(self) -> FakeEngine:
        """The engine served, as the fake it is."""
        assert isinstance(self.services.engine, FakeEngine)
        return self.services.engine

    def counted(self, name: str, **labels: str) -> float:
        """A series' present value; 0 when it has not been counted yet."""
        return self.services.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def serving(engine: Engine, *, between_s: float = BETWEEN_S, **settings: Any) -> AsyncIterator[Served]:
    """Serve an engine until the context is left."""
    known = Settings(**settings)
    app = create_app(known, lambda: engine)
    server = DrainingServer(
        app, drain_timeout_s=0, send_timeout_s=known.send_timeout_s, between_s=between_s, port=0
    )
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started or task.done())
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(port, app.state.services, server)
    finally:
        server.should_exit = True
        await task
