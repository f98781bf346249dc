"""Waiting for what has no event of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool]) -> None:
    """Look every millisecond until a condition holds; the test's own timeout is the limit.

    The pause leaves the GIL to the threads under test: a loop that only spins makes them ten times slower.
    """
    while not condition():  # noqa: ASYNC110 - the state belongs to code under test, which offers no event
        await asyncio.sleep(0.001)
