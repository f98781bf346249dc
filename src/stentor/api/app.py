"""The server: settings in, an ASGI app out. Everything that lives as long as the server is made here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware

from stentor import __version__
from stentor.api import health, transcriptions
from stentor.api.errors import LastResort, install_error_handlers
from stentor.api.housekeeping import return_memory_when_idle
from stentor.api.keys import ApiKeys
from stentor.api.page import page_router
from stentor.api.request_ids import HEADER, RequestIds
from stentor.api.services import make_services
from stentor.api.traces import Traces
from stentor.config import Settings
from stentor.engine.base import Engine
from stentor.observe.tracing import start_tracing
from stentor.preprocess import PreprocessPool

log = structlog.get_logger()

EXPOSED_HEADERS = (HEADER, "retry-after", "retry-after-ms")
"""What scripts of other origins may read of an answer."""


def create_app(settings: Settings, make_engine: Callable[[], Engine]) -> FastAPI:
    """Build the server.

    Args:
        settings: All knobs.
        make_engine: Loads the engine; called in a thread when the server starts, as it may take seconds.
    """
    end_tracing = start_tracing() if settings.tracing else None

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
            if end_tracing is not None:
                await asyncio.to_thread(end_tracing)

    app = FastAPI(
        title="Stentor",
        version=__version__,
        summary="Speech to text for many callers at once, with OpenAI's API.",
        lifespan=lifespan,
    )
    install_error_handlers(app)
    app.add_middleware(LastResort)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
    if settings.tracing:
        app.add_middleware(Traces)
    app.add_middleware(RequestIds)  # last: it is the outermost
    keys = [Depends(ApiKeys(settings.known_api_keys))] if settings.known_api_keys else []
    app.include_router(transcriptions.router, dependencies=keys)
    app.include_router(health.probes, dependencies=[] if "health" in settings.keyless else keys)
    app.include_router(health.scrapes, dependencies=[] if "metrics" in settings.keyless else keys)
    if settings.page:
        app.include_router(page_router())  # holds nothing: what it asks for is behind the keys
    return app
