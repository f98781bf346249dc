"""Saying no early: what may come in is decided before any of its bytes are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stentor.errors import Draining, Overloaded

SMOOTHING = 0.2
"""Weight of the newest interval in the drain rate: about the last ten requests count."""

FIRST_RETRY_S = 1.0
"""Retry-After while nothing has been measured yet."""


class Admission:
    """A budget of requests under way.

    Args:
        max_requests: How many.
        clock: Seconds, monotonic.
    """

    def __init__(self, max_requests: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_requests = max_requests
        self._clock = clock
        self._last_end_s: float | None = None
        self._interval_s = FIRST_RETRY_S
        self.active = 0
        self.draining = False

    @property
    def open(self) -> bool:
        """Whether new work is welcome."""
        return not self.draining and self.active < self._max_requests

    @contextmanager
    def request(self) -> Iterator[None]:
        """Hold a place for as long as a request is under way.

        Raises:
            Draining: The server takes no new work any more.
            Overloaded: All places are taken; `retry_after_s` is when one is likely to be free.
        """
        if self.draining:
            raise Draining("the server is shutting down", retry_after_s=self._retry_after_s)
        if self.active >= self._max_requests:
            raise Overloaded(
                f"{self.active} requests are under way, the limit is {self._max_requests}; try again later",
                retry_after_s=self._retry_after_s,
            )
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
            self._measure()

    @property
    def _retry_after_s(self) -> float:
        return max(FIRST_RETRY_S, self._interval_s)

    def _measure(self) -> None:
        now_s = self._clock()
        if self._last_end_s is not None:
            self._interval_s += SMOOTHING * (now_s - self._last_end_s - self._interval_s)
        self._last_end_s = now_s
