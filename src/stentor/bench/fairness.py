"""`stentor bench fairness`: how long short clips take while somebody's long file is being transcribed.

A clip is sent at a steady pace whatever becomes of the ones before it, as callers do who know nothing of each
other; first alone, then beside the long file. The figure to look at is the 95th percentile beside it over the
median alone.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from rich.console import Console

from stentor.bench.calls import Target, call_whole, calling, form
from stentor.bench.inputs import Inputs
from stentor.bench.progress import progress
from stentor.bench.records import Record, Store, Value, show
from stentor.bench.results import Latency
from stentor.errors import SetupError


@dataclass(frozen=True, slots=True)
class FairnessPlan:
    """A long file of `long_s`, and `clips` clips of `clip_s`, one each `period_s`."""

    long_s: float = 7200.0
    clip_s: float = 5.0
    clips: int = 60
    period_s: float = 1.0
    idle_clips: int = 5


def run_fairness(plan: FairnessPlan, target: Target, speech: Path, store: Store) -> None:
    """Measure, store and print.

    Raises:
        SetupError: The server does not transcribe.
    """
    with (
        tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder,
        progress("clips sent", plan.clips) as advance,
    ):
        figures = asyncio.run(measure_fairness(plan, target, Inputs(Path(folder), speech), advance))
    record = Record("fairness", {"model": target.model, **asdict(plan)}, figures)
    store(record)
    show([record], Console())


async def measure_fairness(
    plan: FairnessPlan, target: Target, inputs: Inputs, on_clip: Callable[[], None] = lambda: None
) -> dict[str, Value]:
    """Clips alone, then clips beside the long file, which is left at the end; `on_clip` when one is sent.

    Raises:
        SetupError: The server does not transcribe, or the long file was done before the clips were.
    """
    fields = {"model": target.model, "language": "en", "response_format": "json"}
    clip = form(fields, inputs.clip("mp3", plan.clip_s).read_bytes())
    long = form(fields, inputs.long_mp3(plan.long_s).read_bytes())
    alone_s = [await _clip_s(target, clip) for _ in range(1 + plan.idle_clips)][1:]
    async with calling(target, length=len(long)) as call:
        await call.send(call.head)
        await call.send(memoryview(long))
        answer = asyncio.ensure_future(call.answer())
        async with asyncio.TaskGroup() as group:
            tasks = []
            for _ in range(plan.clips):
                tasks.append(group.create_task(_clip_s(target, clip)))
                on_clip()
                await asyncio.sleep(plan.period_s)
        if answer.done():
            if (status := (await answer).status) != 200:
                raise SetupError(f"{target.url} answered the long file with {status}; take a shorter one")
            raise SetupError(f"{plan.long_s:g} s were transcribed before the clips were; take a longer file")
        answer.cancel()
    beside = Latency.of(task.result() for task in tasks)
    assert beside is not None, "a plan has clips"
    idle_s = statistics.median(alone_s)
    return {
        "clip_alone_s": idle_s,
        "p50_s": beside.p50_s,
        "p95_s": beside.p95_s,
        "max_s": beside.max_s,
        "p95_over_alone": beside.p95_s / idle_s,
    }


async def _clip_s(target: Target, body: bytes) -> float:
    began_s = perf_counter()
    answer = await call_whole(target, body)
    if answer.status != 200:
        raise SetupError(f"{target.url} answered a clip with {answer.status}")
    return perf_counter() - began_s
