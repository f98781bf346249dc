"""Counters that add up: received = finished + failed + cancelled + rejected, by endpoint and reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stentor.errors import ClientDisconnected, Draining, Overloaded, StentorError

STEP_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
LATENCY_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The series of one server, in a registry of its own so that two servers in a process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._received = Counter(
            "stentor_requests_received", "Requests that came in.", ["endpoint"], registry=self.registry
        )
        self._ended = Counter(
            "stentor_requests_ended",
            "Requests by how they ended: finished, failed, cancelled or rejected, and why.",
            ["endpoint", "outcome", "reason"],
            registry=self.registry,
        )
        self._active = Gauge(
            "stentor_requests_active", "Requests between received and ended.", registry=self.registry
        )
        self._latency = Histogram(
            "stentor_request_seconds",
            "Wall time of finished requests, upload included.",
            ["endpoint"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self._audio_seconds = Counter(
            "stentor_audio_seconds",
            "Audio by how far it came: decoded, or transcribed.",
            ["stage"],
            registry=self.registry,
        )
        self._audio_files = Counter(
            "stentor_audio_files", "Files by what their content was.", ["format"], registry=self.registry
        )
        self._damaged = Counter(
            "stentor_audio_damaged", "Files of which a part could not be decoded.", registry=self.registry
        )
        self._step = Histogram(
            "stentor_preprocess_step_seconds",
            "Thread time of one audio step: decoding, resampling and cutting one chunk.",
            buckets=STEP_BUCKETS_S,
            registry=self.registry,
        )

    def watch(self, name: str, documentation: str, reading: Callable[[], float]) -> None:
        """Export a gauge that is read at each scrape."""
        Gauge(name, documentation, registry=self.registry).set_function(reading)

    def step(self, seconds: float) -> None:
        """Count one audio step."""
        self._step.observe(seconds)

    def decoded(self, audio_s: float) -> None:
        """Count audio that was decoded for an engine."""
        self._audio_seconds.labels("decoded").inc(audio_s)

    def transcribed(self, audio_s: float) -> None:
        """Count audio that was transcribed to its end."""
        self._audio_seconds.labels("transcribed").inc(audio_s)

    def read(self, audio_format: str | None, damage: str | None) -> None:
        """Count a file that was read, or could not be: its format is None then."""
        self._audio_files.labels(audio_format or "unknown").inc()
        if damage is not None:
            self._damaged.inc()

    @contextmanager
    def request(self, endpoint: str) -> Iterator[None]:
        """Keep the books of one request: whatever happens inside, it ends in exactly one way."""
        self._received.labels(endpoint).inc()
        began_s = time.perf_counter()
        outcome, reason = "failed", "internal_error"
        try:
            with self._active.track_inprogress():
                yield
            outcome, reason = "finished", "ok"
            self._latency.labels(endpoint).observe(time.perf_counter() - began_s)
        except asyncio.CancelledError:
            outcome, reason = "cancelled", "shutdown"
            raise
        except StentorError as error:
            outcome, reason = _outcome(error), error.code
            raise
        finally:
            self._ended.labels(endpoint, outcome, reason).inc()


def _outcome(error: StentorError) -> str:
    if isinstance(error, ClientDisconnected):
        return "cancelled"
    if isinstance(error, (Overloaded, Draining)):
        return "rejected"
    return "failed"
