from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stentor.audio.chunker import CHUNK_SAMPLES, OVERLAP_SAMPLES, WINDOW_SAMPLES, chunks, is_silent, quiet_cut
from stentor.types import MAX_CHUNK_S, SAMPLE_RATE, Chunk

Array = NDArray[np.float32]


def noise(n: int, seed: int = 0) -> Array:
    return (0.1 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def check(cut: list[Chunk], audio: Array, search_s: float) -> None:
    """What holds for any input."""
    assert sum(len(chunk.samples) - chunk.before_samples for chunk in cut) == len(audio)
    at = before = 0
    for index, chunk in enumerate(cut):
        n = len(chunk.samples)
        assert (chunk.index, chunk.start_samples) == (index, at - before)
        assert chunk.before_samples == before <= 2 * OVERLAP_SAMPLES
        assert 0 < n <= CHUNK_SAMPLES
        assert chunk.last == (index == len(cut) - 1)
        if not chunk.last:
            assert n >= CHUNK_SAMPLES - search_s * SAMPLE_RATE
        np.testing.assert_array_equal(chunk.samples, audio[at - before : at - before + n])
        at += n - before
        before = chunk.after_samples
    assert before == 0


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 700_000), max_size=6),
    search_s=st.sampled_from([0.1, 0.37, 1.0, 5.0, 30.0, 99.0]),
)
def test_chunks_are_the_input_end_to_end(lengths: list[int], search_s: float) -> None:
    audio = noise(sum(lengths))
    blocks = np.split(audio, np.cumsum(lengths)[:-1]) if lengths else []
    check(list(chunks(blocks, search_s=search_s)), audio, search_s)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 200_000))
def test_block_borders_do_not_matter(block: int) -> None:
    audio = noise(1_200_000)
    cuts = [len(c.samples) for c in chunks(np.split(audio, range(block, len(audio), block)))]
    assert cuts == [len(c.samples) for c in chunks([audio])]


@settings(deadline=None, max_examples=60)
@given(
    quiet_samples=st.integers(1760, 16_000),
    end=st.integers(CHUNK_SAMPLES - 5 * SAMPLE_RATE + 16_000, CHUNK_SAMPLES),
)
def test_the_cut_lies_in_the_silence(quiet_samples: int, end: int) -> None:
    audio = noise(CHUNK_SAMPLES + 1)
    audio[end - quiet_samples : end] = 0
    first = next(chunks([audio]))
    assert end - quiet_samples <= len(first.samples) <= end


@pytest.mark.parametrize(
    "start", [CHUNK_SAMPLES - WINDOW_SAMPLES, CHUNK_SAMPLES - 5 * SAMPLE_RATE, CHUNK_SAMPLES - 40_000]
)
def test_the_cut_is_the_centre_of_the_quietest_window_also_at_the_zones_edges(start: int) -> None:
    audio = noise(CHUNK_SAMPLES)
    audio[start : start + WINDOW_SAMPLES] *= 0.01
    place, hush_db = quiet_cut(audio, 5.0)
    assert place == start + WINDOW_SAMPLES // 2
    assert hush_db == pytest.approx(40, abs=2)


def test_digital_silence_after_loud_noise_is_the_quietest() -> None:
    audio = 30 * noise(CHUNK_SAMPLES)
    audio[-60_000:-50_000] = 0
    assert CHUNK_SAMPLES - 60_000 < quiet_cut(audio, 5.0)[0] < CHUNK_SAMPLES - 50_000


def test_silence_outside_the_zone_does_not_matter() -> None:
    audio = noise(CHUNK_SAMPLES + 1)
    audio[: CHUNK_SAMPLES - SAMPLE_RATE] = 0
    first = next(chunks([audio], search_s=1.0))
    assert len(first.samples) > CHUNK_SAMPLES - SAMPLE_RATE


def test_where_it_is_quiet_nowhere_both_chunks_hear_the_seam() -> None:
    audio = noise(2 * CHUNK_SAMPLES)
    audio[27 * SAMPLE_RATE : 27 * SAMPLE_RATE + WINDOW_SAMPLES] *= 0.2  # 14 dB less
    first, second, *_ = chunks([audio])
    place = 27 * SAMPLE_RATE + WINDOW_SAMPLES // 2
    assert len(first.samples) == place + OVERLAP_SAMPLES
    assert second.start_samples == place - OVERLAP_SAMPLES
    assert first.after_samples == second.before_samples == 2 * OVERLAP_SAMPLES


def test_in_a_pause_chunks_do_not_overlap() -> None:
    audio = noise(2 * CHUNK_SAMPLES)
    audio[27 * SAMPLE_RATE : 27 * SAMPLE_RATE + WINDOW_SAMPLES] *= 0.02  # 34 dB less
    first, second, *_ = chunks([audio])
    assert (first.after_samples, second.before_samples) == (0, 0)
    assert second.start_samples == len(first.samples)


def test_silence_makes_few_chunks() -> None:
    lengths = [len(c.samples) for c in chunks([np.zeros(4 * CHUNK_SAMPLES, np.float32)])]
    assert len(lengths) == 5
    assert lengths[0] == CHUNK_SAMPLES - WINDOW_SAMPLES // 2


def test_exactly_the_limit_is_one_chunk() -> None:
    (only,) = chunks([noise(CHUNK_SAMPLES)])
    assert only.duration_s == MAX_CHUNK_S
    assert only.last


@pytest.mark.parametrize("blocks", [[], [np.empty(0, np.float32)]])
def test_nothing_gives_no_chunk(blocks: list[Array]) -> None:
    assert list(chunks(blocks)) == []


def test_chunks_own_their_samples() -> None:
    reused = np.empty(80_000, np.float32)

    def blocks() -> Iterator[Array]:
        for value in range(1, 15):
            reused[:] = value
            yield reused

    cut = list(chunks(blocks()))
    np.testing.assert_array_equal(
        np.concatenate([chunk.samples[chunk.before_samples :] for chunk in cut]),
        np.repeat(np.arange(1, 15), 80_000),
    )
    for chunk, following in pairwise(cut):
        assert not np.shares_memory(chunk.samples, following.samples)
    for chunk in cut:
        assert not np.shares_memory(chunk.samples, reused)
        assert chunk.samples.flags.c_contiguous
        assert chunk.samples.dtype == np.float32


def test_a_chunk_comes_as_soon_as_more_is_known_to_follow() -> None:
    pulled = 0

    def blocks() -> Iterator[Array]:
        nonlocal pulled
        for _ in range(100):
            pulled += 1
            yield noise(80_000)

    next(chunks(blocks()))
    assert pulled == 7


def test_dither_is_silence_and_quiet_speech_is_not() -> None:
    dither = np.random.default_rng(0).integers(-2, 3, 16_000).astype(np.float32) / np.float32(32768)
    assert is_silent(dither)
    assert is_silent(np.empty(0, np.float32))
    quiet = np.float32(0.0008) * np.sin(np.arange(16_000, dtype=np.float32))
    assert not is_silent(quiet)
    assert not is_silent(-np.abs(quiet))
