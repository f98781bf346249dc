from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from stentor.types import SAMPLE_RATE, Samples
from stentor.whisper.features import N_SAMPLES, LogMel, mel_filters

TOLERANCE = 1e-3
BANDS = (80, 128)

_noise = np.random.default_rng(7).standard_normal(N_SAMPLES).astype(np.float32)
_time_s = np.arange(N_SAMPLES) / SAMPLE_RATE
_tone = (0.5 * np.sin(2 * np.pi * 440 * _time_s)).astype(np.float32)
_late = np.zeros(N_SAMPLES, np.float32)
_late[-60:] = 0.9

AUDIO = {
    "noise": _noise[: 5 * SAMPLE_RATE] * np.float32(0.1),
    "tone": _tone[: 5 * SAMPLE_RATE],
    "silence": np.zeros(SAMPLE_RATE, np.float32),
    "nothing": np.zeros(0, np.float32),
    "one sample": np.ones(1, np.float32),
    "a third of a frame": _noise[:133],
    "full noise": _noise * np.float32(0.1),
    "full tone": _tone,
    "loud only at the very end": _late,
}


@cache
def reference_filters(n_mels: int) -> NDArray[np.float64]:
    """The formula of librosa.filters.mel, triangle by triangle, bin by bin."""

    def hz_to_mel(hz: float) -> float:
        return hz / (200 / 3) if hz < 1000 else 15 + 27 * np.log(hz / 1000) / np.log(6.4)

    def mel_to_hz(mel: float) -> float:
        return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)

    edges = [mel_to_hz(i * hz_to_mel(8000) / (n_mels + 1)) for i in range(n_mels + 2)]
    filters = np.zeros((n_mels, 201))
    for band in range(n_mels):
        low, middle, high = edges[band : band + 3]
        for bin_ in range(201):
            hz = bin_ * 40.0
            if low < hz <= middle:
                filters[band, bin_] = (hz - low) / (middle - low)
            elif middle < hz < high:
                filters[band, bin_] = (high - hz) / (high - middle)
        filters[band] *= 2 / (high - low)
    return filters


def reference(samples: Samples, n_mels: int) -> NDArray[np.float64]:
    """openai's log_mel_spectrogram(samples, n_mels, padding=480_000)[:, :3000], in float64, by matrices."""
    audio = np.concatenate([samples, np.zeros(480_000)]).astype(np.float64)
    audio = np.pad(audio, 200, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    dft = np.exp(-2j * np.pi * np.outer(np.arange(400), np.arange(201)) / 400)
    n_frames = (len(audio) - 400) // 160  # one less than fit: openai drops the last
    frames = np.stack([audio[160 * i : 160 * i + 400] for i in range(n_frames)])
    power = np.abs((frames * window) @ dft) ** 2
    log_mel = np.log10(np.maximum(reference_filters(n_mels) @ power.T, 1e-10))
    scaled: NDArray[np.float64] = (np.maximum(log_mel, log_mel.max() - 8) + 4) / 4
    return scaled[:, :3000]


@pytest.mark.parametrize("n_mels", BANDS)
@pytest.mark.parametrize("name", AUDIO)
def test_equals_openai_s_definition(name: str, n_mels: int) -> None:
    features = LogMel(n_mels)(AUDIO[name])
    assert features.shape == (n_mels, 3000)
    assert features.dtype == np.float32
    assert features.flags.c_contiguous
    np.testing.assert_allclose(features, reference(AUDIO[name], n_mels), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("n_mels", BANDS)
def test_filters_equal_the_formula(n_mels: int) -> None:
    np.testing.assert_allclose(mel_filters(n_mels), reference_filters(n_mels), atol=1e-12, rtol=0)


@pytest.mark.parametrize("n_mels", BANDS)
@pytest.mark.parametrize("name", AUDIO)
def test_equals_faster_whisper(name: str, n_mels: int) -> None:
    extractor = pytest.importorskip("faster_whisper.feature_extractor").FeatureExtractor(n_mels)
    expected = extractor(AUDIO[name], padding=N_SAMPLES)[:, :3000]
    np.testing.assert_allclose(LogMel(n_mels)(AUDIO[name]), expected, atol=TOLERANCE, rtol=0)


def test_too_much_audio_is_refused_and_not_cut() -> None:
    with pytest.raises(ValueError, match="480001 samples"):
        LogMel(80)(np.zeros(N_SAMPLES + 1, np.float32))


def test_the_audio_is_left_as_it_was() -> None:
    samples = AUDIO["noise"].copy()
    samples.flags.writeable = False
    LogMel(80)(samples)
    np.testing.assert_array_equal(samples, AUDIO["noise"])


def test_threads_do_not_disturb_each_other() -> None:
    log_mel = LogMel(80)
    alone = {name: log_mel(samples) for name, samples in AUDIO.items()}
    names = [*AUDIO] * 4
    with ThreadPoolExecutor(4) as pool:
        together = pool.map(lambda name: log_mel(AUDIO[name]), names)
        for name, features in zip(names, together, strict=True):
            np.testing.assert_array_equal(features, alone[name])
