"""Whether we live, whether new work is welcome, and what we count. Answered from memory, at once."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.responses import JSONResponse, PlainTextResponse, Response

from stentor import __version__
from stentor.api.description import error_responses
from stentor.api.services import Services, services_of

probes = APIRouter()
scrapes = APIRouter()

State = Literal["ready", "full", "draining", "dead"]

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
    state = _state(services_of(request))
    return JSONResponse({"status": state}, 200 if state == "ready" else 503)


@scrapes.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """All series in Prometheus' text format."""
    return Response(generate_latest(services_of(request).metrics.registry), media_type=CONTENT_TYPE_LATEST)


class StatusJson(BaseModel):
    """What is served, and how busy the server is.

    Attributes:
        version: Stentor's.
        engine: What computes: native, ctranslate2, vllm.
        digest: SHA-256 of the model's weights; null where the engine fetches them by itself.
        languages: Codes of those that the model knows.
        translates: Whether it can write English whatever is spoken.
        requests: How many are under way.
        queued_audio_s: Audio that they have and that is not transcribed yet, in seconds.
        rtfx: Audio seconds per wall second of the latest finished requests; null before the first.
    """

    status: State
    version: str
    engine: str
    model: str
    digest: str | None
    languages: tuple[str, ...]
    translates: bool
    requests: int
    queued_audio_s: float
    rtfx: float | None


@scrapes.get("/status", summary="What is served and how busy it is", responses=error_responses(401))
async def status(request: Request) -> StatusJson:
    """What the page at `/` shows of the server."""
    services = services_of(request)
    info, admission, rtfx = services.engine.info, services.admission, services.metrics.rtfx
    return StatusJson(
        status=_state(services),
        version=__version__,
        engine=info.engine,
        model=info.model,
        digest=info.digest or None,
        languages=info.languages,
        translates=info.translates,
        requests=admission.active,
        queued_audio_s=round(admission.queued_audio_s, 1),
        rtfx=None if rtfx is None else round(rtfx, 1),
    )


def _state(services: Services) -> State:
    if not services.engine.health().alive:
        return "dead"
    if services.admission.draining:
        return "draining"
    return "ready" if services.admission.open else "full"
