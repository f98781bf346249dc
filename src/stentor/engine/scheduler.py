"""Who computes next: a fair queue before a fixed number of compute slots.

A runtime with blocking calls is given no more calls than it has workers, so that everything that waits,
waits here, where an abort takes it out at once (CTranslate2 blocks the submitter when its own queue is full
and cannot take a call back).

The order is start-time fair queuing (Goyal, Vin and Cheng, SIGCOMM 1996) with a request's audio seconds as
its cost: a request that has just come starts at the present virtual time and so goes before the later chunks
of any long file. A stream of new requests without end would so keep old ones waiting without end; therefore
every eighth turn goes to whoever has waited longest.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from stentor.errors import EngineAborted, EngineError, StentorError
from stentor.types import EngineRequest

OLDEST_EVERY = 8
"""Turns between those that go by waiting time alone: a long file under a flood of clips keeps an eighth."""

P = ParamSpec("P")
T = TypeVar("T")


class Slot:
    """The right to compute for one engine request, from its turn until its last call has ended."""

    def __init__(self, scheduler: Scheduler, request: EngineRequest) -> None:
        self.request = request
        self._scheduler = scheduler
        loop = asyncio.get_running_loop()
        self.turn: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.call: asyncio.Future[Any] | None = None

    def end(self, error: StentorError) -> None:
        """Let whoever waits for this slot, or for a call in it, raise `error`."""
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # seen: nobody may be waiting

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in one of the scheduler's threads.

        An abort is answered at once; the call goes on to its end in its thread and holds the slot.

        Raises:
            EngineAborted: The engine request was aborted before or during the call.
            EngineError: The call raised, and the engine is dead.
        """
        if self.ended.done():
            self.ended.result()
        future = self._scheduler.submit(lambda: call(*args, **kwargs))
        self.call = future
        return await self.outcome(future)

    async def outcome(self, future: asyncio.Future[T]) -> T:
        """What the future comes to, or why the slot ended before. The future is left as it is."""
        either: set[asyncio.Future[Any]] = {future, self.ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self.ended.done():
            self.ended.result()
        return future.result()


class Scheduler:
    """A fixed number of compute threads and the fair queue before them."""

    def __init__(self, slots: int, thread_name: str) -> None:
        self.slots = slots
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix=thread_name)
        self._queue: list[tuple[float, int, Slot]] = []
        self._order = itertools.count()
        self._turns = 0
        self._known: dict[str, Slot] = {}
        self._virtual_s = 0.0
        self._finish_s: dict[str, float] = {}
        self._open: dict[str, int] = {}
        self.running = 0
        self.dead: str | None = None

    @property
    def queued(self) -> int:
        return len(self._queue)

    @asynccontextmanager
    async def slot(self, request: EngineRequest) -> AsyncIterator[Slot]:
        """Wait for a turn and hold a slot.

        Raises:
            EngineAborted: The engine request was aborted while it waited.
            EngineError: The engine is dead.
        """
        if self.dead is not None:
            raise EngineError(f"the engine is dead: {self.dead}")
        slot = Slot(self, request)
        self._known[request.id] = slot
        self._open[request.request_id] = self._open.get(request.request_id, 0) + 1
        try:
            self._enqueue(slot)
            await slot.outcome(slot.turn)
            yield slot
        finally:
            self._leave(slot)

    def abort(self, request_ids: Collection[str]) -> None:
        """End these engine requests; a call that runs keeps its slot until it returns."""
        for request_id in request_ids:
            slot = self._known.get(request_id)
            if slot is not None:
                slot.end(EngineAborted(f"engine request {request_id} was aborted"))

    def die(self, reason: str) -> EngineError:
        """Mark the engine dead, end every slot, and return the error that says so."""
        self.dead = self.dead or reason
        error = EngineError(f"the engine died: {self.dead}")
        for slot in self._known.values():
            slot.end(error)
        return error

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Hand a call to the threads. If it raises what no call should, the engine is dead."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        future.add_done_callback(self._autopsy)
        return future

    def _autopsy(self, call: asyncio.Future[T]) -> None:
        error = None if call.cancelled() else call.exception()
        if error is not None and not isinstance(error, StentorError):
            self.die(f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """End all slots, wait for the calls that run, and free the threads."""
        self.die("closed")
        # The wait itself happens in a thread of the default executor: a call may take a second to end.
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    def _enqueue(self, slot: Slot) -> None:
        request = slot.request
        start_s = max(self._virtual_s, self._finish_s.get(request.request_id, 0.0))
        self._finish_s[request.request_id] = start_s + request.chunk.duration_s
        heapq.heappush(self._queue, (start_s, next(self._order), slot))
        self._dispatch()

    def _dispatch(self) -> None:
        while self._queue and self.running < self.slots:
            self._virtual_s = max(self._virtual_s, self._queue[0][0])
            slot = self._next()
            self.running += 1
            slot.turn.set_result(None)

    def _next(self) -> Slot:
        self._turns += 1
        if self._turns % OLDEST_EVERY:
            return heapq.heappop(self._queue)[-1]
        oldest = min(self._queue, key=lambda entry: entry[1])[-1]
        self._drop(oldest)
        return oldest

    def _drop(self, slot: Slot) -> None:
        self._queue = [entry for entry in self._queue if entry[-1] is not slot]
        heapq.heapify(self._queue)

    def _leave(self, slot: Slot) -> None:
        """Forget a slot; its place is free when its last call has ended."""
        request = slot.request
        if self._known.get(request.id) is slot:
            del self._known[request.id]
        self._open[request.request_id] -= 1
        if not self._open[request.request_id]:
            del self._open[request.request_id], self._finish_s[request.request_id]
        if not slot.turn.done():
            self._drop(slot)
        elif slot.call is None or slot.call.done():
            self._free()
        else:
            slot.call.add_done_callback(self._free)

    def _free(self, _: object = None) -> None:
        self.running -= 1
        self._dispatch()
