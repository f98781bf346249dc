"""Segments as subtitle files: SubRip (srt) and WebVTT (vtt)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stentor.types import Segment

MIN_CUE_MS: Final = 20
"""The shortest cue. Players drop cues without length; 20 ms is the step of Whisper's own timestamps."""

_ARROW: Final = "-->"
"""What a parser takes for the line of times, wherever it stands."""


@dataclass(slots=True)
class _Cue:
    start_ms: int
    end_ms: int
    text: str


def to_srt(segments: Sequence[Segment]) -> str:
    """Write segments as SubRip. No segments make an empty file.

    SubRip knows no escapes, so that an arrow in the text becomes the character for it.
    """
    return "".join(
        f"{number}\n{_clock(cue.start_ms, ',')} {_ARROW} {_clock(cue.end_ms, ',')}\n"
        f"{cue.text.replace(_ARROW, '→')}\n\n"
        for number, cue in enumerate(_cues(segments), start=1)
    )


def to_vtt(segments: Sequence[Segment]) -> str:
    """Write segments as WebVTT. No segments make a file with a header only."""
    return "WEBVTT\n\n" + "".join(
        f"{_clock(cue.start_ms, '.')} {_ARROW} {_clock(cue.end_ms, '.')}\n{_escape(cue.text)}\n\n"
        for cue in _cues(segments)
    )


def _cues(segments: Sequence[Segment]) -> list[_Cue]:
    """Cues in the segments' order that have length and do not overlap; blank segments make none.

    A cue ends where the next one starts at the latest. Where that would leave it without length, it keeps
    `MIN_CUE_MS` and the next one starts later.
    """
    cues: list[_Cue] = []
    for segment in segments:
        text = _tidy(segment.text)
        if not text:
            continue
        start_ms = max(0, round(segment.start_s * 1000))
        if cues:
            previous = cues[-1]
            previous.end_ms = max(previous.start_ms + MIN_CUE_MS, min(previous.end_ms, start_ms))
            start_ms = max(start_ms, previous.end_ms)
        cues.append(_Cue(start_ms, max(start_ms + MIN_CUE_MS, round(segment.end_s * 1000)), text))
    return cues


def _tidy(text: str) -> str:
    """The text without outer white space and without blank lines, which would end a cue early."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _escape(text: str) -> str:
    """The text with WebVTT's markup characters spelt out. That takes care of arrows as well."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(time_ms: int, separator: str) -> str:
    """`HH:MM:SS`, the separator, `mmm`; whole milliseconds carry over into seconds by themselves."""
    seconds, milliseconds = divmod(time_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{separator}{milliseconds:03}"
