"""What a Stentor counts, read from its /metrics."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from time import perf_counter

import httpx

from stentor.bench.calls import Target
from stentor.errors import SetupError

RECEIVED = "stentor_requests_received_total"
ENDED = "stentor_requests_ended_total"
ACTIVE = "stentor_requests_active"
RUNNING = "stentor_engine_running"
QUEUED = "stentor_engine_queued"
DECODED = 'stentor_audio_seconds_total{stage="decoded"}'
WAITING = "stentor_preprocess_waiting"

AT_WORK = (ACTIVE, RUNNING, QUEUED, "stentor_preprocess_running", WAITING)
"""Gauges that are 0 when a server does nothing for anybody."""

POLL_S = 0.01
"""Between two scrapes. One takes a server a millisecond or two, so this costs it a tenth or two of a core."""

SCRAPE_TIMEOUT_S = 30.0
SAMPLE = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)


class Series:
    """One scrape: every sample by its name with its labels, as Prometheus' text format writes them."""

    def __init__(self, text: str) -> None:
        self._samples = {name + labels: float(value) for name, labels, value in SAMPLE.findall(text)}

    def __contains__(self, sample: str) -> bool:
        return sample in self._samples

    def __getitem__(self, sample: str) -> float:
        """A sample's value; 0 when it has not been counted yet."""
        return self._samples.get(sample, 0.0)

    def total(self, name: str) -> float:
        """The sum over all labels."""
        return sum(self._labelled(name).values())

    def by_endpoint(self, name: str) -> dict[str, float]:
        """The sum over all labels but the endpoint's."""
        sums: dict[str, float] = defaultdict(float)
        for sample, value in self._labelled(name).items():
            endpoint = re.search(r'endpoint="([^"]*)"', sample)
            sums[endpoint[1] if endpoint else ""] += value
        return dict(sums)

    @property
    def at_work(self) -> dict[str, float]:
        """The gauges of `AT_WORK` that are not 0."""
        return {gauge: self[gauge] for gauge in AT_WORK if self[gauge]}

    def _labelled(self, name: str) -> Mapping[str, float]:
        return {s: value for s, value in self._samples.items() if s == name or s.startswith(f"{name}{{")}


class Scraper:
    """Reads a server's series over a connection that it keeps."""

    def __init__(self, client: httpx.AsyncClient, target: Target) -> None:
        assert target.metrics_path is not None
        self._client = client
        self._url = target.base_url + target.metrics_path
        self._headers = target.headers

    async def read(self) -> Series:
        """Scrape once.

        Raises:
            SetupError: The server does not answer, or counts other things than a Stentor does.
        """
        try:
            response = await self._client.get(self._url, headers=self._headers, timeout=SCRAPE_TIMEOUT_S)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise SetupError(f"{self._url} cannot be read: {error!r}") from error
        series = Series(response.text)
        if ACTIVE not in series:
            raise SetupError(f'{self._url} has no {ACTIVE}: with --metrics-path "" only CPU is watched')
        return series

    async def until(self, condition: Callable[[Series], bool], limit_s: float) -> float | None:
        """Scrape every `POLL_S` until a scrape satisfies a condition.

        Returns:
            `perf_counter` when that answer was there; None when it did not come within the limit.
        """
        due_s = perf_counter()
        end_s = due_s + limit_s
        while perf_counter() < end_s:
            if condition(await self.read()):
                return perf_counter()
            due_s = max(due_s + POLL_S, perf_counter())
            await asyncio.sleep(due_s - perf_counter())
        return None
