"""Utterances joined to one long recording, of which every word's place is known.

What the recording says is what the utterances say one by one. So the difference between the two error rates
is what the seams cost, and the utterances' beginnings and ends are times to hold the transcript's against.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from stentor.audio.limits import ANY_LENGTH
from stentor.audio.reader import AudioReader, read_chunks
from stentor.audio.vad import VadOptions
from stentor.bench.manifest import Mark, Utterance
from stentor.errors import StentorError
from stentor.types import SAMPLE_RATE, Samples

FRAME_SAMPLES = SAMPLE_RATE // 100
MARGIN_FRAMES = 3
"""What is kept around the speech, so that no soft consonant is cut off."""

LOUD = 0.03
"""A frame so loud, against the loudest of its utterance, is speech: 30 dB below it, above breath."""


def joined(utterances: Sequence[Utterance], pause_s: float, path: Path) -> Utterance | None:
    """Join utterances of one language to a recording, with a mark for each.

    Args:
        utterances: Those without a reference, without sound or that cannot be read are left out.
        pause_s: Silence between the end of one's speech and the beginning of the next one's.
        path: The flac to write, 16 kHz mono.

    Returns:
        The recording; None where there are not two to join.
    """
    marks: list[Mark] = []
    at_samples = 0
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1, "PCM_16", format="FLAC") as output:
        for utterance in utterances:
            speech = _speech(utterance.path) if utterance.text else None
            if speech is None:
                continue
            samples, start, end = speech
            output.write(samples)
            marks.append(
                Mark(
                    utterance.text or "", (at_samples + start) / SAMPLE_RATE, (at_samples + end) / SAMPLE_RATE
                )
            )
            pause = np.zeros(round(pause_s * SAMPLE_RATE), np.float32)
            output.write(pause)
            at_samples += len(samples) + len(pause)
    if len(marks) < 2:
        return None
    first = utterances[0]
    return Utterance(
        path,
        at_samples / SAMPLE_RATE,
        first.language,
        " ".join(mark.text for mark in marks),
        f"{first.corpus} joined",
        tuple(marks),
    )


def cuts_of(path: Path, *, vad: bool) -> tuple[float, ...]:
    """Where Stentor cuts a file into chunks, in seconds of the file; none where it cannot be read."""
    fd = os.open(path, os.O_RDONLY)
    try:
        chunks = read_chunks(fd, ANY_LENGTH, threading.Event(), vad=VadOptions() if vad else None)
        return tuple(chunk.end_s for chunk in chunks if not chunk.last)
    except StentorError:
        return ()
    finally:
        os.close(fd)


def _speech(path: Path) -> tuple[Samples, int, int] | None:
    """An utterance without the silence around it, and between which of its samples there is speech.

    None where there is none, or the file cannot be read: that is told of where it is heard by itself.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        with AudioReader(fd, ANY_LENGTH) as reader:
            samples = np.concatenate([np.zeros(0, np.float32), *reader.blocks()])
    except StentorError:
        return None
    finally:
        os.close(fd)
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    level = np.sqrt(np.einsum("ij,ij->i", frames, frames))
    loud = np.flatnonzero(level > LOUD * level.max(initial=0.0))
    if not len(loud):
        return None
    begin, end = int(loud[0]), int(loud[-1]) + 1
    kept = max(0, begin - MARGIN_FRAMES), end + MARGIN_FRAMES
    piece = samples[kept[0] * FRAME_SAMPLES : kept[1] * FRAME_SAMPLES]
    return piece, (begin - kept[0]) * FRAME_SAMPLES, (end - kept[0]) * FRAME_SAMPLES
