"""From blocks to chunks of speech: longer silence is left out, and no engine hears it.

    blocks ──► detector ──► SpeechFinder ──► Packer ──► chunks
               (silero.py)  what to keep     several stretches of speech in a chunk (packer.py)

All streams: besides the chunk that grows, about a second of audio is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from stentor.audio.packer import Packer
from stentor.audio.silero import WINDOW_SAMPLES, Probabilities, SileroDetector, Windows
from stentor.types import SAMPLE_RATE, SEAM_S, Chunk, Samples

Detector = Callable[[Windows], Probabilities]
"""Hears the windows of one stream, call after call: float32 (n, 512) in, n probabilities of speech out."""

HYSTERESIS = 0.15
"""Speech goes on until its probability is this far below the threshold. Source: snakers4/silero-vad."""

MIN_SPEECH_SAMPLES = SAMPLE_RATE // 10
"""100 ms. What is shorter is a click or a breath; a "yes" is longer."""

PAUSE_SAMPLES = round(SEAM_S * SAMPLE_RATE)
"""300 ms of the file stay behind speech, so that no ending is clipped and an engine hears the pause."""

LEAST_LEFT_OUT_SAMPLES = SAMPLE_RATE // 2
"""500 ms: what is shorter stays in. Leaving that out too made no fewer chunks, and every seam is a place for
an engine to slip."""


@dataclass(frozen=True, slots=True)
class VadOptions:
    """What counts as speech and as a pause. The names are those of OpenAI's `server_vad`.

    Attributes:
        threshold: Probability in [0, 1] from which on a window is speech.
        prefix_padding_ms: How much of the file before speech goes along with it.
        silence_duration_ms: How long a silence must last to end a stretch of speech.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500


def speech_chunks(
    blocks: Iterable[Samples],
    options: VadOptions = VadOptions(),
    *,
    detector: Detector | None = None,
    search_s: float = 5.0,
) -> Iterator[Chunk]:
    """Cut a stream of blocks into chunks of at most `MAX_CHUNK_S` that hold its speech and little else.

    Chunks follow each other in the file and never overlap; `pieces` say where their audio is from. Some are
    empty: one now and then while nobody speaks, so that a long silence is not one long step, and the last
    one, where silence was left out behind the last speech. It ends where the file does, so the last chunk's
    `end_s` is the audio's duration, also when nobody spoke at all.

    Args:
        blocks: float32 (n_samples,) each, of any length.
        options: What counts as speech and as a pause.
        detector: Tells speech from the rest, for this stream alone; by default Silero behind its gate.
        search_s: Where speech must be cut, how far before the limit the quiet place is looked for.
    """
    detector = detector or SileroDetector()
    finder = SpeechFinder(options)
    packer = Packer(search_s)
    recent = np.empty(0, np.float32)  # the file from `start` on: what may still be kept
    start = 0
    for block in _whole_windows(blocks):
        recent = np.concatenate([recent, block])
        end = start + len(recent)
        for kept_from, kept_to in finder.feed(detector(_windows(block)), end):
            yield from packer.add(kept_from, recent[kept_from - start : kept_to - start])
        recent = recent[finder.needed_from - start :]
        start = end - len(recent)
        if start > finder.kept_to:
            yield from packer.pause(start)
    if 0 < finder.kept_to == start:  # behind the last speech is too little to leave it out
        yield from packer.add(start, recent)
    yield from packer.end(start + len(recent))


def speech_s(samples: Samples) -> float:
    """How much of a stretch of audio is speech, in seconds; 30 s take 30 ms."""
    if not len(samples):
        return 0.0
    probabilities = SileroDetector(gated=False)(_windows(samples))
    return int(np.count_nonzero(probabilities >= VadOptions().threshold)) * WINDOW_SAMPLES / SAMPLE_RATE


class SpeechFinder:
    """Which stretches of the file to keep, from the windows' probabilities, as soon as it is certain.

    Attributes:
        kept_to: Where the last stretch to keep ends, or 0.
    """

    def __init__(self, options: VadOptions) -> None:
        self._begin_at = options.threshold
        self._end_below = max(options.threshold - HYSTERESIS, 0.01)
        self._prefix_samples = options.prefix_padding_ms * SAMPLE_RATE // 1000
        self._silence_samples = options.silence_duration_ms * SAMPLE_RATE // 1000
        self._pause_samples = min(PAUSE_SAMPLES, self._silence_samples)
        self._judged_to = 0
        self._speech_from: int | None = None
        self._quiet_from: int | None = None
        self.kept_to = 0

    def feed(self, probabilities: Probabilities, end: int) -> list[tuple[int, int]]:
        """Stretches that are certain by the next windows: start and stop, in order, without overlap.

        Speech that goes on is kept as far as it has come; where a stretch starts at the stop of the one
        before, they are one.

        Args:
            probabilities: One for each window.
            end: How many samples there are so far. The last window of all may be longer than the audio.
        """
        kept: list[tuple[int, int]] = []
        for probability in probabilities.tolist():
            if probability >= self._begin_at:
                if self._speech_from is None:
                    self._speech_from = self._judged_to
                self._quiet_from = None
            elif self._quiet_from is None and probability < self._end_below:
                self._quiet_from = self._judged_to
            self._judged_to += WINDOW_SAMPLES
            if self._quiet_from is not None and self._judged_to - self._quiet_from >= self._silence_samples:
                self._keep(kept, end)
                self._speech_from = None
        self._keep(kept, end)
        return kept

    @property
    def needed_from(self) -> int:
        """From where on the file may still be kept."""
        return self._begin(self._judged_to if self._speech_from is None else self._speech_from)

    def _keep(self, kept: list[tuple[int, int]], end: int) -> None:
        if self._speech_from is None:
            return
        speech_to = self._judged_to if self._quiet_from is None else self._quiet_from
        if speech_to - self._speech_from < MIN_SPEECH_SAMPLES:
            return
        start = self._begin(self._speech_from)
        stop = min(speech_to + self._pause_samples, end)
        if stop > start:
            kept.append((start, stop))
            self.kept_to = stop

    def _begin(self, speech_from: int) -> int:
        """Where a stretch with this speech begins, or goes on."""
        start = max(speech_from - self._prefix_samples, 0)
        return self.kept_to if start - self.kept_to < LEAST_LEFT_OUT_SAMPLES else start


def _whole_windows(blocks: Iterable[Samples]) -> Iterator[Samples]:
    """The same audio in blocks of whole windows; only the last may end within one."""
    rest = np.empty(0, np.float32)
    for block in blocks:
        joined = np.concatenate([rest, block]) if len(rest) else block
        whole = len(joined) - len(joined) % WINDOW_SAMPLES
        rest = joined[whole:]
        if whole:
            yield joined[:whole]
    if len(rest):
        yield rest


def _windows(block: Samples) -> Windows:
    return np.pad(block, (0, -len(block) % WINDOW_SAMPLES)).reshape(-1, WINDOW_SAMPLES)
