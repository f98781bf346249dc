"""Probes a server's liveness from a program of its own, which no load's uploads keep waiting.

`python -m stentor.bench.prober URL` says "ready" once it has had a first answer, probes until its standard
input is closed, and says then what it found as one JSON object. `probed` is the other end.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

import httpx

from stentor.bench.probes import HEALTH_TIMEOUT_S, watch_health
from stentor.bench.results import HealthFigures, Latency
from stentor.errors import SetupError

LIVE_PATH = "/health/live"

T = TypeVar("T")


def probed(url: str, load: Callable[[], T]) -> tuple[T, HealthFigures]:
    """Do something to a server, and watch meanwhile whether it says that it lives.

    Raises:
        SetupError: The server did not answer the first probe.
    """
    command = [sys.executable, "-m", "stentor.bench.prober", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as prober:
        assert prober.stdout is not None
        if not prober.stdout.readline():
            raise SetupError(f"{url}{LIVE_PATH} cannot be probed; the reason is above")
        try:
            result = load()
        finally:
            answer, _ = prober.communicate()
    found = json.loads(answer)
    latency = found.pop("latency")
    return result, HealthFigures(**found, latency=latency and Latency(**latency))


async def _probe(url: str) -> HealthFigures:
    stop = asyncio.Event()
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client, asyncio.TaskGroup() as group:
        # Unmeasured: the first answer of all pays for httpx's lazy imports.
        await client.get(LIVE_PATH, timeout=HEALTH_TIMEOUT_S)
        print("ready", flush=True)
        health = group.create_task(watch_health(client, LIVE_PATH, stop))
        await asyncio.to_thread(sys.stdin.read)
        stop.set()
    return health.result()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us, and then closes our input
    print(json.dumps(asdict(asyncio.run(_probe(sys.argv[1])))))
