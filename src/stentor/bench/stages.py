"""Where in its life a request is left: the stages of `stentor bench cancel`, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stentor.bench.series import DECODED, QUEUED, RUNNING, WAITING, Series

Condition: TypeAlias = Callable[[Series, float], bool]
"""Whether the moment to leave has come, by the series that grew and the gauges that stand; and the seconds of
a long audio."""

DECODED_SHARE = 0.4
"""Of a long audio, decoded: its first chunks are done. The road decodes two more chunks per slot than the
engine has done; with two slots and 600 s that is 112 s ahead, so 240 s say that about 5 of 22 are done."""

QUEUED_PER_REQUEST = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """So many requests at once, and when they are left.

    With neither `when` nor `after_s` they are left as soon as all that shall be sent is sent.

    Attributes:
        requests: All of them are left at once.
        long: Whether the audio is long, or makes one chunk.
        sent: The share of the form that is sent.
        language: None lets the server detect it.
        when: The moment to leave, for a server whose series can be read.
        after_s: Seconds from the first byte to the leaving: for every server, or where `when` cannot be seen.
    """

    requests: int = 1
    long: bool = True
    sent: float = 1.0
    language: str | None = "en"
    when: Condition | None = None
    after_s: float | None = None


def _audio_waits(now: Series, long_s: float) -> bool:
    return now[WAITING] >= 1


def _many_queued(now: Series, long_s: float) -> bool:
    return now[QUEUED] >= MANY


def _some_done(now: Series, long_s: float) -> bool:
    return now[DECODED] >= DECODED_SHARE * long_s


def _computing(now: Series, long_s: float) -> bool:
    return now[RUNNING] >= 1


MANY = 16
"""Requests over few slots: at least as many chunks wait for the engine, and files for their decoding."""

STAGES: Mapping[str, Stage] = {
    "uploading": Stage(sent=0.5),
    "uploaded": Stage(),
    "decoding": Stage(MANY, when=_audio_waits, after_s=1.0),
    "queued": Stage(MANY, when=_many_queued, after_s=5.0),
    "engine": Stage(when=_some_done, after_s=5.0),
    # The first work that the engine is given is the probe, unless its model knows one language only.
    "language": Stage(language=None, when=_computing, after_s=1.0),
    "one_chunk": Stage(long=False, when=_computing, after_s=0.5),
    "dropped": Stage(8, after_s=2.0),
}
