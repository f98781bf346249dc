"""Saying no early: what may come in is decided before any of its bytes are read.

A place is held from the first byte of a request to its last. Three budgets bound all places together: how
many there are, how much audio waits in them, and how many bytes of uploads lie on disk. Whoever finds a
budget spent is told when to come back, each a little later than the one before, at the pace at which places
have been coming free: so that all who were refused do not return at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stentor.errors import Draining, Overloaded

MEMORY_S = 30.0
"""Seconds of work after which what was seen counts for a third in a measured pace: several chunks of thirty
seconds, on a slow machine as well."""

FIRST_RETRY_S = 1.0
"""How long a place is thought to be held while nothing has been measured yet."""

MAX_RETRY_S = 60.0
"""OpenAI's client takes no advice to wait for longer (openai 3.57, _calculate_retry_timeout)."""

BYTES_PER_S = 16_000
"""Bytes a second of audio takes, until its header has been read: 128 kbit/s, between mp3 and plain wav."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """What all requests under way may hold together."""

    max_requests: int
    max_queued_audio_s: float
    max_stored_bytes: int


class Pace:
    """How much has been done in a second lately, of those in which there was work.

    Amount and time are summed up and fade together. What is done comes in bursts, as a batch ends all its
    chunks within milliseconds: each one's own rate would be in the thousands, and so would their mean.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s = clock()
        self._done = 0.0
        self._spent_s = 0.0

    def begin(self) -> None:
        """Note that there is work from now on, and was none."""
        self._since_s = self._clock()

    def advance(self, done: float) -> None:
        """Note what was done since the last time."""
        now_s = self._clock()
        passed_s, self._since_s = now_s - self._since_s, now_s
        left = math.exp(-passed_s / MEMORY_S)
        self._done = self._done * left + done
        self._spent_s = self._spent_s * left + passed_s

    def seconds_for(self, amount: float) -> float | None:
        """How long so much will take; None while nothing has been done."""
        return amount * self._spent_s / self._done if self._done else None


class Place:
    """What one admitted request holds of the budgets.

    Attributes:
        duration_s: Asks how long the audio is; None until somebody knows. Set by whoever reads it.
    """

    def __init__(self, admission: Admission, declared_bytes: int) -> None:
        self._admission = admission
        self._declared_bytes = declared_bytes
        self._received_bytes = 0
        self._done_s = 0.0
        self.duration_s: Callable[[], float | None] = lambda: None

    @property
    def stored_bytes(self) -> int:
        return max(self._declared_bytes, self._received_bytes)

    @property
    def waiting_audio_s(self) -> float:
        """Audio that is not transcribed yet: by its header, or guessed from its size."""
        known_s = self.duration_s()
        total_s = self.stored_bytes / BYTES_PER_S if known_s is None else known_s
        return max(0.0, total_s - self._done_s)

    def receive(self, received_bytes: int) -> None:
        """Count the bytes received so far.

        Raises:
            Overloaded: They are more than were declared, and the disk budget is spent.
        """
        grown = received_bytes > self.stored_bytes
        self._received_bytes = received_bytes
        if grown:
            self._admission.check_stored_bytes()

    def advance(self, done_s: float) -> None:
        """Note how far the transcript has come."""
        self._admission.audio_pace.advance(done_s - self._done_s)
        self._done_s = done_s


class Admission:
    """Gives out places.

    Args:
        budgets: Bounds over all of them.
        clock: Seconds, monotonic.

    Attributes:
        audio_pace: At which the queue shortens, in audio seconds.
        draining: Set to take no new work any more.
        finished: Places given back so far.
    """

    def __init__(self, budgets: Budgets, clock: Callable[[], float] = time.monotonic) -> None:
        self._budgets = budgets
        self._clock = clock
        self._places: set[Place] = set()
        self._freed = Pace(clock)
        self._line_s = 0.0
        self.audio_pace = Pace(clock)
        self.draining = False
        self.finished = 0

    @property
    def active(self) -> int:
        return len(self._places)

    @property
    def queued_audio_s(self) -> float:
        return sum(place.waiting_audio_s for place in self._places)

    @property
    def stored_bytes(self) -> int:
        return sum(place.stored_bytes for place in self._places)

    @property
    def open(self) -> bool:
        """Whether new work is welcome."""
        return (
            not self.draining
            and self.active < self._budgets.max_requests
            and self.queued_audio_s < self._budgets.max_queued_audio_s
            and self.stored_bytes < self._budgets.max_stored_bytes
        )

    @contextmanager
    def request(self, declared_bytes: int | None) -> Iterator[Place]:
        """Hold a place for as long as a request is under way.

        A request that finds the house empty is let in whatever it brings; limits for one request alone are
        not these.

        Raises:
            Draining: The server takes no new work any more.
            Overloaded: A budget is spent; `retry_after_s` is when it is likely to be worth coming back.
        """
        if self.draining:
            raise Draining("the server is shutting down", retry_after_s=FIRST_RETRY_S)
        place = Place(self, declared_bytes or 0)
        if self._places:
            self._check(place)
        else:
            self._freed.begin()
            self.audio_pace.begin()
        self._places.add(place)
        try:
            yield place
        finally:
            self._places.discard(place)
            self.finished += 1
            self._freed.advance(1)

    def check_stored_bytes(self) -> None:
        """Refuse what goes on arriving when the disk budget is spent.

        Raises:
            Overloaded: It is.
        """
        if self.active > 1 and self.stored_bytes > self._budgets.max_stored_bytes:
            raise self._full(f"uploads hold {self.stored_bytes:,} bytes, the limit is", "max_stored_bytes")

    def _check(self, place: Place) -> None:
        budgets = self._budgets
        if self.active >= budgets.max_requests:
            raise self._full(f"{self.active} requests are under way, the limit is", "max_requests")
        queued_s = self.queued_audio_s + place.waiting_audio_s
        if queued_s > budgets.max_queued_audio_s:
            excess_s = queued_s - budgets.max_queued_audio_s
            wait_s = self.audio_pace.seconds_for(excess_s) or FIRST_RETRY_S
            raise self._full(
                f"{queued_s:,.0f} s of audio would wait, the limit is", "max_queued_audio_s", wait_s
            )
        if self.stored_bytes + place.stored_bytes > budgets.max_stored_bytes:
            total = self.stored_bytes + place.stored_bytes
            raise self._full(f"uploads would hold {total:,} bytes, the limit is", "max_stored_bytes")

    def _full(self, what: str, budget: str, wait_s: float = 0.0) -> Overloaded:
        now_s = self._clock()
        interval_s = self._freed.seconds_for(1) or FIRST_RETRY_S / self._budgets.max_requests
        self._line_s = max(now_s, self._line_s) + interval_s
        retry_after_s = min(MAX_RETRY_S, max(self._line_s - now_s, wait_s))
        limit = getattr(self._budgets, budget)
        return Overloaded(f"{what} {limit:,}; try again later", retry_after_s=retry_after_s)
