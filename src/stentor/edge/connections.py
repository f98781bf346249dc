"""A client's connection: how long it may be between requests, and how it ends.

uvicorn waits for ever for the rest of a request's head. And it closes a connection as soon as the answer is
sent, also one on which an upload still comes: what is unread at a close makes the system reset the
connection, and the client loses the very answer that refuses its upload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

BETWEEN_S = 30.0
"""For the head of the first request, and from an answer to the end of the next request's head; in the latter,
for the rest of an upload that was refused. uvicorn itself ends a connection that is silent there after 5 s.
Source: nginx, lingering_time."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection, bounded where neither uvicorn nor the app bounds it.

    Args:
        between_s: See `BETWEEN_S`.
        given: uvicorn's.
    """

    def __init__(self, *, between_s: float = BETWEEN_S, **given: Any) -> None:
        super().__init__(**given)
        self._between_s = between_s
        self._deadline: asyncio.TimerHandle | None = None
        self._receiving = False

    @property
    def unheard(self) -> bool:
        """Whether the client has said nothing yet, or not all: it has no answer, or cannot read it yet."""
        return self._receiving or self.cycle is None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        self._transport = transport
        super().connection_made(cast(asyncio.Transport, LingeringTransport(transport, self._is_refused)))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():  # what comes while it lingers is nobody's
            super().data_received(data)

    def on_message_begin(self) -> None:
        self._receiving = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._forget_deadline()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._receiving = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # else the next request has come already
            self._await_head()

    def _is_refused(self) -> bool:
        """Whether a request has its answer and still comes."""
        return self._receiving and bool(self.cycle) and self.cycle.response_complete

    def _await_head(self) -> None:
        self._forget_deadline()
        self._deadline = self.loop.call_later(self._between_s, self._transport.close)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


class LingeringTransport:
    """A transport that, closed while its peer sends, says so and reads on until the peer has closed as well.

    Source: RFC 9112, 9.6. Somebody else must bound it.

    Args:
        transport: The connection's.
        lingers: Asked at a close, whether the peer still sends.
    """

    def __init__(self, transport: asyncio.Transport, lingers: Callable[[], bool]) -> None:
        self._transport = transport
        self._lingers = lingers
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if not self._lingers():
            self._transport.close()
            return
        self._closed = True
        self._transport.write_eof()
        self._transport.resume_reading()
