"""Stentor's C++ engine: Whisper with continuous batching on AMX and AVX-512 BF16.

    available, reason = stentor_native.supported()
    weights = stentor_native.open_weights(directory)
    engine = stentor_native.make_engine(weights, vocabulary, max_batch=16)
    engine.submit(1, mel=mel, prompt=[50257])
    for event in engine.events(timeout_s=1.0): ...

It imports on any x86-64; whether it runs is asked at run time.
"""

from __future__ import annotations

from stentor_native._native import (
    EncodedAudio,
    Engine,
    Event,
    Vocabulary,
    backend,
    measure_limits,
    usable_processors,
)
from stentor_native.loading import make_engine, supported
from stentor_native.weights import Weights, WeightsError, open_weights

__all__ = [
    "EncodedAudio",
    "Engine",
    "Event",
    "Vocabulary",
    "Weights",
    "WeightsError",
    "backend",
    "make_engine",
    "measure_limits",
    "open_weights",
    "supported",
    "usable_processors",
]
