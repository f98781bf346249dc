"""An engine that computes elsewhere: a fair queue here, replicas there, a chunk done again where one dies.

    road ──► queue ──► replica ──► outputs          what a lost replica told stays told: another one
             (here)    (there, its own queue) ◄──── hears the rest of the chunk, from there on

As many chunks are sent as the replicas have slots, and half as many again: so no slot waits for the next one,
and what waits, waits here, where a replica that has just come gets its share and a clip goes before the later
chunks of long files. Beside these first chunks are sent at once, up to another half: replicas keep slots for
them and compute them first. Each goes to the replica with the least to do (`roster.py`).
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from weakref import WeakKeyDictionary

import structlog

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.engine.scheduler import Scheduler, Ticket
from stentor.errors import EngineError
from stentor.scale.calls import Call, News, ReplicaLost, Replicas, ReplicaState, Stream, Verb, later
from stentor.scale.roster import Roster
from stentor.types import SAMPLE_RATE, Chunk, EngineOutput, EngineReport, EngineRequest, LanguageGuess

log = structlog.get_logger()

DEPTH = 1.5
"""Chunks that replicas hold for each of their slots."""

FIRST_DEPTH = 0.5
"""First chunks that they may hold beside these, for each slot."""

ATTEMPTS = 3
"""Replicas that a chunk may lose. One that kills every engine it meets is given up after so many."""

TAKEN_S = 30.0
"""A call that no replica takes for so long is lost. Another replica in the place of a dead one takes ten
seconds and what the model takes to load."""

BUSY_PERIOD_S, IDLE_PERIOD_S = 0.2, 1.0
"""How often replicas are asked how they are, while they work and while they do not."""


class RemoteEngine:
    """The engine of a server whose computing is done by replicas; see `Engine`.

    Its slots are those of all replicas that were there at the start.

    Args:
        replicas: Where to call.
        states: How they are.
        busy_period_s: How often they are asked while they work.
    """

    def __init__(
        self, replicas: Replicas, states: Sequence[ReplicaState], *, busy_period_s: float = BUSY_PERIOD_S
    ) -> None:
        self._replicas = replicas
        self._busy_period_s = busy_period_s
        self._name = uuid.uuid4().hex[:8]
        self._info = replace(states[0].info, slots=sum(state.info.slots for state in states))
        self._scheduler = Scheduler(self._info.slots, "stentor-remote")
        self._waiting_s: dict[str, float] = {}
        self._streams: dict[str, Stream] = {}
        self._probed: WeakKeyDictionary[Chunk, tuple[str, str]] = WeakKeyDictionary()
        self._roster = Roster(states)
        self._make_room()
        self._aborted: set[str] = set()
        self._surveying = asyncio.Lock()
        self._work = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Let a replica transcribe one chunk; see `Engine.generate`."""
        async with aclosing(self._hear("generate", request)) as told:
            async for news in told:
                if news.output is not None:
                    yield news.output

    async def detect_language(self, request: EngineRequest) -> LanguageGuess:
        """Let a replica say which language it is; `generate` asks the same one again, if it is there."""
        guess: LanguageGuess | None = None
        async with aclosing(self._hear("detect_language", request)) as told:
            async for news in told:
                guess = news.guess or guess
        if guess is None:
            raise EngineError("an engine replica ended without an answer")
        return guess

    async def abort(self, request_ids: Collection[str]) -> None:
        """Stop these engine requests here and in every replica; see `Engine.abort`."""
        self._scheduler.abort(request_ids)
        for request_id in request_ids:
            if request_id in self._streams:
                self._streams[request_id].cancel()
        if request_ids:
            await self._survey({f"{self._name}/{request_id}" for request_id in request_ids})

    def health(self) -> EngineHealth:
        """What the replicas last told; alive while one of them is."""
        self._watch()
        told, dead = self._roster.health(), self._scheduler.dead
        queued = told.queued + self._scheduler.queued
        return EngineHealth(told.alive and dead is None, told.running, queued, dead or told.reason)

    async def close(self) -> None:
        """Abort what this server has begun. The replicas go on for others."""
        for stream in self._streams.values():
            stream.cancel()
        await self._scheduler.close()
        self._work.set()
        if self._watcher is not None:
            await self._watcher  # to its end: Ray's own logs lament a survey that is cancelled

    async def _hear(self, verb: Verb, request: EngineRequest) -> AsyncGenerator[News, None]:
        """The news of a chunk, from as many replicas as it takes: each goes on where the one before was lost.

        Windows do not depend on each other's text, so what is heard from there on is what would have been.
        """
        self._watch()
        wanted, key = self._probed.pop(request.chunk, (None, uuid.uuid4().hex))
        heard = 0
        async with self._turn(request) as ticket:
            for attempt in range(1, ATTEMPTS + 1):
                before, call = heard, Call.of(request, self._name, key, heard)
                replica_id = self._roster.choose(wanted)
                stream = self._replicas.call(verb, call, replica_id)
                self._roster.sent(stream, replica_id)
                try:
                    async with aclosing(self._told(ticket, stream, request.report)) as told:
                        async for news in told:
                            replica_id = news.state.replica_id
                            if news.output is not None:
                                output = later(news.output, before)
                                news, heard = replace(news, output=output), round(output.end_s * SAMPLE_RATE)
                            if news.guess is not None:
                                self._probed[request.chunk] = replica_id, key
                            yield news
                    return
                except ReplicaLost as lost:
                    why = lost
                log.warning("engine replica lost", request_id=request.id, attempt=attempt, why=str(why))
                self._roster.lost(replica_id)
                if heard >= len(request.chunk.samples):
                    return  # it had told everything
                # Whoever has kept the chunk from its probe has the whole of it, and what is left is another.
                wanted, key = None, uuid.uuid4().hex
            raise EngineError(f"no engine replica could hear the chunk: {why}")

    @asynccontextmanager
    async def _turn(self, request: EngineRequest) -> AsyncIterator[Ticket]:
        """A place among the chunks that replicas have."""
        here = replace(request, report=EngineReport())  # the scheduler takes for computing what is sent
        self._waiting_s[request.id] = request.chunk.duration_s
        try:
            async with self._scheduler.ticket(here) as ticket, ticket.slot():
                del self._waiting_s[request.id]
                self._work.set()
                yield ticket
        finally:
            self._waiting_s.pop(request.id, None)
            request.report.queued_s += here.report.queued_s

    async def _told(self, ticket: Ticket, stream: Stream, report: EngineReport) -> AsyncGenerator[News, None]:
        """The news of one call; whoever leaves stops it. The engine's report is added to ours at the end."""
        self._streams[ticket.request.id] = stream
        theirs = EngineReport()
        try:
            news = await _next(ticket, stream, limit_s=TAKEN_S)
            while news is not None:
                self._roster.told(stream, news.state)
                theirs = news.report
                yield news
                news = await _next(ticket, stream)
        finally:
            stream.cancel()
            self._roster.ended(stream)
            self._streams.pop(ticket.request.id, None)
            report.queued_s += theirs.queued_s
            report.computed_s += theirs.computed_s
            report.fallbacks += theirs.fallbacks

    def _watch(self) -> None:
        """Keep what we know of the replicas fresh, from now on."""
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._keep_watching())

    async def _keep_watching(self) -> None:
        while self._scheduler.dead is None:
            await self._survey()
            health = self.health()
            if health.running or health.queued or self._scheduler.running:
                await asyncio.sleep(self._busy_period_s)
            elif self._scheduler.dead is None:
                self._work.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_PERIOD_S):
                        await self._work.wait()

    async def _survey(self, aborted: Collection[str] = ()) -> None:
        """Ask all replicas how they are. Whoever waits for it lets the next one take its aborts along."""
        self._aborted.update(aborted)
        async with self._surveying:
            if aborted and not self._aborted:
                return
            ids, self._aborted = self._aborted, set()
            share_s = sum(self._waiting_s.values()) / max(1, len(self._roster))
            try:
                self._roster.note(await self._replicas.survey(self._name, share_s, ids))
            except ReplicaLost:
                self._roster.unanswered()
            self._make_room()

    def _make_room(self) -> None:
        """Send as much as those replicas may hold that live; while none does, as at the start."""
        slots = self._roster.slots or self._info.slots
        reserved = math.ceil(FIRST_DEPTH * slots)
        self._scheduler.resize(math.ceil(DEPTH * slots) + reserved, reserved=reserved)


async def _next(ticket: Ticket, stream: Stream, limit_s: float | None = None) -> News | None:
    """The next news, None at the end; or why the ticket ended before.

    Raises:
        ReplicaLost: The replica is gone, or there was nothing within the limit.
    """
    future = asyncio.ensure_future(_or_none(stream))
    future.add_done_callback(_see)
    try:
        async with asyncio.timeout(limit_s):
            return await ticket.outcome(future)
    except TimeoutError:
        raise ReplicaLost(f"no replica took the call within {limit_s:g} s") from None
    finally:
        future.cancel()


def _see(future: asyncio.Future[News | None]) -> None:
    """Look at the error of a call whose ticket ended first: asyncio would log it as lost."""
    if not future.cancelled():
        future.exception()


async def _or_none(stream: Stream) -> News | None:
    try:
        return await stream.__anext__()
    except StopAsyncIteration:
        return None
