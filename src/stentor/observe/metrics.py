"""Counters that add up: received = finished + failed + cancelled + rejected, by endpoint and reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stentor.errors import ClientDisconnected, Draining, Overloaded, StentorError

log = structlog.get_logger()

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
        self._stages = Gauge(
            "stentor_requests", "Requests under way, by where they are.", ["stage"], registry=self.registry
        )
        self._cancelled = Counter(
            "stentor_requests_cancelled",
            "Cancelled requests by the stage they had reached.",
            ["stage"],
            registry=self.registry,
        )
        self._aborted = Counter(
            "stentor_engine_aborts", "Engine requests aborted.", ["stage"], registry=self.registry
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
        self._unauthorized = Counter(
            "stentor_unauthorized", "Requests without a known API key.", registry=self.registry
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

    def unauthorized(self) -> None:
        """Count a request that was turned away for its API key, before it was looked at."""
        self._unauthorized.inc()

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

    def aborted(self, stage: str) -> None:
        """Count an engine request that was aborted: a `chunk`, or the language `probe`."""
        self._aborted.labels(stage).inc()

    @contextmanager
    def request(self, endpoint: str) -> Iterator[Entry]:
        """Keep the books of one request: whatever happens inside, it ends in exactly one way."""
        entry = Entry(self._stages)
        self._received.labels(endpoint).inc()
        began_s = time.perf_counter()
        outcome, reason = "failed", "internal_error"
        try:
            yield entry
            outcome, reason = "finished", "ok"
        except asyncio.CancelledError:
            outcome, reason = "cancelled", "shutdown"
            raise
        except StentorError as error:
            outcome, reason = _outcome(error), error.code
            raise
        finally:
            seconds = time.perf_counter() - began_s
            stage, entry.stage = entry.stage, None
            self._ended.labels(endpoint, outcome, reason).inc()
            if outcome == "finished":
                self._latency.labels(endpoint).observe(seconds)
            if outcome == "cancelled":
                self._cancelled.labels(stage or "admission").inc()
            log.info(
                "request",
                endpoint=endpoint,
                outcome=outcome,
                reason=reason,
                stage=stage,
                seconds=round(seconds, 3),
            )


class Entry:
    """A request in the books: where it is now."""

    def __init__(self, stages: Gauge) -> None:
        self._stages = stages
        self._stage: str | None = None

    @property
    def stage(self) -> str | None:
        return self._stage

    @stage.setter
    def stage(self, stage: str | None) -> None:
        if self._stage is not None:
            self._stages.labels(self._stage).dec()
        if stage is not None:
            self._stages.labels(stage).inc()
        self._stage = stage


def _outcome(error: StentorError) -> str:
    if isinstance(error, ClientDisconnected):
        return "cancelled"
    if isinstance(error, (Overloaded, Draining)):
        return "rejected"
    return "failed"
