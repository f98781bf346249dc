"""What `stentor bench chaos` found, and the checks that it must pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stentor.bench.cases import CASES, Kind
from stentor.bench.footprint import Footprint
from stentor.bench.series import ENDED, RECEIVED, Series

MEMORY_SLACK_BYTES = 32_000_000
"""Growth that is no leak: an allocator's pieces, and 350 bytes per chunk that the fake engine remembers.

Fourteen short runs on a busy machine ended 15 MB lower to 17 MB higher than they were when warm. Ten thousand
requests that leak 4 kB each exceed it.
"""

FD_SLACK = 4
THREAD_SLACK = 4
"""Pools start their last threads late. Ten thousand requests with a leak in one of a thousand exceed both."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one request ended. `wrong` is None when it ended as its case must."""

    number: int
    case: str
    wrong: str | None


@dataclass(frozen=True, slots=True)
class Settled:
    """A server after its requests.

    `late` when it did not come to rest in time, `gone` when it does not answer any more; what is not watched
    is None.
    """

    late: bool = False
    gone: str | None = None
    series: Series | None = None
    footprint: Footprint | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold at the end."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True, slots=True)
class ChaosResult:
    """All that came of a plan: how every request ended, and the server after a first fifth and at the end."""

    endings: tuple[Ending, ...]
    wall_s: float
    warm: Settled
    end: Settled

    @property
    def wrong(self) -> tuple[Ending, ...]:
        return tuple(ending for ending in self.endings if ending.wrong is not None)

    def checks(self) -> Iterator[Check]:
        """What was checked, in the order of the report."""
        for kind in Kind:
            yield _ended_well(kind, self.endings)
        yield Check("alive", self.end.gone is None, self.end.gone or "-")
        if self.end.gone is None:
            yield _at_rest(self.end)
        if self.end.series is not None:
            yield _balanced(self.end.series)
        if self.warm.footprint is not None and self.end.footprint is not None:
            yield from _kept(self.warm.footprint, self.end.footprint)


def _ended_well(kind: Kind, endings: tuple[Ending, ...]) -> Check:
    own = [ending for ending in endings if CASES[ending.case].kind is kind]
    wrong = sum(ending.wrong is not None for ending in own)
    return Check(kind.value, not wrong, f"{wrong} of {len(own)} wrong")


def _at_rest(end: Settled) -> Check:
    busy = {} if end.series is None else end.series.at_work
    found = ", ".join(f"{gauge}={value:g}" for gauge, value in busy.items())
    return Check("rest", not end.late and not busy, found or ("CPU is busy" if end.late else "-"))


def _balanced(series: Series) -> Check:
    """Every request that a server received has ended, in one way, by its own books."""
    received, ended = series.by_endpoint(RECEIVED), series.by_endpoint(ENDED)
    found = [
        f"{endpoint}: received {received.get(endpoint, 0):g}, ended {ended.get(endpoint, 0):g}"
        for endpoint in sorted(received | ended)
    ]
    return Check("books", received == ended and bool(received), "; ".join(found) or "nothing was counted")


def _kept(warm: Footprint, end: Footprint) -> Iterator[Check]:
    """Nothing has grown since the server was warm."""
    grown = end.rss_bytes - warm.rss_bytes
    memory = f"{warm.rss_bytes / 1e6:.1f} MB {grown / 1e6:+.1f}, allowed {MEMORY_SLACK_BYTES / 1e6:+.0f}"
    yield Check("memory", grown <= MEMORY_SLACK_BYTES, memory)
    for name, before, after, slack in (
        ("fds", warm.fds, end.fds, FD_SLACK),
        ("threads", warm.threads, end.threads, THREAD_SLACK),
        ("temp_files", warm.temp_files, end.temp_files, 0),
    ):
        yield Check(name, after - before <= slack, f"{before} {after - before:+d}, allowed {slack:+d}")
