"""Whether we live, whether new work is welcome, and what we count. Answered from memory, at once."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from stentor.api.services import services_of

probes = APIRouter()
scrapes = APIRouter()

_RED: dict[int | str, dict[str, Any]] = {
    503: {"description": "Red; `status` says why.", "content": {"application/json": {"schema": {}}}}
}


@probes.get("/health", summary="Same as /health/live", responses=_RED)
@probes.get("/health/live", summary="503 when the engine is dead: restart this process", responses=_RED)
async def live(request: Request) -> Response:
    """Red only when nothing but a restart helps; a busy server is alive."""
    health = services_of(request).engine.health()
    if not health.alive:
        return JSONResponse({"status": "dead", "reason": health.reason}, 503)
    return JSONResponse({"status": "ok"})


@probes.get("/health/ready", summary="503 when new work is not welcome now", responses=_RED)
async def ready(request: Request) -> Response:
    """Red while draining, full, or dead: send new work elsewhere."""
    services = services_of(request)
    if not services.engine.health().alive:
        return JSONResponse({"status": "dead"}, 503)
    if services.admission.draining:
        return JSONResponse({"status": "draining"}, 503)
    if not services.admission.open:
        return JSONResponse({"status": "full"}, 503)
    return JSONResponse({"status": "ready"})


@scrapes.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """All series in Prometheus' text format."""
    return Response(generate_latest(services_of(request).metrics.registry), media_type=CONTENT_TYPE_LATEST)
