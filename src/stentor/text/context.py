"""What was said before a chunk, for an engine that hears one chunk after the other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from stentor.text.seams import upto
from stentor.types import SAMPLE_RATE, Chunk, Segment
from stentor.whisper.rules import is_unsure

KEPT_CHARS = 2_000
"""More than any engine takes: Whisper's 223 tokens are about 900 characters of English."""


def said_after(before: Sequence[Segment], chunk: Chunk, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """What has been said when a chunk ends, of what was said before it and what was heard in it.

    The next chunk begins with the last `after_samples` of this one: what is said there is still to come.

    Args:
        before: What was said before the chunk, each segment in the timeline of its own chunk.
        chunk: The chunk.
        segments: What was heard in it, in its timeline.
    """
    if is_unsure(segments):
        return ()
    if chunk.after_samples:
        segments = upto(segments, chunk.duration_s - chunk.after_samples / SAMPLE_RATE)
    said = [*before, *segments]
    chars_to_end = list(accumulate(len(segment.text) for segment in reversed(said)))
    return tuple(said[-1 - bisect_left(chars_to_end, KEPT_CHARS) :])
