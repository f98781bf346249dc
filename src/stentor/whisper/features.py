"""The log-mel spectrogram that Whisper listens to."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft
from scipy.sparse import csr_array

from stentor.types import MAX_CHUNK_S, SAMPLE_RATE, Samples

# Source of these figures and of every step below: openai/whisper audio.py.
N_FFT: Final = 400
HOP_LENGTH: Final = 160
N_SAMPLES: Final = MAX_CHUNK_S * SAMPLE_RATE
N_FRAMES: Final = N_SAMPLES // HOP_LENGTH

_FLOOR: Final = np.float32(1e-10)
_RANGE: Final = np.float32(8)
"""Powers of ten that are kept below the loudest cell."""

_REACH: Final = N_FFT // 2
"""Samples that a frame sees on either side of its centre."""

_HEARD_FRAMES: Final = 1 + (N_SAMPLES + _REACH) // HOP_LENGTH
"""Frames that see any of the audio: those we return, and a few whose centre lies past the end. Only their
loudness counts, because openai takes the maximum over the audio and the silence it appends."""

_BLOCK_FRAMES: Final = 500
"""Frames transformed at once. In small pieces the memory is used again instead of being fetched anew from the
system page by page: 2.1 ms a call instead of 4.1."""

_WINDOW: Final[NDArray[np.float32]] = np.hanning(N_FFT + 1)[:-1].astype(np.float32)


class LogMel:
    """Turns up to 30 s of audio into the spectrogram of a 30 s window.

    Equals openai's `log_mel_spectrogram(samples, n_mels, padding=N_SAMPLES)[:, :N_FRAMES]`, in float32. One
    instance serves any number of threads: nothing in it changes, and numpy and scipy drop the GIL in the
    transform, the product and the arithmetic. It takes about 2 ms of one processor.

    Args:
        n_mels: Bands: 80, or 128 for the large-v3 family.
    """

    def __init__(self, n_mels: int) -> None:
        # Sparse, because a bin lies in two triangles at most, and because a dense product goes to BLAS, whose
        # threads wait for each other: with one processor of two taken, a call took 10 ms on average, not 3.
        self._filters = csr_array(mel_filters(n_mels).astype(np.float32))

    def __call__(self, samples: Samples) -> NDArray[np.float32]:
        """Compute the spectrogram.

        Args:
            samples: At most `N_SAMPLES`; silence is added behind them.

        Returns:
            float32 (n_mels, N_FRAMES), C-contiguous, a span of 2 around 0.

        Raises:
            ValueError: The audio is longer than the window. Cutting it here would lose words.
        """
        if len(samples) > N_SAMPLES:
            raise ValueError(f"{len(samples)} samples do not fit into Whisper's window of {N_SAMPLES}")
        frames = _frames(samples)
        log_mel = np.empty((self._filters.shape[0], len(frames)), np.float32)
        for start in range(0, len(frames), _BLOCK_FRAMES):
            block = slice(start, start + _BLOCK_FRAMES)
            spectrum = rfft(frames[block] * _WINDOW, axis=1)
            power = spectrum.real**2 + spectrum.imag**2
            log_mel[:, block] = self._filters @ power.T
        np.log10(np.maximum(log_mel, _FLOOR, out=log_mel), out=log_mel)
        floor = log_mel.max() - _RANGE
        # The frames that only count for the maximum stay behind.
        scaled: NDArray[np.float32] = np.maximum(log_mel[:, :N_FRAMES], floor)
        scaled += np.float32(4)
        scaled /= np.float32(4)
        return scaled

    def window(self, samples: Samples) -> NDArray[np.float32]:
        """The spectrogram as the encoder is given it: what follows the audio is 0, not silence.

        That is what openai's `transcribe` does (its `pad_or_trim` after the spectrogram), and on 8 languages
        it costs fewer words than silence: WER 13.3 % and 13.6 % with base (docs/decisions/0004-whisper.md).
        """
        log_mel = self(samples)
        log_mel[:, len(samples) // HOP_LENGTH :] = 0
        return log_mel


def mel_filters(n_mels: int) -> NDArray[np.float64]:
    """Build the bank of triangles that sums a power spectrum into mel bands.

    Source: librosa.filters.mel(sr=16000, n_fft=400, n_mels=n_mels), which is Slaney's Auditory Toolbox: a
    scale that is linear up to 1 kHz and logarithmic above, and triangles of equal area.

    Returns:
        float64 (n_mels, N_FFT // 2 + 1).
    """
    bins_hz = np.fft.rfftfreq(N_FFT, 1 / SAMPLE_RATE)
    edges_hz = _mel_to_hz(np.linspace(0, _hz_to_mel(SAMPLE_RATE / 2), n_mels + 2))
    left, centre, right = edges_hz[:-2, None], edges_hz[1:-1, None], edges_hz[2:, None]
    rising = (bins_hz - left) / (centre - left)
    falling = (right - bins_hz) / (right - centre)
    triangles: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * (2 / (right - left))
    return triangles


_LINEAR_HZ: Final = 1000.0
_HZ_PER_MEL: Final = 200 / 3
_LINEAR_MELS: Final = _LINEAR_HZ / _HZ_PER_MEL
_LOG_STEP: Final = math.log(6.4) / 27
"""Above 1 kHz, 27 mels multiply the frequency by 6.4. Source: Slaney, Auditory Toolbox, 1998."""


def _hz_to_mel(hz: float) -> float:
    """Only for frequencies from 1 kHz on: the bank asks for nothing but its upper edge."""
    return _LINEAR_MELS + math.log(hz / _LINEAR_HZ) / _LOG_STEP


def _mel_to_hz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    above = np.maximum(mels - _LINEAR_MELS, 0)
    return np.minimum(mels, _LINEAR_MELS) * _HZ_PER_MEL * np.exp(_LOG_STEP * above)


def _frames(samples: Samples) -> NDArray[np.float32]:
    """A view of the audio as overlapping frames: mirrored before its start, silence behind its end."""
    padded = np.zeros((_HEARD_FRAMES - 1) * HOP_LENGTH + N_FFT, np.float32)
    padded[_REACH : _REACH + len(samples)] = samples
    padded[:_REACH] = padded[2 * _REACH : _REACH : -1]
    return np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::HOP_LENGTH]
