"""`stentor bench chaos`: thousands of requests of every kind at once, and then the books.

Each request's case and all its choices come from the seed and the request's number, whatever the order in
which they run: the same seed sends the same again. The first fifth (or more, of a short run) warms the server
up. What it holds at rest after that is held against what it holds at rest at the end.

Source: mosecorg/mosec tests/bad_req.py, which mixes good calls, disconnects and bad data alike.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TypeAlias

import httpx
from rich.console import Console

from stentor.bench.calls import Target, call_whole, form
from stentor.bench.cases import CASES, Clip, Material
from stentor.bench.checks import ChaosResult, Ending, Settled
from stentor.bench.footprint import Footprint
from stentor.bench.inputs import Inputs
from stentor.bench.progress import progress
from stentor.bench.records import Record, Store, Value, show
from stentor.bench.rest import RestWatch
from stentor.bench.series import Scraper
from stentor.errors import SetupError

CLIPS = (("mp3", 2.0), ("flac", 5.0), ("m4a", 8.0), ("webm", 40.0))
"""Good audio by format and seconds; the last one makes two chunks."""

MAX_UPLOAD_BYTES = 2_000_000
"""The limit of a server that is started for this: room for every clip, and soon passed."""

WARM_SHARE = 0.2
WARM_REQUESTS = 100
"""A server has seen every case and filled its caches after so many; a short run warms up with its half."""
REST_LIMIT_S = 60.0
WRONG_LINES = 5
PROGRESS_LINES = 10

Say: TypeAlias = Callable[[int, int], None]
"""Is told how many requests are done, and how many of them were answered wrongly."""


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """What is sent. No answer after `answer_s` is a wrong one; see `Material` for what is not said here."""

    requests: int = 10_000
    concurrency: int = 64
    seed: int = 1
    max_upload_bytes: int | None = None
    slow_s: float = 2.0
    stay_s: float = 0.5
    answer_s: float = 60.0


def run_chaos(plan: ChaosPlan, target: Target, speech: Path | None, store: Store) -> bool:
    """Carry out a plan, print what came of it and store it.

    Without a terminal, where no bar shows how far it has come, ten plain lines do.

    Returns:
        Whether all checks passed.

    Raises:
        SetupError: The server does not transcribe the clips, or the speech cannot be read.
    """
    console = Console()
    with tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder:
        inputs = Inputs(Path(folder), speech)
        with progress("requests", plan.requests) as advance:

            def say(done: int, wrong: int) -> None:
                advance()
                if done % max(1, plan.requests // PROGRESS_LINES) == 0 and not console.is_terminal:
                    console.print(f"{done} of {plan.requests} requests, {wrong} wrong")

            result = asyncio.run(measure_chaos(plan, target, inputs, say))
    for records in _records(plan, target, result):
        show(records, console)
        for record in records:
            store(record)
    for ending in result.wrong[:WRONG_LINES]:
        line = f"request {ending.number} ({ending.case}): {ending.wrong}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    failed = [check.name for check in result.checks() if not check.passed]
    console.print(f"FAILED: {', '.join(failed)}" if failed else "all checks passed")
    return not failed


async def measure_chaos(
    plan: ChaosPlan, target: Target, inputs: Inputs, say: Say = lambda done, wrong: None
) -> ChaosResult:
    """Send everything; `say` is told after each request how many are done, and how many of them wrong.

    Raises:
        SetupError: The server does not answer at the beginning, or has no such pid.
    """
    async with httpx.AsyncClient(trust_env=False) as client:
        scraper = None if target.metrics_path is None else Scraper(client, target)
        watch = RestWatch(target, scraper, REST_LIMIT_S)
        material = await _material(plan, target, inputs)
        endings: list[Ending] = []
        warm_count = min(max(WARM_REQUESTS, round(WARM_SHARE * plan.requests)), plan.requests // 2)
        began_s = perf_counter()
        await _send_all(plan, material, range(warm_count), endings, say)
        warm = await _settle(target, watch, scraper)
        await _send_all(plan, material, range(warm_count, plan.requests), endings, say)
        wall_s = perf_counter() - began_s
        end = await _settle(target, watch, scraper)
    return ChaosResult(tuple(sorted(endings, key=lambda ending: ending.number)), wall_s, warm, end)


async def _material(plan: ChaosPlan, target: Target, inputs: Inputs) -> Material:
    """Have every clip transcribed once, so that it is known what is right."""
    material = Material(target, (), plan.max_upload_bytes, plan.slow_s, plan.stay_s)
    clips = []
    for format, seconds in CLIPS:
        path = inputs.clip(format, seconds)
        body = form(material.fields, path.read_bytes(), path.name)
        try:
            answer = await call_whole(target, body)
        except OSError as error:
            raise SetupError(f"{target.url} does not answer: {error}") from error
        if answer.text is None:
            raise SetupError(f"{target.url} does not transcribe {path.name}: {answer.status} {answer.body!r}")
        clips.append(Clip(body, answer.text))
    return replace(material, clips=tuple(clips))


async def _send_all(
    plan: ChaosPlan,
    material: Material,
    numbers: Iterable[int],
    endings: list[Ending],
    say: Say,
) -> None:
    waiting = iter(numbers)
    wrong = sum(ending.wrong is not None for ending in endings)

    async def caller() -> None:
        nonlocal wrong
        for number in waiting:  # Shared by all callers: each takes the next when it is free.
            endings.append(await _send(plan, material, number))
            wrong += endings[-1].wrong is not None
            say(len(endings), wrong)

    async with asyncio.TaskGroup() as callers:
        for _ in range(plan.concurrency):
            callers.create_task(caller())


async def _send(plan: ChaosPlan, material: Material, number: int) -> Ending:
    random = Random(f"{plan.seed}-{number}")
    (name,) = random.choices(tuple(CASES), [case.weight for case in CASES.values()])
    try:
        async with asyncio.timeout(plan.answer_s):
            wrong = await CASES[name].send(material, random)
    except OSError as failure:  # TimeoutError is one too
        wrong = f"no answer: {failure!r}"
    return Ending(number, name, wrong)


SETTLE_S = 3.0
"""What was freed may go back to the system a moment after the last request, not with it."""


async def _settle(target: Target, watch: RestWatch, scraper: Scraper | None) -> Settled:
    """Let the server come to rest and look at it."""
    try:
        rest = await watch.rest(perf_counter())
        if target.pid is not None:
            await asyncio.sleep(SETTLE_S)
        return Settled(
            late=rest.late,
            series=None if scraper is None else await scraper.read(),
            footprint=None if target.pid is None else Footprint.of(target.pid),
        )
    except SetupError as error:
        return Settled(gone=error.message)


def _records(plan: ChaosPlan, target: Target, result: ChaosResult) -> tuple[list[Record], ...]:
    """Three tables: by case, by check, and the whole."""
    told: dict[str, Value] = {"requests": plan.requests, "concurrency": plan.concurrency, "seed": plan.seed}
    told["model"] = target.model
    sent = Counter(ending.case for ending in result.endings)
    wrong = Counter(ending.case for ending in result.wrong)
    return (
        [
            Record("chaos", {**told, "case": name}, {"sent": sent[name], "wrong": wrong[name]})
            for name in CASES
        ],
        [
            Record(
                "chaos checks",
                {**told, "check": check.name},
                {"passed": "yes" if check.passed else "NO", "found": check.found},
            )
            for check in result.checks()
        ],
        [
            Record(
                "chaos speed",
                told,
                {"wall_s": result.wall_s, "requests_per_s": len(result.endings) / result.wall_s},
            )
        ],
    )
