"""Who computes next: a fair queue before a fixed number of slots.

A runtime with blocking calls is given no more calls than it has workers, so that everything that waits,
waits here, where an abort takes it out at once (CTranslate2 blocks the submitter when its own queue is full
and cannot take a call back). A slot is given for one call, not for one engine request: between two calls of
a long file's chunk a short clip gets its turn.

The order is start-time fair queuing (Goyal, Vin and Cheng, SIGCOMM 1996) with a request's audio seconds as
its cost: a request that has just come starts at the present virtual time and so goes before the later chunks
of any long file; of those that start at the same time first chunks go first, and then whoever came first. A
stream of new requests without end would so keep old ones waiting without end; therefore every eighth turn
goes to whoever has waited longest. Where there are slots enough, later chunks leave some of them free, and
those are not given away by waiting time either.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

from stentor.engine.base import EngineHealth
from stentor.errors import EngineAborted, EngineError, StentorError
from stentor.types import EngineRequest

OLDEST_EVERY = 8
"""Turns between those that go by waiting time alone: a long file under a flood of clips keeps an eighth."""

P = ParamSpec("P")
T = TypeVar("T")


class Place(NamedTuple):
    """Where an engine request stands in the queue, with each of its calls."""

    start_s: float
    chunk_index: int
    order: int

    @property
    def first(self) -> bool:
        """Whether it is its request's first chunk, all there is of a short clip."""
        return self.chunk_index == 0


class Ticket:
    """An engine request among the others: it may compute, call after call, until it ends or is aborted."""

    def __init__(self, scheduler: Scheduler, request: EngineRequest, place: Place) -> None:
        self.request = request
        self.place = place
        self._scheduler = scheduler
        self._ended: asyncio.Future[StentorError] = asyncio.get_running_loop().create_future()
        self._call: asyncio.Future[Any] | None = None

    @property
    def urgent(self) -> bool:
        """Whether it goes before what computes already: others are there, and its request has had nothing."""
        return self.place.first and self._scheduler.requests > 1

    def end(self, error: StentorError) -> None:
        """Let whoever waits for a slot, or for a call in it, raise `error`."""
        if not self._ended.done():
            self._ended.set_result(error)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Wait for a slot and run a blocking call in one of the scheduler's threads.

        An abort is answered at once; a call that runs goes on to its end in its thread and holds the slot.

        Raises:
            EngineAborted: The engine request was aborted before or during the call.
            EngineError: The call raised, and the engine is dead.
        """
        async with self.slot():
            return await self.compute(call, *args, **kwargs)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it; it is free again when the last call in it has ended.

        Raises:
            EngineAborted: The engine request was aborted while it waited.
            EngineError: The engine is dead.
        """
        self._check()
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._call = None
        asked_s, given_s = loop.time(), None
        self._scheduler.enqueue(self.place, turn)
        try:
            await self.outcome(turn)
            given_s = loop.time()
            yield
        finally:
            self._scheduler.leave(turn, self._call)
            left_s = loop.time()
            self.request.report.queued_s += (given_s or left_s) - asked_s
            self.request.report.computed_s += left_s - (given_s or left_s)

    async def compute(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in the slot held; see `run`."""
        return await self.occupy(self._scheduler.submit(lambda: call(*args, **kwargs)))

    async def occupy(self, future: asyncio.Future[T]) -> T:
        """Await what is computed elsewhere in the slot held, which stays taken until the future is done."""
        self._call = future
        return await self.outcome(future)

    async def outcome(self, future: asyncio.Future[T]) -> T:
        """What the future comes to, or why the ticket ended before. The future is left as it is."""
        either: set[asyncio.Future[Any]] = {future, self._ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        self._check()
        return future.result()

    def _check(self) -> None:
        if self._ended.done():
            # A new error each time: one that is kept here would keep the frames that it passed through, and
            # with them this ticket and its audio, until the next full garbage collection.
            error = self._ended.result()
            raise type(error)(error.message)


class Scheduler:
    """A fixed number of compute threads and the fair queue before them.

    Args:
        slots: Calls that compute at once.
        thread_name: What the threads are called.
        reserved: Slots of these that later chunks of long files leave free, so that a clip finds one.
    """

    def __init__(self, slots: int, thread_name: str, *, reserved: int = 0) -> None:
        self.slots = slots
        self._reserved = reserved
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix=thread_name)
        self._queue: list[tuple[Place, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._turns = 0
        self._later: set[asyncio.Future[None]] = set()  # turns of later chunks that have a slot
        self._tickets: dict[str, Ticket] = {}
        self._virtual_s = 0.0
        self._finish_s: dict[str, float] = {}
        self._open: dict[str, int] = {}
        self.running = 0
        self.dead: str | None = None

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def requests(self) -> int:
        """How many have something to compute."""
        return len(self._open)

    @asynccontextmanager
    async def ticket(self, request: EngineRequest) -> AsyncIterator[Ticket]:
        """Take an engine request in for as long as the context lasts.

        Raises:
            EngineError: The engine is dead.
        """
        if self.dead is not None:
            raise EngineError(f"the engine is dead: {self.dead}")
        ticket = Ticket(self, request, self._place(request))
        self._tickets[request.id] = ticket
        self._open[request.request_id] = self._open.get(request.request_id, 0) + 1
        try:
            yield ticket
        finally:
            self._forget(ticket)

    def abort(self, request_ids: Collection[str]) -> None:
        """End these engine requests; a call that runs keeps its slot until it returns."""
        for request_id in request_ids:
            ticket = self._tickets.get(request_id)
            if ticket is not None:
                ticket.end(EngineAborted(f"engine request {request_id} was aborted"))

    def health(self) -> EngineHealth:
        """How an engine that computes in these slots is."""
        return EngineHealth(self.dead is None, self.running, self.queued, self.dead)

    def die(self, reason: str) -> EngineError:
        """Mark the engine dead, end every ticket, and return the error that says so."""
        self.dead = self.dead or reason
        error = EngineError(f"the engine died: {self.dead}")
        for ticket in self._tickets.values():
            ticket.end(error)
        return error

    async def close(self) -> None:
        """End all tickets, wait for the calls that run, and free the threads."""
        self.die("closed")
        # The wait itself happens in a thread of the default executor: a call may take a second to end.
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    def resize(self, slots: int, *, reserved: int = 0) -> None:
        """Have more slots, or fewer as soon as those that are taken are free. The threads stay as many."""
        self.slots, self._reserved = slots, reserved
        self._dispatch()

    def enqueue(self, place: Place, turn: asyncio.Future[None]) -> None:
        """Put a call into the queue; its turn is set when it has a slot."""
        self._queue.append((place, turn))
        self._dispatch()

    def leave(self, turn: asyncio.Future[None], call: asyncio.Future[Any] | None) -> None:
        """Give up a turn: its place in the queue, or its slot as soon as its call has ended."""
        if not turn.done():
            self._drop(turn)
        elif call is None or call.done():
            self._free(turn)
        else:
            call.add_done_callback(lambda _: self._free(turn))

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Hand a call to the threads. If it raises what no call should, the engine is dead."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        future.add_done_callback(self._autopsy)
        return future

    def _autopsy(self, call: asyncio.Future[T]) -> None:
        error = None if call.cancelled() else call.exception()
        if error is not None and not isinstance(error, StentorError):
            self.die(f"{type(error).__name__}: {error}")

    def _place(self, request: EngineRequest) -> Place:
        start_s = max(self._virtual_s, self._finish_s.get(request.request_id, 0.0))
        self._finish_s[request.request_id] = start_s + request.chunk.duration_s
        return Place(start_s, request.chunk.index, next(self._order))

    def _dispatch(self) -> None:
        while self.running < self.slots and (entry := self._next()) is not None:
            self._virtual_s = max(self._virtual_s, min(self._queue)[0].start_s)
            self._turns += 1
            self._queue.remove(entry)
            self.running += 1
            if not entry[0].first:
                self._later.add(entry[1])
            entry[1].set_result(None)

    def _next(self) -> tuple[Place, asyncio.Future[None]] | None:
        """Whose turn it is, if anybody's."""
        waiting, unreserved = self._queue, self.slots - self._reserved
        if self.running >= unreserved:
            waiting = [entry for entry in waiting if entry[0].first]
        if waiting and (self._turns + 1) % OLDEST_EVERY == 0 and len(self._later) < unreserved:
            return min(self._queue, key=lambda entry: entry[0].order)
        return min(waiting, default=None)

    def _drop(self, turn: asyncio.Future[None]) -> None:
        self._queue = [entry for entry in self._queue if entry[-1] is not turn]

    def _free(self, turn: asyncio.Future[None]) -> None:
        self.running -= 1
        self._later.discard(turn)
        # In the loop's next turn, so that whoever has just ended a call can ask for the next one first: all
        # requests would else be half done before any is whole, each with its encoder's output in memory.
        asyncio.get_running_loop().call_soon(self._dispatch)

    def _forget(self, ticket: Ticket) -> None:
        request = ticket.request
        if self._tickets.get(request.id) is ticket:
            del self._tickets[request.id]
        self._open[request.request_id] -= 1
        if not self._open[request.request_id]:
            del self._open[request.request_id], self._finish_s[request.request_id]
