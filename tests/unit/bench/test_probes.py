"""Liveness probes, on a clock that stands while anybody works and leaps when all wait."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Sequence
from itertools import count

import httpx
import pytest

from stentor.bench.probes import HEALTH_PERIOD_S, watch_health
from stentor.bench.results import HealthFigures


class Leaps(selectors.DefaultSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout:
            self.now_s += timeout
        return events


class LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.leaps = Leaps()
        super().__init__(self.leaps)

    def time(self) -> float:
        return self.leaps.now_s


def watched(answers: Sequence[tuple[float, int]]) -> HealthFigures:
    """Watch a server that takes so many seconds for each answer, with such a status; then stop."""

    async def watch() -> HealthFigures:
        stop, number = asyncio.Event(), count()

        async def answer(request: httpx.Request) -> httpx.Response:
            at = next(number)
            taken_s, status = answers[at]
            await asyncio.sleep(taken_s)
            if at == len(answers) - 1:
                stop.set()
            return httpx.Response(status)

        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://test") as client:
            return await watch_health(client, "/health", stop)

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(watch())


def test_a_server_that_is_always_slow_is_never_later_than_that() -> None:
    figures = watched([(0.045, 200)] * 20)
    assert (figures.probes, figures.failures) == (3 * 20, 0)
    assert figures.latency is not None
    assert figures.latency.max_s == pytest.approx(0.045)
    assert figures.latency.p50_s == pytest.approx(0.025)


def test_a_server_that_hangs_is_late_for_all_probes_of_that_time() -> None:
    figures = watched([(0.001, 200)] * 49 + [(1.01, 200)])
    assert (figures.probes, figures.failures) == (100, 0)
    assert figures.latency is not None
    assert figures.latency.max_s == pytest.approx(1.01)
    assert figures.latency.p95_s == pytest.approx(1.01 - 5 * HEALTH_PERIOD_S)
    assert figures.latency.p50_s == pytest.approx(1.01 - 50 * HEALTH_PERIOD_S)


def test_what_was_due_before_a_refusal_was_refused() -> None:
    figures = watched([(0.001, 200), (0.065, 503)])
    assert (figures.probes, figures.failures) == (5, 4)
