from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stentor.audio.channels import Resampler, cleaned, downmix
from stentor.errors import AudioError

Array = NDArray[np.float32]


def voice(n: int = 16_000, seed: int = 0) -> Array:
    return (0.1 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def beside(*channels: Array) -> Array:
    return np.stack(channels, axis=1)


def test_mono_stays_as_it_is() -> None:
    np.testing.assert_array_equal(downmix(voice()[:, None]), voice())


@pytest.mark.parametrize("n_channels", [2, 3, 6, 16])
def test_the_mix_is_the_mean(n_channels: int) -> None:
    raw = beside(*(voice(seed=seed) for seed in range(n_channels)))
    np.testing.assert_allclose(downmix(raw), raw.mean(axis=1), atol=1e-6)


def test_planar_and_interleaved_mix_alike() -> None:
    raw = beside(voice(), voice(seed=1))
    planar = np.ascontiguousarray(raw.T).T
    np.testing.assert_array_equal(downmix(planar), downmix(raw))


@pytest.mark.parametrize("n_channels", [2, 6])
@pytest.mark.parametrize("side", [0, 1])
def test_one_sided_speech_survives_as_the_mean(n_channels: int, side: int) -> None:
    raw = np.zeros((16_000, n_channels), np.float32)
    raw[:, side] = voice()
    np.testing.assert_allclose(downmix(raw), voice() / n_channels, atol=1e-6)


@pytest.mark.parametrize("gain", [1.0, 0.9, 0.6])
def test_opposite_phases_give_the_loudest_channel(gain: float) -> None:
    raw = beside(np.float32(gain) * voice(), -voice())
    mono = downmix(raw)
    np.testing.assert_array_equal(np.abs(mono), np.abs(voice()))
    assert mono.flags.c_contiguous


def test_silence_stays_silence() -> None:
    assert not downmix(np.zeros((100, 2), np.float32)).any()


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=8))
def test_a_mix_is_never_louder_than_its_loudest_channel(gains: list[float]) -> None:
    raw = beside(*(np.float32(gain) * voice(400) for gain in gains))
    assert np.abs(downmix(raw)).max() <= np.abs(raw).max() + 1e-6


def test_a_few_invalid_samples_become_zero() -> None:
    raw = voice()[:, None].copy()
    raw[10], raw[500], raw[900] = np.nan, np.inf, -np.inf
    out = cleaned(raw)
    assert np.isfinite(out).all()
    assert not out[[10, 500, 900]].any()
    np.testing.assert_array_equal(out[1000:, 0], voice()[1000:])


def test_many_invalid_samples_are_refused() -> None:
    raw = voice()[:, None].copy()
    raw[::50] = np.nan
    with pytest.raises(AudioError, match="320 of 16000"):
        cleaned(raw)


def test_a_short_block_may_hold_a_few_too() -> None:
    assert cleaned(np.full((5, 1), np.nan, np.float32)).any() == np.False_


def test_absurd_values_are_clipped_and_loud_ones_are_not() -> None:
    np.testing.assert_array_equal(np.abs(cleaned(np.full((9, 1), -1e30, np.float32))), 1)
    loud = np.full((9, 1), 3.0, np.float32)
    np.testing.assert_array_equal(cleaned(loud), 3.0)


@pytest.mark.parametrize("rate_hz", [4_000, 8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 384_000])
def test_resampling_keeps_the_length_and_the_tone(rate_hz: int) -> None:
    t = np.arange(2 * rate_hz) / rate_hz
    tone = np.sin(2 * np.pi * 440 * t).astype(np.float32)
    resampler = Resampler(rate_hz)
    parts = [resampler.feed(part) for part in np.array_split(tone, 7)]
    out = np.concatenate([*parts, resampler.flush()])
    assert len(out) == 32_000
    expected = np.sin(2 * np.pi * 440 * np.arange(32_000) / 16_000)
    np.testing.assert_allclose(out[500:-500], expected[500:-500], atol=2e-3)
