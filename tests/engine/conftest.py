"""The speech that every Whisper engine is given."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile
import soxr

from stentor.types import SAMPLE_RATE, Samples


@pytest.fixture(scope="module")
def opening(two_cities: Path) -> Samples:
    """As far as "the winter of despair", 21.3 s."""
    audio, rate = soundfile.read(two_cities, dtype="float32")
    resampled: Samples = soxr.resample(audio, rate, SAMPLE_RATE)
    return resampled[: round(21.3 * SAMPLE_RATE)]
