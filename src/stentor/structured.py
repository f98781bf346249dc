"""Two small tools of structured concurrency that asyncio leaves out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(
    future: asyncio.Future[T],
    *,
    timeout_s: float | None = None,
    on_cancel: Callable[[], object] = lambda: None,
) -> T:
    """Await a future even if we are cancelled meanwhile, however often; the cancel is passed on after it.

    For what must not be left half done: a thread that uses our file, an abort that is on its way.

    Args:
        future: What to await.
        timeout_s: Give up after this long.
        on_cancel: Called at each cancel, to hurry the future up.

    Raises:
        TimeoutError: It took longer than `timeout_s`; the future is cancelled then.
    """
    loop = asyncio.get_running_loop()
    deadline_s = None if timeout_s is None else loop.time() + timeout_s
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future}, timeout=None if deadline_s is None else deadline_s - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
            continue
        if not future.done():
            future.cancel()
            raise TimeoutError
    if cancelled is None:
        return future.result()
    if not future.cancelled():
        future.exception()  # seen: asyncio would log it as lost, and whoever cancelled does not care
    try:
        raise cancelled
    finally:
        del cancelled  # its traceback holds this frame: a cycle with all that the frames below hold


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first error itself, not a group around it.

    Callers catch `AudioError` or `EngineError`; which of a request's tasks it came from is not their affair.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        try:
            raise first from None
        finally:
            del first, errors  # as in `to_its_end`
