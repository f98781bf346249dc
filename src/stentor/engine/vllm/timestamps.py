"""Whisper's timestamp grammar: what may come after what is written.

`<|t0|> text <|t1|> <|t1|> text <|t2|> …`: timestamps come in pairs but for the first and the last, and never
go back. Source: openai/whisper decoding.py, ApplyTimestampRules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

CONFIG = "stentor_timestamps"
"""Where in vLLM's `additional_config` the vocabulary's landmarks are: `eot`, `begin` and `barred` tokens."""

WANTED = "stentor_timestamps"
"""What a pass carries in `extra_args` so that the grammar holds for it."""

MAX_INITIAL_STEPS = 50
"""The first timestamp is at most 1 s. Source: openai/whisper decoding.py, max_initial_timestamp."""


class Room(NamedTuple):
    """What the grammar leaves: text from `text_from` on, and timestamps in [`stamps_from`, `stamps_to`)."""

    text_from: int
    stamps_from: int
    stamps_to: int


def room(written: Sequence[int], *, eot: int, begin: int, end: int) -> Room:
    """What may come after what is written.

    Args:
        written: The tokens so far, without the prompt.
        eot: The end of the text, behind which no token is text.
        begin: The first timestamp.
        end: Behind the last one.
    """
    if not written:
        return Room(begin, begin, min(end, begin + MAX_INITIAL_STEPS + 1))
    last = next((token for token in reversed(written) if token >= begin), None)
    if written[-1] < begin:  # in the middle of a text: the next timestamp is later than the last
        return Room(0, begin if last is None else last + 1, end)
    if len(written) < 2 or written[-2] >= begin:  # a segment begins
        return Room(0, end, end)
    return Room(eot, written[-1], end)  # a segment has ended: another begins, or the text ends
