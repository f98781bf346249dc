"""The preprocessing pool: short steps of audio work in threads of their own, never on the event loop.

A semaphore the size of the pool stands in front of it. What waits, waits as a coroutine that a cancel
ends at once; what runs is one step, which for an audio means decoding and cutting its next chunk. A slot
is free again only when its thread is, so that the bound holds however often callers are cancelled
(releasing it with the awaiting task let the next step through 0.55 s before a thread was there to run it).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

from stentor.observe.tracing import begin
from stentor.structured import to_its_end

MAX_STEP_S = 30.0
"""A step makes 30 s of audio in some ten milliseconds, 0.4 s for the largest format we read. One that takes
longer than the audio itself is fed by a file made to be slow, and would hold a thread of all for it."""


T = TypeVar("T")


class PreprocessPool:
    """A bounded pool of threads for audio steps. Belongs to one event loop.

    Args:
        workers: Threads, and so steps that run at once. Two saturate two cores; a public measurement saw
            throughput fall again from four threads on (RTFx 1890 with two, 1273 with eight).
        max_step_s: A step that runs longer is told to end.

    Attributes:
        waiting: Steps that wait for a slot.
        running: Steps that have one.
        on_step: Called with the seconds that each step took.
    """

    def __init__(self, workers: int, *, max_step_s: float = MAX_STEP_S) -> None:
        self.workers = workers
        self._max_step_s = max_step_s
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="stentor-preprocess")
        self._slots = asyncio.Semaphore(workers)
        self.waiting = 0
        self.running = 0
        self.on_step: Callable[[float], object] = lambda seconds: None

    async def run(self, step: Callable[[], T], unwanted: threading.Event | None = None) -> T:
        """Run one step in a thread and return what it returns.

        A cancel while waiting ends the wait. A cancel while running lets the step come to its end first,
        so that nothing the step uses is closed under it, and then goes on.

        Args:
            step: Called in a thread.
            unwanted: Set when a cancel comes while the step runs, or when it takes too long, for the step to
                see and end early, by any exception.

        Raises:
            TimeoutError: The step took too long and has ended.
        """
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        unwanted = unwanted or threading.Event()
        loop = asyncio.get_running_loop()
        try:
            thread = loop.run_in_executor(self._threads, step)
        except BaseException:
            self._slots.release()
            raise
        self.running += 1
        began_s = loop.time()
        too_slow = loop.call_later(self._max_step_s, unwanted.set)

        def release(_: object) -> None:
            too_slow.cancel()
            self.running -= 1
            self._slots.release()
            self.on_step(loop.time() - began_s)

        thread.add_done_callback(release)
        try:
            return await to_its_end(thread, on_cancel=unwanted.set)
        except Exception as error:
            if unwanted.is_set():
                raise TimeoutError(f"a step took longer than {self._max_step_s:g} s") from error
            raise

    def steps(self, start: Callable[[threading.Event], Iterator[T]]) -> Steps[T]:
        """Walk an iterator step by step in the pool.

        Args:
            start: Makes the iterator; called in the first step. It is given an event that is set when
                nobody wants the running step any more, and ends early then, by any exception.
        """
        return Steps(self, start)

    def close(self) -> None:
        """End the threads as soon as their present step is done."""
        self._threads.shutdown(wait=True, cancel_futures=True)


class Steps(Generic[T]):
    """An asynchronous iterator whose every item is one step of the pool. Use it as a context."""

    def __init__(self, pool: PreprocessPool, start: Callable[[threading.Event], Iterator[T]]) -> None:
        self._pool = pool
        self._start = start
        self._unwanted = threading.Event()
        self._iterator: Iterator[T] | None = None

    async def __aenter__(self) -> Steps[T]:
        return self

    def __aiter__(self) -> Steps[T]:
        return self

    async def __anext__(self) -> T:
        with begin("preprocess"):
            item = await self._pool.run(self._step, self._unwanted)
        if item is None:
            raise StopAsyncIteration
        return item[0]

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._unwanted.set()
        if self._iterator is not None and hasattr(self._iterator, "close"):
            self._iterator.close()

    def _step(self) -> tuple[T] | None:
        """Make the next item; runs in a thread. StopIteration cannot cross a future, so None says it."""
        if self._iterator is None:
            self._iterator = self._start(self._unwanted)
        for item in self._iterator:
            return (item,)
        return None
