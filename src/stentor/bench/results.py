"""What a measurement found: figures without the means that got them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stentor.bench.manifest import Utterance


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles by nearest rank: each is a value that was measured."""

    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Latency | None:
        """Rank what was measured; None when nothing was."""
        ranked = sorted(seconds)
        if not ranked:
            return None
        p50_s, p95_s, p99_s = (ranked[math.ceil(len(ranked) * percent / 100) - 1] for percent in (50, 95, 99))
        return cls(p50_s, p95_s, p99_s, ranked[-1])


@dataclass(frozen=True, slots=True)
class HealthFigures:
    """How the liveness probe fared. `latency` is that of good answers only; the others are `failures`."""

    probes: int
    failures: int
    latency: Latency | None


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """What the server's pid tree used. Pages shared between its members count once for each of them."""

    cpu_s: float
    peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class RequestResult:
    """One utterance's answer.

    `status` is None when no answer came, or none was due (no HTTP). `first_delta_s` is when the first text
    was there; None where nobody looked. `streamed` says whether it came piece by piece.
    """

    utterance: Utterance
    status: int | None
    latency_s: float
    text: str | None = None
    error: str | None = None
    first_delta_s: float | None = None
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class LevelResult:
    """Every utterance sent once with `concurrency` of them in flight.

    Rates and latencies are those of transcribed utterances. A refusal is quick, it must not flatter them.
    `stages` are the seconds that the server spent at each stage, all requests together; None where it does
    not say.
    """

    concurrency: int
    requests: tuple[RequestResult, ...]
    wall_s: float
    health: HealthFigures | None = None
    server: ServerFigures | None = None
    stages: Mapping[str, float] | None = None

    @property
    def transcribed(self) -> tuple[RequestResult, ...]:
        return tuple(request for request in self.requests if request.error is None)

    @property
    def errors(self) -> dict[str, int]:
        """How many requests failed, by status; "none" is for those that got no answer."""
        failed = (request for request in self.requests if request.error is not None)
        return dict(Counter("none" if request.status is None else str(request.status) for request in failed))

    @property
    def audio_s(self) -> float:
        """Seconds of audio transcribed. Files of unknown length count nothing, so RTFx errs downwards."""
        return sum(request.utterance.seconds or 0.0 for request in self.transcribed)

    @property
    def rtfx(self) -> float:
        return self.audio_s / self.wall_s

    @property
    def requests_per_s(self) -> float:
        return len(self.transcribed) / self.wall_s

    @property
    def latency(self) -> Latency | None:
        return Latency.of(request.latency_s for request in self.transcribed)

    @property
    def first_delta(self) -> Latency | None:
        """When the first text was there; an answer that came in one piece counts with its latency."""
        seconds = (request.first_delta_s for request in self.transcribed)
        return Latency.of(first_s for first_s in seconds if first_s is not None)

    @property
    def streamed(self) -> int:
        """How many answers came piece by piece."""
        return sum(request.streamed for request in self.transcribed)
