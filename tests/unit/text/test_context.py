"""What a chunk leaves the next one to go on from."""

from __future__ import annotations

import numpy as np

from stentor.text.context import KEPT_CHARS, said_after
from stentor.types import SAMPLE_RATE, Chunk, Segment, Word

CHUNK = Chunk(1, 0, np.zeros(10 * SAMPLE_RATE, np.float32))


def test_it_is_what_was_said_before_and_then_what_was_heard() -> None:
    before = (Segment(" one", 0, 1),)
    heard = (Segment(" two", 0, 1), Segment(" three", 1, 2))
    assert said_after(before, CHUNK, heard) == before + heard


def test_what_was_heard_with_little_trust_is_no_ground_to_go_on_from() -> None:
    sure, unsure = Segment(" two", 0, 1, temperature=0.4), Segment(" three", 1, 2, temperature=0.6)
    assert said_after((), CHUNK, (sure,)) == (sure,)
    assert said_after((Segment(" one", 0, 1),), CHUNK, (sure, unsure)) == ()


def test_what_the_next_chunk_hears_again_is_still_to_come() -> None:
    words = tuple(Word(f" {name}", at, at + 1, 1.0, 1) for at, name in enumerate("abcdefghij"))
    spoken = Segment("".join(word.text for word in words), 0, 10, tokens=tuple(range(10)), words=words)
    shared = Chunk(1, 0, CHUNK.samples, after_samples=3 * SAMPLE_RATE)
    (left,) = said_after((), shared, (spoken,))
    assert (left.text, left.end_s, left.tokens) == (" a b c d e f g", 7, tuple(range(7)))


def test_no_more_is_kept_than_an_engine_can_take() -> None:
    said: tuple[Segment, ...] = ()
    for index in range(100):
        said = said_after(said, CHUNK, (Segment(f" {index:02} " + "word" * 25, 0, 10),))
    assert said[-1].text.startswith(" 99 ")
    chars = [len(segment.text) for segment in said]
    assert sum(chars[1:]) < KEPT_CHARS <= sum(chars)
