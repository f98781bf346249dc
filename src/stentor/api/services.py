"""What the routes share while the server lives."""

from __future__ import annotations

import time
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from stentor import __version__
from stentor.admission import Admission, Budgets
from stentor.audio.reader import ReaderLimits
from stentor.config import Settings
from stentor.engine.base import Engine
from stentor.observe.metrics import Metrics
from stentor.preprocess import PreprocessPool
from stentor.transcriber import Transcriber


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that lives as long as the server, in `app.state.services`."""

    settings: Settings
    engine: Engine
    pool: PreprocessPool
    transcriber: Transcriber
    admission: Admission
    metrics: Metrics
    started_at: int

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names under which the model answers, its own first."""
        return tuple(dict.fromkeys((self.engine.info.model, *self.settings.served_model_names)))


def make_services(settings: Settings, engine: Engine, pool: PreprocessPool) -> Services:
    """Connect the rooms."""
    limits = ReaderLimits(max_audio_s=settings.max_audio_s)
    metrics = Metrics()
    metrics.build(version=__version__, engine=engine.info.engine, model=engine.info.model)
    metrics.watch("engine_running", "Chunks in the engine.", lambda: engine.health().running)
    metrics.watch("engine_queued", "Chunks waiting for it.", lambda: engine.health().queued)
    metrics.watch("engine_alive", "1 while the engine can answer.", lambda: engine.health().alive)
    metrics.watch("preprocess_running", "Audio steps in threads.", lambda: pool.running)
    metrics.watch("preprocess_waiting", "Audio steps waiting.", lambda: pool.waiting)
    pool.on_step = metrics.step
    admission = Admission(
        Budgets(settings.max_requests, settings.max_queued_audio_s, settings.max_stored_bytes)
    )
    metrics.watch("requests_active", "Requests admitted.", lambda: admission.active)
    metrics.watch("queued_audio_seconds", "Audio to be transcribed.", lambda: admission.queued_audio_s)
    metrics.watch("stored_bytes", "Uploads on disk.", lambda: admission.stored_bytes)
    return Services(
        settings=settings,
        engine=engine,
        pool=pool,
        transcriber=Transcriber(engine, pool, limits, metrics=metrics),
        admission=admission,
        metrics=metrics,
        started_at=int(time.time()),
    )


def services_of(request: HTTPConnection) -> Services:
    """The services of the app that answers this request."""
    services: Services = request.app.state.services
    return services
