"""Counters that add up: received = finished + failed + cancelled + rejected, by endpoint and reason."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from stentor.errors import ClientDisconnected, Draining, Overloaded, StentorError
from stentor.observe.tracing import begin
from stentor.types import EngineReport

log = structlog.get_logger()

STEP_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
LATENCY_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
LATEST = 20
"""Finished requests over which the pace is told."""

RTFX_BUCKETS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

M = TypeVar("M", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class Series:
    """A metric as docs/metrics.md shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    documentation: str


class Metrics:
    """The series of one server, in a registry of its own so that two servers in a process do not mix.

    Attributes:
        registry: What a scrape reads.
        series: All that were declared, in order; the process's own (`process_…`) come besides.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.series: list[Series] = []
        self._latest: deque[tuple[float, float]] = deque(maxlen=LATEST)
        ProcessCollector(registry=self.registry)
        self._received = self._new(Counter, "requests_received", "Requests that came in.", "endpoint")
        self._ended = self._new(
            Counter,
            "requests_ended",
            "Requests by how they ended: finished, failed, cancelled or rejected, and why.",
            "endpoint",
            "outcome",
            "reason",
        )
        self._unauthorized = self._new(
            Counter, "unauthorized", "Requests without a known API key; not in the books of the others."
        )
        self._stages = self._new(Gauge, "requests", "Requests under way, by where they are.", "stage")
        self._stage_seconds = self._new(
            Histogram,
            "request_stage_seconds",
            "Wall time of a request at a stage, however it ended.",
            "stage",
            buckets=LATENCY_BUCKETS_S,
        )
        self._cancelled = self._new(
            Counter, "requests_cancelled", "Cancelled requests by the stage they had reached.", "stage"
        )
        self._latency = self._new(
            Histogram,
            "request_seconds",
            "Wall time of finished requests, upload included.",
            "endpoint",
            buckets=LATENCY_BUCKETS_S,
        )
        self._first_part = self._new(
            Histogram,
            "first_part_seconds",
            "Wall time from a finished request's first byte until its first text was final.",
            "endpoint",
            buckets=LATENCY_BUCKETS_S,
        )
        self._rtfx = self._new(
            Histogram,
            "request_rtfx",
            "Audio seconds per wall second of finished requests, upload included.",
            "endpoint",
            buckets=RTFX_BUCKETS,
        )
        self._tokens = self._new(Counter, "tokens", "Tokens of text in finished transcripts.", "endpoint")
        self._audio_seconds = self._new(
            Counter, "audio_seconds", "Audio by how far it came: decoded, or transcribed.", "stage"
        )
        self._audio_files = self._new(Counter, "audio_files", "Files by what their content was.", "format")
        self._damaged = self._new(Counter, "audio_damaged", "Files of which a part could not be decoded.")
        self._left_out = self._new(
            Counter, "vad_removed_seconds", "Audio that voice activity detection kept from the engine."
        )
        self._step = self._new(
            Histogram,
            "preprocess_step_seconds",
            "Thread time of one audio step: decoding, resampling and cutting one chunk.",
            buckets=STEP_BUCKETS_S,
        )
        self._chunk = self._new(
            Histogram,
            "chunk_seconds",
            "Wall time of answered engine requests, a chunk or a language probe: queue and engine together.",
            "stage",
            buckets=LATENCY_BUCKETS_S,
        )
        self._queued = self._new(
            Histogram,
            "engine_queue_seconds",
            "Time that an engine request, also one without an answer, waited for slots.",
            "stage",
            buckets=LATENCY_BUCKETS_S,
        )
        self._computed = self._new(
            Histogram,
            "engine_compute_seconds",
            "Time that an engine request, also one without an answer, held slots.",
            "stage",
            buckets=LATENCY_BUCKETS_S,
        )
        self._aborted = self._new(Counter, "engine_aborts", "Engine requests aborted.", "stage")
        self._fallbacks = self._new(
            Counter, "fallbacks", "Windows heard again at a higher temperature, and why.", "reason"
        )

    @property
    def rtfx(self) -> float | None:
        """Audio seconds per wall second of the `LATEST` finished requests; None before the first."""
        if not self._latest:
            return None
        return sum(audio_s for audio_s, _ in self._latest) / sum(wall_s for _, wall_s in self._latest)

    def _new(self, kind: type[M], name: str, documentation: str, *labels: str, **more: Any) -> M:
        """Declare a series."""
        exported = f"stentor_{name}_total" if kind is Counter else f"stentor_{name}"
        self.series.append(Series(exported, kind.__name__.lower(), labels, documentation))
        return kind(f"stentor_{name}", documentation, labels, registry=self.registry, **more)

    def build(self, **labels: str) -> None:
        """Export what is served, as labels of a series that is always 1."""
        self._new(Gauge, "build_info", "Always 1; what is served.", *labels).labels(**labels).set(1)

    def watch(self, name: str, documentation: str, reading: Callable[[], float]) -> None:
        """Export a gauge that is read at each scrape."""
        self._new(Gauge, name, documentation).set_function(reading)

    def unauthorized(self) -> None:
        """Count a request that was turned away for its API key, before it was looked at."""
        self._unauthorized.inc()

    def step(self, seconds: float) -> None:
        """Count one audio step."""
        self._step.observe(seconds)

    def decoded(self, audio_s: float) -> None:
        """Count audio that was decoded for an engine."""
        self._audio_seconds.labels("decoded").inc(audio_s)

    def left_out(self, audio_s: float) -> None:
        """Count audio in which nobody spoke."""
        self._left_out.inc(audio_s)

    def read(self, audio_format: str | None, damage: str | None) -> None:
        """Count a file that was read, or could not be: its format is None then."""
        self._audio_files.labels(audio_format or "unknown").inc()
        if damage is not None:
            self._damaged.inc()

    def aborted(self, stage: str) -> None:
        """Count an engine request that was aborted: a `chunk`, or the language `probe`."""
        self._aborted.labels(stage).inc()

    def engine(self, stage: str, report: EngineReport) -> None:
        """Count what an engine did for a chunk or a probe, answered or not."""
        self._queued.labels(stage).observe(report.queued_s)
        self._computed.labels(stage).observe(report.computed_s)
        for reason in report.fallbacks:
            self._fallbacks.labels(reason).inc()

    def answered(self, stage: str, seconds: float) -> None:
        """Count an engine request that was answered, and how long that took."""
        self._chunk.labels(stage).observe(seconds)

    @contextmanager
    def request(self, endpoint: str) -> Iterator[Entry]:
        """Keep the books of one request: whatever happens inside, it ends in exactly one way."""
        entry = Entry(self._stages, self._stage_seconds)
        self._received.labels(endpoint).inc()
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
            stage = entry.close(None if outcome == "finished" else reason)
            self._ended.labels(endpoint, outcome, reason).inc()
            if outcome == "finished":
                self._finished(endpoint, entry)
            if outcome == "cancelled":
                self._cancelled.labels(stage).inc()
            log.info(
                "request",
                endpoint=endpoint,
                outcome=outcome,
                reason=reason,
                stage=stage,
                audio_s=round(entry.audio_s, 3),
                seconds=round(entry.seconds, 3),
            )

    def _finished(self, endpoint: str, entry: Entry) -> None:
        self._latest.append((entry.audio_s, entry.seconds))
        self._latency.labels(endpoint).observe(entry.seconds)
        self._audio_seconds.labels("transcribed").inc(entry.audio_s)
        self._tokens.labels(endpoint).inc(entry.tokens)
        self._rtfx.labels(endpoint).observe(entry.audio_s / entry.seconds)
        if entry.first_part_s is not None:
            self._first_part.labels(endpoint).observe(entry.first_part_s)


class Entry:
    """A request in the books, and in its trace a span for each stage.

    Attributes:
        audio_s: Length of its audio, once it has been transcribed.
        tokens: How many were written, likewise.
        first_part_s: When its first text was final, in seconds since it began.
    """

    def __init__(self, stages: Gauge, stage_seconds: Histogram) -> None:
        self._stages = stages
        self._stage_seconds = stage_seconds
        self._began_s = time.perf_counter()
        self._enter("admission")
        self.audio_s = 0.0
        self.tokens = 0
        self.first_part_s: float | None = None

    @property
    def stage(self) -> str:
        """Where it is now: in admission, uploading, transcribing or answering."""
        return self._stage

    @stage.setter
    def stage(self, stage: str) -> None:
        self.close()
        self._enter(stage)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began_s

    def wrote(self) -> None:
        """Note that some text is final."""
        if self.first_part_s is None:
            self.first_part_s = self.seconds

    def close(self, error: str | None = None) -> str:
        """Leave the last stage, and tell which it was; `error` is why it was left, where not for the next."""
        self._stages.labels(self._stage).dec()
        self._stage_seconds.labels(self._stage).observe(time.perf_counter() - self._entered_s)
        self._span.end(error)
        return self._stage

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._entered_s = time.perf_counter()
        self._span = begin(stage)
        self._stages.labels(stage).inc()


def _outcome(error: StentorError) -> str:
    if isinstance(error, ClientDisconnected):
        return "cancelled"
    if isinstance(error, (Overloaded, Draining)):
        return "rejected"
    return "failed"
