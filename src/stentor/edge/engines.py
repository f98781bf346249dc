"""The engine that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stentor.config import Settings
from stentor.engine.base import Engine
from stentor.engine.choice import load_engine
from stentor.models import resolve, resolve_repository


def engine_of(settings: Settings) -> Callable[[], Engine]:
    """Find the model, and return what loads it into an engine.

    Raises:
        ModelError: The model cannot be had. What is returned raises it where no engine can load the model.
    """
    find = resolve_repository if settings.engine == "vllm" else resolve
    return partial(
        load_engine,
        find(settings.model, cache_dir=settings.cache_dir),
        name=settings.engine,
        slots=settings.resolved_engine_slots,
        device=settings.device,
        max_batch=settings.max_batch,
        compute_type=settings.compute_type,
        beam_size=settings.beam_size,
        vllm_args=settings.vllm_args,
    )
