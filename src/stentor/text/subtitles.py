"""Segments as subtitle files: SubRip (srt) and WebVTT (vtt)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stentor.text.cues import NO_LIMITS, CueLimits, cues_of
from stentor.types import Segment

_ARROW: Final = "-->"
"""What a parser takes for the line of times, wherever it stands."""


def to_srt(segments: Sequence[Segment], limits: CueLimits = NO_LIMITS) -> str:
    """Write segments as SubRip. No segments make an empty file.

    SubRip knows no escapes, so that an arrow in the text becomes the character for it.
    """
    return "".join(
        f"{number}\n{_clock(cue.start_ms, ',')} {_ARROW} {_clock(cue.end_ms, ',')}\n"
        f"{cue.text.replace(_ARROW, '→')}\n\n"
        for number, cue in enumerate(cues_of(segments, limits), start=1)
    )


def to_vtt(segments: Sequence[Segment], limits: CueLimits = NO_LIMITS) -> str:
    """Write segments as WebVTT. No segments make a file with a header only."""
    return "WEBVTT\n\n" + "".join(
        f"{_clock(cue.start_ms, '.')} {_ARROW} {_clock(cue.end_ms, '.')}\n{_escape(cue.text)}\n\n"
        for cue in cues_of(segments, limits)
    )


def _escape(text: str) -> str:
    """The text with WebVTT's markup characters spelt out. That takes care of arrows as well."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(time_ms: int, separator: str) -> str:
    """`HH:MM:SS`, the separator, `mmm`; whole milliseconds carry over into seconds by themselves."""
    seconds, milliseconds = divmod(time_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{separator}{milliseconds:03}"
