"""A trace for every call of the API, as part of the caller's own where it sends one along."""

from __future__ import annotations

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stentor.observe.tracing import begin_call

TRACED = "/v1/"
"""Probes and scrapes come every few seconds and would bury what matters."""


class Traces:
    """Begins and ends the span of each call, and puts its trace's id into the logs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(TRACED):
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]

        async def send_noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The route's pattern, where there is one: as many names of spans as there are routes.
                span.answered(f"{method} {getattr(scope.get('route'), 'path', TRACED)}", message["status"])
            await send(message)

        with begin_call(method, path, Headers(scope=scope)) as span:
            span.note(request_id=scope["state"]["request_id"])
            with structlog.contextvars.bound_contextvars(trace_id=span.trace_id):
                await self._app(scope, receive, send_noting)
