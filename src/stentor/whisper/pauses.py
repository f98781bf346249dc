"""Where nobody speaks, and so where the words beside it end and begin.

Where a decoder looks tells when a word is spoken to a few tenths of a second; its last sound often goes on
while the decoder already looks at the next word. Where there is a pause, the sound itself tells better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stentor.types import SAMPLE_RATE, Chunk, Samples, Word

FRAME_S = 0.01
FRAME_SAMPLES = round(FRAME_S * SAMPLE_RATE)

SHORTEST_S = 0.1
"""Shorter ones are in the middle of words: the closure before a p or a t lasts up to 0.08 s."""

BELOW_SPEECH_DB = 30.0
"""What is so far below the loud parts of speech is no speech."""

ABOVE_NOISE = 0.3
"""Where noise leaves less room: so far up from the noise to the speech, in dB, is still noise."""

LEAST_RANGE_DB = 12.0
"""Where speech is not louder than the rest by so much, levels tell nothing: music, hum, many voices."""

REACH_S = 1.0
"""A pause farther from where two words meet is not theirs."""

SHORTEST_WORD_S = 0.04


class Pause(NamedTuple):
    """A stretch without speech."""

    start_s: float
    end_s: float


def pauses(chunk: Chunk) -> tuple[Pause, ...]:
    """The pauses in a chunk, in order and in its own timeline.

    Its edges, and the places where silence was left out, are pauses as well, if only of no length. There are
    no others where speech cannot be told from the rest by its level.
    """
    quiet = _quiet(chunk.samples)
    edges_s = [0.0, chunk.duration_s] if quiet is not None else []
    seams_s = [piece.chunk_samples / SAMPLE_RATE for piece in chunk.pieces[1:]]
    found: list[Pause] = []
    for pause in sorted([*(quiet or ()), *(Pause(at_s, at_s) for at_s in (*edges_s, *seams_s))]):
        if found and pause.start_s <= found[-1].end_s + FRAME_S:
            found[-1] = Pause(found[-1].start_s, max(found[-1].end_s, pause.end_s))
        else:
            found.append(pause)
    return tuple(found)


def _quiet(samples: Samples) -> list[Pause] | None:
    """Where the level is low for long enough; None where levels tell nothing."""
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    if not len(frames):
        return None
    level_db = 10 * np.log10(np.einsum("ij,ij->i", frames, frames) / FRAME_SAMPLES + 1e-10)
    noise_db, speech_db = np.percentile(level_db, (5, 95))
    if speech_db - noise_db < LEAST_RANGE_DB:
        return None
    quiet = level_db < max(speech_db - BELOW_SPEECH_DB, noise_db + ABOVE_NOISE * (speech_db - noise_db))
    flips = np.flatnonzero(np.diff(quiet.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    at_edge = (flips[:, 0] == 0) | (flips[:, 1] == len(quiet))
    long_enough = flips[at_edge | (flips[:, 1] - flips[:, 0] >= SHORTEST_S / FRAME_S)]
    return [Pause(float(start) * FRAME_S, float(end) * FRAME_S) for start, end in long_enough]


def between(words: Sequence[Word], pauses: Sequence[Pause]) -> list[Word]:
    """Move the ends and beginnings of words to the edges of the pause between them, where there is one.

    Args:
        words: In order.
        pauses: In order, in the words' timeline.
    """
    if not words:
        return []
    found = list(words)
    # Before each word, and after the last: where the word before ended, and where the next one begins.
    ended_s = np.array([words[0].start_s, *(word.end_s for word in words)])
    begins_s = np.array([*(word.start_s for word in words), words[-1].end_s])
    chosen: dict[int, Pause] = {}
    for pause in pauses:
        distances_s = np.maximum(pause.start_s - begins_s, ended_s - pause.end_s).clip(0)
        place = int(distances_s.argmin())
        if distances_s[place] <= REACH_S and (
            place not in chosen or _length_s(pause) > _length_s(chosen[place])
        ):
            chosen[place] = pause
    for place, pause in chosen.items():
        if place > 0 and pause.start_s >= found[place - 1].start_s + SHORTEST_WORD_S:
            found[place - 1] = replace(found[place - 1], end_s=pause.start_s)
        if place < len(found) and pause.end_s <= found[place].end_s - SHORTEST_WORD_S:
            found[place] = replace(found[place], start_s=pause.end_s)
    return found


def _length_s(pause: Pause) -> float:
    return pause.end_s - pause.start_s
