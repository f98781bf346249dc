"""The listening server: how it ends, and how it gets rid of connections that nobody reads."""

from __future__ import annotations

import socket
import time
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI

from stentor.admission import Admission

log = structlog.get_logger()

MAX_TIMEOUT_MS = 2**31 - 1
"""The longest that the system's option holds: 24 days."""


class DrainingServer(uvicorn.Server):
    """A uvicorn server that drains before it stops listening.

    uvicorn itself closes its sockets at the first signal, so that a load balancer which has not noticed yet
    meets refused connections. Here the first SIGTERM or SIGINT makes readiness red and new work is answered
    503 with Retry-After; when what was running is done, or the timeout is over, the server stops, and uvicorn
    cancels what is left. A second signal stops it at once. The exit code is 0 either way.

    A client that stops reading would hold its connection, and the answer in it, for as long as it likes: TCP
    waits for ever on a peer that acknowledges and takes nothing. So the kernel is told to reset a connection
    whose data has not been taken for `send_timeout_s` (RFC 5482; Linux applies it to a closed window as
    well), and the handler then sees a client that left. Where the system knows no such option, an
    `EventStream` still ends its work, but the connection stays until the client goes.

    Args:
        config: uvicorn's.
        app: Whose admission is closed.
        drain_timeout_s: How long running work may take.
        send_timeout_s: How long a client may take in nothing of what was sent.
    """

    def __init__(
        self, config: uvicorn.Config, app: FastAPI, *, drain_timeout_s: float, send_timeout_s: float
    ) -> None:
        super().__init__(config)
        self._send_timeout_s = send_timeout_s
        self._app = app
        self._drain_timeout_s = drain_timeout_s
        self._drain_until_s: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; connections inherit the listening socket's options."""
        await super().startup(sockets)
        if not hasattr(socket, "TCP_USER_TIMEOUT"):
            return
        timeout_ms = max(1, round(min(self._send_timeout_s * 1000, MAX_TIMEOUT_MS)))
        for listening in [listening for server in self.servers for listening in server.sockets]:
            if listening.family in (socket.AF_INET, socket.AF_INET6):
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """React to a signal; called in the main thread, between any two instructions of it."""
        admission = self._admission
        if admission is None or self._drain_until_s is not None:
            self.should_exit = True
            self.force_exit = self._drain_until_s is not None
            return
        admission.draining = True
        self._drain_until_s = time.monotonic() + self._drain_timeout_s
        log.info("draining", requests=admission.active, timeout_s=self._drain_timeout_s)

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; True ends the server."""
        admission = self._admission
        if self._drain_until_s is not None and admission is not None:
            timed_out = time.monotonic() >= self._drain_until_s
            if not admission.active or timed_out:
                log.info("drained", aborted_requests=admission.active)
                self.should_exit = True
        return await super().on_tick(counter)

    @property
    def _admission(self) -> Admission | None:
        """The app's, once it has started."""
        services = getattr(self._app.state, "services", None)
        return None if services is None else services.admission
