"""How late an event loop comes while audio is decoded beside it: the stalls that every request would feel."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from stentor.audio.reader import ReaderLimits, read_chunks
from stentor.bench.inputs import Inputs
from stentor.bench.plan import PreprocessPlan
from stentor.bench.records import Record, median
from stentor.bench.results import Latency
from stentor.preprocess import PreprocessPool

TICK_S = 0.001

NewLoop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]


def event_loops() -> dict[str, NewLoop]:
    """The event loops that uvicorn may run Stentor on here, by name."""
    loops: dict[str, NewLoop] = {"asyncio": asyncio.new_event_loop}
    if sys.platform != "win32":
        import uvloop

        loops["uvloop"] = uvloop.new_event_loop
    return loops


def measure_loop(inputs: Inputs, plan: PreprocessPlan) -> Iterator[Record]:
    """Tick on each loop with so many workers decoding; no worker at all is the floor."""
    path = inputs.long_mp3(plan.long_s)
    latencies: dict[tuple[str, int], list[Latency]] = defaultdict(list)
    for _ in range(plan.repeats):
        for name, new_loop in event_loops().items():
            for workers in plan.decoding:
                latencies[name, workers].append(lateness(new_loop, workers, path, plan.ticker_s))
    for (name, workers), own in latencies.items():
        yield Record(
            "loop",
            {
                "ticker_s": plan.ticker_s,
                "long_s": plan.long_s,
                "repeats": plan.repeats,
                "event_loop": name,
                "workers": workers,
            },
            {
                "p50_ms": median(1000 * latency.p50_s for latency in own),
                "p99_ms": median(1000 * latency.p99_s for latency in own),
                "max_ms": median(1000 * latency.max_s for latency in own),
                "worst_max_ms": max(1000 * latency.max_s for latency in own),
            },
        )


def lateness(new_loop: NewLoop, workers: int, path: Path, seconds: float) -> Latency:
    """Tick for some seconds on a new loop while `workers` threads of a pool decode a file over and over."""
    with ExitStack() as stack:
        fds = [stack.enter_context(path.open("rb")).fileno() for _ in range(workers)]
        runner = stack.enter_context(asyncio.Runner(loop_factory=new_loop))
        ticks = Latency.of(runner.run(_tick_beside(fds, seconds)))
    assert ticks is not None
    return ticks


async def _tick_beside(fds: Sequence[int], seconds: float) -> list[float]:
    pool = PreprocessPool(max(1, len(fds)))
    try:
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(_read_on(pool, fd)) for fd in fds]
            ticks = await _tick(seconds)
            for reader in readers:
                reader.cancel()
        return ticks
    finally:
        pool.close()


async def _read_on(pool: PreprocessPool, fd: int) -> None:
    while True:
        async with pool.steps(partial(read_chunks, fd, ReaderLimits())) as chunks:
            async for _ in chunks:
                pass  # and dropped: a file kept whole stalls the loop when its memory is touched


async def _tick(seconds: float) -> list[float]:
    """The seconds by which each tick came later than `TICK_S` after the one before."""
    late_s = []
    last_s = perf_counter()
    end_s = last_s + seconds
    while last_s < end_s:
        await asyncio.sleep(TICK_S)
        now_s = perf_counter()
        late_s.append(max(0.0, now_s - last_s - TICK_S))
        last_s = now_s
    return late_s
