"""Waiting for what has no event of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds; the test's own timeout is the limit."""
    while not condition():  # noqa: ASYNC110 - the state belongs to code under test, which offers no event
        await asyncio.sleep(0)
