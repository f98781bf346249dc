"""`stentor bench cancel`: how soon a server is free for others when its clients have left.

Each stage of `stages.py` is left over and over, by FIN and by RST, twice per repeat. After the first time the
server is watched until it is at rest (`rest.py`). After the second a short clip is sent at once: how long it
takes, held against the same clip at rest, is what others feel of work that nobody wants any more.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
from rich.console import Console

from stentor.bench.calls import Call, Disconnect, Target, call_whole, calling, form
from stentor.bench.inputs import Inputs
from stentor.bench.progress import progress
from stentor.bench.records import Record, Store, Value, median, show
from stentor.bench.rest import Rest, RestWatch
from stentor.bench.series import RECEIVED, Scraper, Series
from stentor.bench.stages import STAGES, Stage
from stentor.errors import SetupError

MOMENT_LIMIT_S = 60.0
"""A stage's moment that has not come by then was missed: the server was too fast for it, or refused."""


@dataclass(frozen=True, slots=True)
class CancelPlan:
    """What is left how often. `limit_s` is for a server to come to rest, which one that never notices needs.

    Audio is `long_s`, `chunk_s` (one chunk) and `clip_s` (what is sent afterwards) long; `clips` are sent
    before, at rest.
    """

    stages: Sequence[str] = tuple(STAGES)
    disconnects: Sequence[Disconnect] = tuple(Disconnect)
    repeats: int = 3
    long_s: float = 600.0
    chunk_s: float = 25.0
    clip_s: float = 5.0
    clips: int = 5
    limit_s: float = 300.0

    @classmethod
    def of(cls, stages: str, disconnects: str, **rest: Any) -> CancelPlan:
        """Read lists with commas; an empty one means all.

        Raises:
            SetupError: There is no such stage, or no such way to leave.
        """
        return cls(
            _chosen("--stage", stages, tuple(STAGES)),
            tuple(map(Disconnect, _chosen("--disconnect", disconnects, tuple(Disconnect)))),
            **rest,
        )


@dataclass(frozen=True, slots=True)
class Leaving:
    """What came of leaving a stage twice. `clip_s` is None when the clip was not transcribed."""

    seen: bool
    rest: Rest
    clip_s: float | None


def run_cancel(plan: CancelPlan, target: Target, speech: Path, store: Store) -> bool:
    """Measure stage after stage: store each record at once and print all at the end.

    Returns:
        Whether the server came to rest each time and transcribed every clip.

    Raises:
        SetupError: The server does not answer, or the speech cannot be read.
    """
    records: list[Record] = []

    def take(record: Record) -> None:
        records.append(record)
        store(record)
        advance()

    stages = len(plan.stages) * len(plan.disconnects)
    with tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder:
        try:
            with progress("stages left", stages) as advance:
                asyncio.run(measure_cancel(plan, target, Inputs(Path(folder), speech), take))
        finally:
            show(records, Console())
    return not any(record.figures["failed"] for record in records)


async def measure_cancel(
    plan: CancelPlan, target: Target, inputs: Inputs, on_record: Callable[[Record], None]
) -> None:
    """Measure; `on_record` gets a record for each stage and way to leave as soon as there is one.

    Raises:
        SetupError: The server does not answer.
    """
    async with httpx.AsyncClient(trust_env=False) as client:
        scraper = None if target.metrics_path is None else Scraper(client, target)
        leaver = Leaver(plan, target, scraper, inputs)
        idle_clip_s = await leaver.clip_at_rest()
        for name in plan.stages:
            for how in plan.disconnects:
                leavings = [await leaver.leave(STAGES[name], how) for _ in range(plan.repeats)]
                on_record(Record("cancel", _told(plan, target, name, how), _figures(leavings, idle_clip_s)))


class Leaver:
    """Calls a server and leaves it."""

    def __init__(self, plan: CancelPlan, target: Target, scraper: Scraper | None, inputs: Inputs) -> None:
        self._plan = plan
        self._target = target
        self._scraper = scraper
        self._watch = RestWatch(target, scraper, plan.limit_s)
        self._long = inputs.long_mp3(plan.long_s).read_bytes()
        self._chunk = inputs.clip("mp3", plan.chunk_s).read_bytes()
        self._clip = self._form(inputs.clip("mp3", plan.clip_s).read_bytes(), "en")

    async def clip_at_rest(self) -> float:
        """The short clip's median latency while nothing else is to do.

        Raises:
            SetupError: It is not transcribed.
        """
        latencies_s = []
        for _ in range(1 + self._plan.clips):
            latency_s = await self._send_clip()
            if latency_s is None:
                raise SetupError(f"{self._target.url} does not transcribe a clip of {self._plan.clip_s:g} s")
            latencies_s.append(latency_s)
        return statistics.median(latencies_s[1:])  # the first one pays for what is loaded and allocated once

    async def leave(self, stage: Stage, how: Disconnect) -> Leaving:
        """Leave a stage once to watch the server, and once more to send it a clip."""
        left_s, seen = await self._leave(stage, how)
        rest = await self._watch.rest(left_s)
        _, seen_again = await self._leave(stage, how)
        clip_s = await self._send_clip()
        after = await self._watch.rest(perf_counter())
        return Leaving(seen and seen_again, Rest(rest.freed_s, rest.idle_s, rest.late or after.late), clip_s)

    async def _leave(self, stage: Stage, how: Disconnect) -> tuple[float, bool]:
        """Go as far as the stage says and leave; when that was, and whether its moment was seen."""
        before = None if self._scraper is None else await self._scraper.read()
        body = self._form(self._long if stage.long else self._chunk, stage.language)
        async with AsyncExitStack() as stack:
            calls = [
                await stack.enter_async_context(calling(self._target, length=len(body)))
                for _ in range(stage.requests)
            ]
            part = memoryview(body)[: round(stage.sent * len(body))]
            try:
                seen = await self._send_until(calls, part, stage, before)
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            left_s = perf_counter()
            for call in calls:
                call.disconnect(how)
        return left_s, seen

    async def _send_until(
        self, calls: Sequence[Call], part: memoryview, stage: Stage, before: Series | None
    ) -> bool:
        async with asyncio.TaskGroup() as group:
            senders = [group.create_task(_send(call, part)) for call in calls]
            seen = await self._moment(stage, before)
            if stage.when is None and stage.after_s is None:
                await asyncio.wait(senders)
            for sender in senders:
                sender.cancel()
        return seen

    async def _moment(self, stage: Stage, before: Series | None) -> bool:
        """Wait until the server has all requests of a stage and its moment has come."""
        timed = stage.when is None and stage.after_s is not None
        if timed or self._scraper is None or before is None:
            await asyncio.sleep(stage.after_s or 0.0)
            return True

        def come(now: Series) -> bool:
            received = now.total(RECEIVED) - before.total(RECEIVED)
            return received >= stage.requests and (
                stage.when is None or stage.when(before, now, self._plan.long_s)
            )

        return await self._scraper.until(come, MOMENT_LIMIT_S) is not None

    async def _send_clip(self) -> float | None:
        began_s = perf_counter()
        try:
            async with asyncio.timeout(self._plan.limit_s):
                answer = await call_whole(self._target, self._clip)
        except OSError:  # TimeoutError is one too
            return None
        return None if answer.text is None else perf_counter() - began_s

    def _form(self, audio: bytes, language: str | None) -> bytes:
        fields = {"model": self._target.model, "response_format": "json"}
        if language is not None:
            fields["language"] = language
        return form(fields, audio, "speech.mp3")


def _chosen(option: str, given: str, known: Sequence[str]) -> Sequence[str]:
    chosen = tuple(name for name in given.split(",") if name) or tuple(known)
    if unknown := sorted(set(chosen) - set(known)):
        raise SetupError(f"{option}: {', '.join(unknown)} is none of {', '.join(known)}")
    return chosen


async def _send(call: Call, part: memoryview) -> None:
    with suppress(OSError):  # refused and closed: the stage's moment will be missed
        await call.send(call.head)
        await call.send(part)


def _told(plan: CancelPlan, target: Target, name: str, how: Disconnect) -> dict[str, Value]:
    return {
        "model": target.model,
        "long_s": plan.long_s,
        "chunk_s": plan.chunk_s,
        "clip_s": plan.clip_s,
        "repeats": plan.repeats,
        "stage": name,
        "requests": STAGES[name].requests,
        "disconnect": how.value,
    }


def _figures(leavings: Sequence[Leaving], idle_clip_s: float) -> dict[str, Value]:
    """Medians and maxima in ms. `missed` stages did not come to their moment; `late` is what failed."""
    freed = [1000 * leaving.rest.freed_s for leaving in leavings if leaving.rest.freed_s is not None]
    idle = [1000 * leaving.rest.idle_s for leaving in leavings if leaving.rest.idle_s is not None]
    clip = [1000 * leaving.clip_s for leaving in leavings if leaving.clip_s is not None]
    return {
        "freed_ms": median(freed),
        "freed_max_ms": max(freed, default=None),
        "idle_ms": median(idle),
        "idle_max_ms": max(idle, default=None),
        "clip_ms": median(clip),
        "clip_max_ms": max(clip, default=None),
        "clip_at_rest_ms": 1000 * idle_clip_s,
        "missed": sum(not leaving.seen for leaving in leavings),
        "failed": sum(leaving.rest.late or leaving.clip_s is None for leaving in leavings),
    }
