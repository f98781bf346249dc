"""Notices that a client has left, and cancels what was being done for it."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive

from stentor.errors import ClientDisconnected


class cancel_on_disconnect:
    """A context whose body is cancelled when the client leaves; it raises `ClientDisconnected` then.

    Enter it only after the whole body has been received, since it eats what `receive` still gives. Any other
    cancel passes through as `CancelledError`, and errors of the body as they are. Tried on uvicorn, granian
    and hypercorn; polling `is_disconnected` fails under middleware, a dependency with `yield` leaves a
    traceback per disconnect, and a bare task group turns an HTTP error into a 500.

    Args:
        receive: The request's ASGI channel.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "runs in a task, as every ASGI handler does"
        self._task = task
        self._before = task.cancelling()
        self._watcher = asyncio.create_task(self._watch())

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._watcher.cancel()
        if self._gone and self._task.uncancel() <= self._before and exc_type is asyncio.CancelledError:
            raise ClientDisconnected("the client disconnected") from exc

    async def _watch(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - a channel that breaks is a client that cannot be answered
            pass
        self._gone = True
        self._task.cancel("client disconnected")
