"""How likely each 32 ms of audio are speech: Silero VAD 6, and a gate that keeps plain pauses from it.

    windows ──► SpeechGate ──► Silero ──► probabilities
                what is no louder than the background skips the model and gets 0

The model comes with Stentor (`assets/`, MIT): a graph that takes a whole sequence of windows at once, which
costs half of the usual window by window (55 ms of CPU a minute of audio against 123) and leaves the GIL free
for the length of a run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from stentor.types import SAMPLE_RATE

WINDOW_SAMPLES = 512
"""32 ms, what the model judges at a time. Source: snakers4/silero-vad."""

CONTEXT_SAMPLES = 64
"""What the model also hears of the window before."""

Windows: TypeAlias = NDArray[np.float32]
"""float32 (n, 512): windows that lie end to end in the audio."""

Probabilities: TypeAlias = NDArray[np.float32]
"""float32 (n,), one in [0, 1] for each window."""

WINDOWS_PER_S = SAMPLE_RATE / WINDOW_SAMPLES

RUN_WINDOWS = 128
"""A run's length at most. Longer ones are no cheaper, and one over 5 minutes was dearer."""

LEAD_WINDOWS = 16
"""0.5 s of a skipped pause that the model hears before speech, to come to itself: with 8, 0.2 s more of the
81 minutes of test data are missed."""

FORGET_WINDOWS = round(2 * WINDOWS_PER_S)
"""After a longer skip the model begins afresh. Its state of before the pause made it miss 5 s of the 53 s of
quiet speech in a noisy recording with pauses of 10 s; starting afresh after short ones added 2 s of false
speech in real recordings."""

_BLANK = np.zeros((1, 1, 128), np.float32)

_loading = threading.Lock()


def load_model() -> Any:
    """The session that all threads share, made by the first who asks."""
    with _loading:
        return _load()


@lru_cache(maxsize=1)
def _load() -> Any:
    import onnxruntime  # 0.1 s and 40 MB, for those who ask for it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # requests are what runs in parallel
    options.inter_op_num_threads = 1
    path = Path(__file__).parent / "assets" / "silero_vad_v6.onnx"
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class SileroDetector:
    """Hears one stream of audio, windows after windows. Many may do so at once, in any threads.

    Args:
        gated: Whether plain pauses skip the model.
    """

    def __init__(self, *, gated: bool = True) -> None:
        self._session = load_model()
        self._gate = SpeechGate() if gated else None
        self._context = np.zeros(CONTEXT_SAMPLES, np.float32)
        self._skipped = _no_windows()  # the last of them, to lead in with
        self._skipped_count = 0
        self._hidden = self._cell = _BLANK

    def __call__(self, windows: Windows) -> Probabilities:
        """The probabilities of the windows that follow; 0 for those that the gate held back."""
        framed = self._framed(windows)
        heard = self._gate(windows) if self._gate else np.ones(len(windows), np.bool_)
        probabilities = np.zeros(len(windows), np.float32)
        for start, stop, speech in _stretches(heard):
            if speech:
                probabilities[start:stop] = self._hear(framed[start:stop])
            else:
                self._skip(framed[start:stop])
        return probabilities

    def _framed(self, windows: Windows) -> Windows:
        """Each window behind its context: (n, 576)."""
        stream = np.concatenate([self._context, windows.reshape(-1)])
        self._context = stream[len(stream) - CONTEXT_SAMPLES :]
        frames = np.lib.stride_tricks.sliding_window_view(stream, CONTEXT_SAMPLES + WINDOW_SAMPLES)
        return frames[::WINDOW_SAMPLES]

    def _skip(self, framed: Windows) -> None:
        self._skipped = np.concatenate([self._skipped, framed[-LEAD_WINDOWS:]])[-LEAD_WINDOWS:]
        self._skipped_count += len(framed)

    def _hear(self, framed: Windows) -> Probabilities:
        lead = len(self._skipped)
        if self._skipped_count - lead > FORGET_WINDOWS:
            self._hidden = self._cell = _BLANK
        framed = np.concatenate([self._skipped, framed])
        self._skipped, self._skipped_count = _no_windows(), 0
        runs = [self._run(framed[at : at + RUN_WINDOWS]) for at in range(0, len(framed), RUN_WINDOWS)]
        return np.concatenate(runs)[lead:]

    def _run(self, framed: Windows) -> Probabilities:
        inputs = {"input": framed, "h": self._hidden, "c": self._cell}
        probabilities, self._hidden, self._cell = self._session.run(None, inputs)
        return np.asarray(probabilities, np.float32).reshape(-1)


BANDS = 8
BAND_BINS = 16
FIRST_BIN = 8
"""Eight bands of 500 Hz from 250 Hz on. The level of the whole would not do: of 77 s of speech over a hum as
loud it missed 42; with the low end damped, 17 of 72 s of speech 10 dB over pink noise. Bands miss none."""

SMOOTHED_WINDOWS = 3
"""Levels are taken over 96 ms: noise then stays within 6 dB of its own minimum, over 32 ms within 9 dB."""

MARGIN_DB = 5.0
"""A window may hold speech when one of its bands is louder than the background by this much."""

RISE_DB_PER_S = 1.0
"""How fast the background is taken to have risen where it cannot be heard; 2 missed more in noise."""

LEAST_DB = -110.0
"""The background at least: rounding to 16 bits makes -113 dB in a band."""

START_DB = -90.0
"""The background before anything was heard: little enough for speech that begins at once and is faint."""

HANG_WINDOWS = 12
"""0.4 s after such a window still go to the model: endings of words are quiet."""

_TAPER = np.hanning(WINDOW_SAMPLES).astype(np.float32)
_FULL_SCALE = SMOOTHED_WINDOWS * float((_TAPER**2).sum()) * WINDOW_SAMPLES / 2


class SpeechGate:
    """Tells windows that may hold speech from those that are no louder than the background.

    The background is, for each band, the least level heard, rising slowly: what goes on is background.
    Costs 1.5 ms a minute of audio.
    """

    def __init__(self) -> None:
        self._energies = np.zeros((SMOOTHED_WINDOWS - 1, BANDS), np.float32)
        self._background_db = np.full(BANDS, START_DB)
        self._windows_since = HANG_WINDOWS + 1

    def __call__(self, windows: Windows) -> NDArray[np.bool_]:
        """Whether each of the windows that follow may hold speech: bool (n,)."""
        levels_db = self._levels_db(windows)
        rise_db = RISE_DB_PER_S / WINDOWS_PER_S * np.arange(1, len(levels_db) + 1)[:, None]
        # min(level, background before + rise), window after window, without a loop
        least_db = np.minimum.accumulate(levels_db - rise_db, axis=0)
        background_db = np.minimum(least_db, self._background_db) + rise_db
        self._background_db = background_db[-1]
        return self._hung((levels_db > background_db + MARGIN_DB).any(axis=1))

    def _levels_db(self, windows: Windows) -> NDArray[np.float64]:
        # scipy.fft: 0.8 ms a minute, numpy.fft 6.4
        spectrum = scipy.fft.rfft(windows * _TAPER, axis=1)[:, FIRST_BIN : FIRST_BIN + BANDS * BAND_BINS]
        power = spectrum.real**2 + spectrum.imag**2
        energies = np.concatenate([self._energies, power.reshape(-1, BANDS, BAND_BINS).sum(axis=2)])
        self._energies = energies[len(windows) :]
        smoothed = sum(energies[at : at + len(windows)] for at in range(SMOOTHED_WINDOWS)) / _FULL_SCALE
        return np.asarray(10 * np.log10(np.maximum(smoothed, 10 ** (LEAST_DB / 10))), np.float64)

    def _hung(self, loud: NDArray[np.bool_]) -> NDArray[np.bool_]:
        at = np.arange(len(loud))
        last_loud = np.maximum.accumulate(np.where(loud, at, -self._windows_since))
        since = at - last_loud
        self._windows_since = int(since[-1]) + 1
        return since <= HANG_WINDOWS


def _stretches(heard: NDArray[np.bool_]) -> Iterator[tuple[int, int, bool]]:
    """Where it stays the same: start, stop and what it is."""
    borders = [0, *(np.flatnonzero(heard[1:] != heard[:-1]) + 1).tolist(), len(heard)]
    for start, stop in pairwise(borders):
        yield start, stop, bool(heard[start])


def _no_windows() -> Windows:
    return np.empty((0, CONTEXT_SAMPLES + WINDOW_SAMPLES), np.float32)
