"""What is watched beside a load: the server's liveness, and the pid tree it runs in."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx
import psutil

from stentor.bench.results import HealthFigures, Latency, ServerFigures
from stentor.errors import SetupError

HEALTH_PERIOD_S = 0.02
HEALTH_TIMEOUT_S = 5.0
PID_PERIOD_S = 0.1


async def watch_health(client: httpx.AsyncClient, path: str, stop: asyncio.Event) -> HealthFigures:
    """Probe `path` every `HEALTH_PERIOD_S` until `stop` is set; the probe in flight is waited for.

    A latency counts from the moment at which its probe was due, and an answer is that of all probes that came
    due before it. So a server that hangs for a second is late for all the probes of that second, and not only
    for the one that happened to be out; and one that always takes 50 ms is never later than that.
    """
    loop = asyncio.get_running_loop()
    latencies_s: list[float] = []
    probes, due_s = 0, loop.time()
    while not await _stopped_by(due_s, stop):
        answered = False
        with suppress(httpx.HTTPError):
            answered = (await client.get(path, timeout=HEALTH_TIMEOUT_S)).is_success
        now_s = loop.time()
        while due_s <= now_s:
            probes += 1
            if answered:
                latencies_s.append(now_s - due_s)
            due_s += HEALTH_PERIOD_S
    return HealthFigures(probes, probes - len(latencies_s), Latency.of(latencies_s))


async def watch_pids(tree: PidTree, stop: asyncio.Event) -> ServerFigures:
    """Look at a pid tree every `PID_PERIOD_S` until `stop` is set, and once more then."""
    loop = asyncio.get_running_loop()
    while not await _stopped_by(loop.time() + PID_PERIOD_S, stop):
        # Listing a machine's pids takes milliseconds; on the loop they would pass for the server's latency.
        await asyncio.to_thread(tree.sample)
    await asyncio.to_thread(tree.sample)
    return tree.figures


async def _stopped_by(due_s: float, stop: asyncio.Event) -> bool:
    """Wait for `stop`, until the loop's clock shows `due_s` at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(due_s):
            await stop.wait()
    return stop.is_set()


class PidTree:
    """CPU time and memory of a pid and all its descendants, from this object's birth on."""

    def __init__(self, pid: int) -> None:
        try:
            self._root = psutil.Process(pid)
        except psutil.NoSuchProcess as error:
            raise SetupError(f"there is no pid {pid}") from error
        self._cpu_s: dict[psutil.Process, float] = {}  # Keeps those that ended: their time was used.
        self._peak_rss_bytes = 0
        self.sample()
        self._cpu_before_s = sum(self._cpu_s.values())

    def sample(self) -> None:
        """Read every member's clocks and memory. Members that end meanwhile keep their last reading."""
        rss_bytes = 0
        with suppress(psutil.NoSuchProcess):
            for member in (self._root, *self._root.children(recursive=True)):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    times = member.cpu_times()
                    self._cpu_s[member] = times.user + times.system
                    rss_bytes += member.memory_info().rss
        self._peak_rss_bytes = max(self._peak_rss_bytes, rss_bytes)

    @property
    def figures(self) -> ServerFigures:
        return ServerFigures(sum(self._cpu_s.values()) - self._cpu_before_s, self._peak_rss_bytes)
