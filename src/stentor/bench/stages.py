"""Where in its life a request is left: the stages of `stentor bench cancel`, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stentor.bench.series import DECODED, QUEUED, RUNNING, WAITING, Series

MANY = 16
"""Requests over few slots: more of them than any decoding threads, and their chunks outnumber the slots."""

DECODED_SHARE = 0.4
"""Of the audio, for its first chunks to be done. A request decodes two chunks per slot ahead of the engine:
with two slots and 600 s that is 112 s, so that at 240 s some 5 of its 22 chunks are done."""

Condition: TypeAlias = Callable[[Series, Series, float], bool]
"""Whether the moment to leave has come: by the series before, those of now, and the seconds of the audio."""


@dataclass(frozen=True, slots=True)
class Stage:
    """So many requests at once, and when all of them are left.

    With neither `when` nor `after_s` that is as soon as all that shall be sent is sent.

    Attributes:
        requests: How many.
        long: Whether the audio is long, or makes one chunk.
        sent: The share of the form that is sent.
        language: None lets the server detect it.
        when: The moment, for a server whose series can be read.
        after_s: Seconds after the first byte, where there is no `when` or it cannot be seen.
    """

    requests: int = 1
    long: bool = True
    sent: float = 1.0
    language: str | None = "en"
    when: Condition | None = None
    after_s: float | None = None


STAGES: Mapping[str, Stage] = {
    "uploading": Stage(sent=0.5),
    "uploaded": Stage(),
    "decoding": Stage(MANY, when=lambda before, now, audio_s: now[WAITING] >= 1, after_s=1.0),
    "queued": Stage(MANY, when=lambda before, now, audio_s: now[QUEUED] >= MANY, after_s=5.0),
    "engine": Stage(
        when=lambda before, now, audio_s: now[DECODED] - before[DECODED] >= DECODED_SHARE * audio_s,
        after_s=5.0,
    ),
    # The first that an engine is given is the probe, unless its model knows one language only.
    "language": Stage(language=None, when=lambda before, now, audio_s: now[RUNNING] >= 1, after_s=1.0),
    "one_chunk": Stage(long=False, when=lambda before, now, audio_s: now[RUNNING] >= 1, after_s=0.5),
    "dropped": Stage(8, after_s=2.0),
}
