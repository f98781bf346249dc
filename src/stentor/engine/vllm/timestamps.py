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
"""What a pass carries in `extra_args` so that the grammar holds for it: its `words_before`."""

MAX_INITIAL_STEPS = 50
"""The first timestamp is at most 1 s. Source: openai/whisper decoding.py, max_initial_timestamp."""


class Room(NamedTuple):
    """What the grammar leaves: text and timestamps, each from a token to before another."""

    text_from: int
    text_to: int
    stamps_from: int
    stamps_to: int


def room(written: Sequence[int], *, eot: int, begin: int, end: int, words_before: int = 0) -> Room:
    """What may come after what is written.

    Args:
        written: The tokens so far, without the prompt.
        eot: The end of the text, behind which no token is text.
        begin: The first timestamp.
        end: Behind the last one.
        words_before: A timestamp. A segment that begins before it has words: the text does not end there, as
            Whisper would where it is cut off (docs/decisions/0023-one-window.md).
    """
    if not written:
        return Room(begin, begin, begin, min(end, begin + MAX_INITIAL_STEPS + 1))
    last = next((token for token in reversed(written) if token >= begin), None)
    if written[-1] < begin:  # in the middle of a text: the next timestamp is later than the last
        return Room(0, begin, begin if last is None else last + 1, end)
    if len(written) < 2 or written[-2] >= begin:  # a segment begins
        wordless = len(written) < 2 or written[-1] >= words_before
        return Room(0, begin if wordless else eot, end, end)
    return Room(eot, begin, written[-1], end)  # a segment has ended: another begins, or the text ends
