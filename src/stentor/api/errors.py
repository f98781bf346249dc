"""Every error as OpenAI's clients expect it: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stentor.api.wire import ErrorBody, ErrorDetail
from stentor.errors import ClientDisconnected, Draining, StentorError

log = structlog.get_logger()

CODES = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}
"""Words for statuses that the web framework raises by itself."""


def install_error_handlers(app: FastAPI) -> None:
    """Let every failure of this app, also the framework's own, answer in OpenAI's shape."""
    app.add_exception_handler(StentorError, _stentor_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


def error_response(error: StentorError) -> Response:
    """The answer that an error of ours stands for."""
    headers = {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
        headers["retry-after-ms"] = str(
            math.ceil(error.retry_after_s * 1000)
        )  # finer; OpenAI's client reads it
    return Response(error_body(error).model_dump_json(), error.status, headers, media_type="application/json")


def error_body(error: StentorError) -> ErrorBody:
    """The body that an error of ours stands for, also in the middle of a stream."""
    return ErrorBody(
        error=ErrorDetail(message=error.message, type=error.type, param=error.param, code=error.code)
    )


class LastResort:
    """Answers 500 for what nobody expected.

    A handler for `Exception` would be called by the framework's outermost layer, where the answer gets no
    request id and no CORS headers, and would still leave the error to the server to print once more.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http" or started:
                raise
            log.error("unexpected error", exc_info=error)
            response = _response(
                500, "the server met an error of its own", "server_error", "internal_error", None
            )
            await response(scope, receive, send)


async def _stentor_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StentorError)
    if error.status >= 500 and not isinstance(error, Draining):
        log.error("request failed", code=error.code, error=error.message)
    elif not isinstance(error, ClientDisconnected):
        log.info("request refused", code=error.code, param=error.param, error=error.message)
    return error_response(error)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1]) if first.get("loc") else None
    return _response(400, f"{param}: {first['msg']}", "invalid_request_error", "invalid_value", param)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    message = f"{error.detail}: {request.method} {request.url.path}"
    return _response(error.status_code, message, kind, CODES.get(error.status_code), None, error.headers)


def _response(
    status: int,
    message: str,
    kind: str,
    code: str | None,
    param: str | None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = ErrorBody(error=ErrorDetail(message=message, type=kind, param=param, code=code))
    return Response(body.model_dump_json(), status, headers, media_type="application/json")
