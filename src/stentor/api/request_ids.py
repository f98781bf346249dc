"""Request ids: the caller's own where it sends one, else ours; in every answer and every log line."""

from __future__ import annotations

import re
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
"""OpenAI's clients report it as `request_id` with answers and errors."""

SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
"""What we take from a caller: UUIDs, ULIDs, trace ids, base64; nothing that could break a line of a log."""


class RequestIds:
    """Gives every request its id, in the logs and as the header `x-request-id`.

    A caller may send its own; one that is not sane is passed over, as it is no reason to refuse the work.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        made = f"req_{uuid4().hex}"
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if SANE.fullmatch(given) else made
        # Callers may send one id with many calls at once, of which each must abort its own work only.
        unique_id = made if request_id is made else f"{request_id}~{uuid4().hex}"
        scope.setdefault("state", {}).update(request_id=request_id, unique_id=unique_id)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, receive, send_with_id)


def unique_id_of(request: HTTPConnection) -> str:
    """The id of a call that no other has: what the caller knows it by, and more where that was its own."""
    unique_id: str = request.state.unique_id
    return unique_id
