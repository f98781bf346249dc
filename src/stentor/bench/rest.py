"""When a server has come to rest: its gauges are 0, and its pid tree uses no CPU."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

import psutil

from stentor.bench.calls import Target
from stentor.bench.series import POLL_S, Scraper
from stentor.errors import SetupError

WINDOW_S = 0.1
IDLE_SHARE = 0.05
"""Of a core, over `WINDOW_S`. Where the system counts CPU in ticks of 10 ms, that is a window without one."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Seconds from a moment until a server was free, by its gauges, and idle, by its CPU.

    None where it did not come to that in time (`late`), or was not watched.
    """

    freed_s: float | None
    idle_s: float | None
    late: bool


class CpuClock:
    """CPU seconds of a pid and those of its descendants that live at this object's birth.

    Listing a machine's pids takes milliseconds, reading known ones a tenth: so it is done once.
    """

    def __init__(self, pid: int) -> None:
        try:
            root = psutil.Process(pid)
            self._members = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess as error:
            raise SetupError(f"there is no pid {pid}") from error

    def read_s(self) -> float:
        """The sum of all that still live."""
        sum_s = 0.0
        for member in self._members:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                times = member.cpu_times()
                sum_s += times.user + times.system
        return sum_s


class RestWatch:
    """Waits for a server to come to rest.

    Gauges are scraped every 10 ms and a scrape takes a millisecond or two, so `freed_s` is that much late.
    Scraping keeps a server from being idle: CPU is looked at when it is free, so `idle_s` is never less.

    Args:
        target: The server.
        scraper: Reads its gauges; None when it has none of ours.
        limit_s: For each of the two waits.

    Raises:
        SetupError: The target's pid is not there.
    """

    def __init__(self, target: Target, scraper: Scraper | None, limit_s: float) -> None:
        self._clock = None if target.pid is None else CpuClock(target.pid)
        self._scraper = scraper
        self._limit_s = limit_s

    async def rest(self, since_s: float) -> Rest:
        """Wait, and count from `since_s` (`perf_counter`).

        Raises:
            SetupError: The server does not answer.
        """
        freed_s = idle_s = None
        late = False
        if self._scraper is not None:
            freed_s = await self._scraper.until(lambda series: not series.at_work, self._limit_s)
            late = freed_s is None
        if self._clock is not None and not late:
            idle_s = await _idle(self._clock, self._limit_s)
            late = idle_s is None
        return Rest(
            None if freed_s is None else freed_s - since_s, None if idle_s is None else idle_s - since_s, late
        )


async def _idle(clock: CpuClock, limit_s: float) -> float | None:
    """When the first window without work began; None when there was none in time."""
    read: deque[tuple[float, float]] = deque()
    end_s = perf_counter() + limit_s
    while (now_s := perf_counter()) < end_s:
        cpu_s = clock.read_s()
        read.append((now_s, cpu_s))
        while len(read) > 1 and read[1][0] <= now_s - WINDOW_S:
            read.popleft()  # what is left begins with the youngest reading that is a window old
        began_s, before_s = read[0]
        if now_s - began_s >= WINDOW_S and cpu_s - before_s < IDLE_SHARE * (now_s - began_s):
            return began_s
        await asyncio.sleep(POLL_S)
    return None
