"""The server: settings in, an ASGI app out. Everything that lives as long as the server is made here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import structlog
from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stentor import __version__
from stentor.api import health, transcriptions
from stentor.api.errors import install_error_handlers
from stentor.api.housekeeping import return_memory_when_idle
from stentor.api.services import make_services
from stentor.config import Settings
from stentor.engine.base import Engine
from stentor.preprocess import PreprocessPool

log = structlog.get_logger()


def create_app(settings: Settings, make_engine: Callable[[], Engine]) -> FastAPI:
    """Build the server.

    Args:
        settings: All knobs.
        make_engine: Loads the engine; called in a thread when the server starts, as it may take seconds.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = await asyncio.to_thread(make_engine)
        pool = PreprocessPool(settings.resolved_preprocess_workers)
        services = make_services(settings, engine, pool)
        app.state.services = services
        log.info("ready", engine=engine.info.engine, model=engine.info.model, slots=engine.info.slots)
        housekeeping = asyncio.create_task(return_memory_when_idle(services.admission))
        try:
            yield
        finally:
            housekeeping.cancel()
            services.admission.draining = True
            # uvicorn may begin this while cancelled handlers still clean up: the engine aborts all by itself.
            await engine.close()
            await asyncio.to_thread(pool.close)

    app = FastAPI(
        title="Stentor",
        version=__version__,
        summary="Speech to text for many callers at once, with OpenAI's API.",
        lifespan=lifespan,
    )
    app.add_middleware(RequestId)
    install_error_handlers(app)
    app.include_router(transcriptions.router)
    app.include_router(health.router)
    return app


class RequestId:
    """Gives every request an id of ours, in the logs and as `x-request-id`, which clients report back."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, receive, send_with_id)
