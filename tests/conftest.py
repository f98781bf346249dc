"""Fixtures that all tests share: real speech, models, small audio."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineRequest, Samples
from support.audio import packaged_speech

collect_ignore = [] if find_spec("ray") else ["scale"]
"""`make ray` runs them, in an environment of its own."""

TWO_CITIES_WORDS = (
    "it was the best of times it was the worst of times it was the age of wisdom it was the age of "
    "foolishness it was the epoch of belief it was the epoch of incredulity it was the season of light "
    "it was the season of darkness it was the spring of hope it was the winter of despair"
)


@pytest.fixture(scope="session")
def two_cities() -> Path:
    """44 s of real speech at 48 kHz: the opening of A Tale of Two Cities."""
    return packaged_speech() / "two_cities.wav"


@pytest.fixture
def make_request() -> Callable[..., EngineRequest]:
    """Builds engine requests over given samples, or over a second of quiet noise."""

    def make(
        engine_id: str, samples: Samples | None = None, *, request_id: str | None = None, **options: object
    ) -> EngineRequest:
        if samples is None:
            samples = np.full(SAMPLE_RATE, 0.01, np.float32)
        chunk = Chunk(0, 0, samples, last=True)
        return EngineRequest(engine_id, request_id or engine_id, chunk, DecodeOptions(**options))  # type: ignore[arg-type]

    return make
