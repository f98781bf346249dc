"""The listening server, and how it ends."""

from __future__ import annotations

import socket
import time
from functools import partial
from types import FrameType
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from stentor.admission import Admission
from stentor.edge.connections import BETWEEN_S, Connection
from stentor.edge.listening import refuse_connections, reset_unread

log = structlog.get_logger()

FAREWELL_S = 5.0
"""After the drain, for clients that have said nothing yet or are still sending what was refused."""

CLEAN_UP_S = 1
"""What is still running after the drain gets this long to notice that its connection was closed, then it is
cancelled; its clean-up (aborts, temporary files) is awaited by the engine's and the pool's own close."""


class DrainingServer(uvicorn.Server):
    """A uvicorn server that drains before it stops listening, and answers everybody who has connected.

    uvicorn itself closes its sockets at the first signal, so that a load balancer which has not noticed yet
    meets refused connections, and whoever has just connected a reset one. Here the first SIGTERM or SIGINT
    makes readiness red, new work is answered 503 with Retry-After, and every answer is the last of its
    connection. When what was running is done, or the timeout is over, nobody can connect any more, and those
    who have get `FAREWELL_S` to hear their answer. Then the server stops, and uvicorn cancels what is left. A
    second signal stops it at once. The exit code is 0 either way.

    A client that stops reading would hold its connection, and the answer in it, for as long as it likes: TCP
    waits for ever on a peer that acknowledges and takes nothing. So the kernel resets a connection whose data
    has not been taken for `send_timeout_s`, and the handler then sees a client that left. Where the system
    knows no such option, an `EventStream` still ends its work.

    Args:
        app: What is served; its admission is closed.
        drain_timeout_s: How long running work may take.
        send_timeout_s: How long a client may take in nothing of what was sent.
        between_s: How long a connection may be between requests.
        listen: Where, as `uvicorn.Config` has it.
    """

    def __init__(
        self,
        app: FastAPI,
        *,
        drain_timeout_s: float,
        send_timeout_s: float,
        between_s: float = BETWEEN_S,
        **listen: Any,
    ) -> None:
        config = uvicorn.Config(
            self._serve_last,
            interface="asgi3",
            http=partial(Connection, between_s=between_s),  # type: ignore[arg-type]  # called, and nothing else
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=CLEAN_UP_S,
            **listen,
        )
        super().__init__(config)
        self._send_timeout_s = send_timeout_s
        self._app = app
        self._drain_timeout_s = drain_timeout_s
        self._drain_until_s: float | None = None
        self._farewell_until_s: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        for listening in self._listening:
            reset_unread(listening, self._send_timeout_s)

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
        if self._drain_until_s is not None:
            self._come_to_an_end(self._drain_until_s)
        return await super().on_tick(counter)

    def _come_to_an_end(self, drain_until_s: float) -> None:
        """Go one step further, if it is time."""
        admission, now_s = self._admission, time.monotonic()
        assert admission is not None, "it drains"
        if self._farewell_until_s is None:
            if not admission.active or now_s >= drain_until_s:
                log.info("drained", aborted_requests=admission.active)
                self._farewell_until_s = now_s + FAREWELL_S
                for listening in self._listening:
                    refuse_connections(listening)
        elif self._listening:  # since the last step all have been accepted
            for server in self.servers:
                server.close()
        elif now_s >= self._farewell_until_s or not self._unheard:
            self.should_exit = True

    async def _serve_last(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The app; while the server drains, with answers after which a connection ends."""

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and self._drain_until_s is not None:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, told)

    @property
    def _listening(self) -> list[socket.socket]:
        return [listening for server in self.servers for listening in server.sockets]

    @property
    def _unheard(self) -> bool:
        connections = self.server_state.connections
        return any(isinstance(connection, Connection) and connection.unheard for connection in connections)

    @property
    def _admission(self) -> Admission | None:
        """The app's, once it has started."""
        services = getattr(self._app.state, "services", None)
        return None if services is None else services.admission
