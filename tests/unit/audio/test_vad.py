from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stentor.audio.chunker import CHUNK_SAMPLES, is_silent
from stentor.audio.packer import MAX_SPAN_SAMPLES
from stentor.audio.reader import BLOCK_SAMPLES, AudioReader
from stentor.audio.silero import WINDOW_SAMPLES, Probabilities, SileroDetector, SpeechGate, Windows
from stentor.audio.vad import (
    LEAST_LEFT_OUT_SAMPLES,
    MIN_SPEECH_SAMPLES,
    PAUSE_SAMPLES,
    Detector,
    VadOptions,
    speech_chunks,
)
from stentor.types import SAMPLE_RATE, Chunk, Samples
from support.audio import noise

Mask = NDArray[np.bool_]


class Scripted:
    """A detector that says what the script says, and that nobody speaks after its end."""

    def __init__(self, script: Iterable[float]) -> None:
        self._script = iter(script)

    def __call__(self, windows: Windows) -> Probabilities:
        return np.array([next(self._script, 0.0) for _ in windows], np.float32)


def script(*parts: tuple[float, float]) -> list[float]:
    """Seconds and the probability that holds for them."""
    return [
        probability
        for seconds, probability in parts
        for _ in range(round(seconds * SAMPLE_RATE / WINDOW_SAMPLES))
    ]


def in_blocks(samples: Samples, block_samples: int = BLOCK_SAMPLES) -> list[Samples]:
    return [samples[at : at + block_samples] for at in range(0, len(samples), block_samples)]


def stretches(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, int, int, Samples]]:
    """Each piece with where it begins and ends in the file and its samples."""
    for chunk in chunks:
        borders = [*(piece.chunk_samples for piece in chunk.pieces), len(chunk.samples)]
        for piece, start, stop in zip(chunk.pieces, borders, borders[1:], strict=False):
            samples = chunk.samples[start:stop]
            yield chunk, piece.file_samples, piece.file_samples + len(samples), samples


def kept(chunks: Iterable[Chunk], n_samples: int) -> Mask:
    mask = np.zeros(n_samples, np.bool_)
    for _, start, stop, _ in stretches(chunks):
        mask[start:stop] = True
    return mask


def spoken(probabilities: list[float], n_samples: int, options: VadOptions) -> list[tuple[int, int]]:
    """Where somebody speaks, told from the whole at once: joined over short pauses, without clicks."""
    speaking = False
    windows: list[int] = []
    for at, probability in enumerate(probabilities):
        speaking = probability >= options.threshold or (speaking and probability >= options.threshold - 0.15)
        if speaking:
            windows.append(at * WINDOW_SAMPLES)
    silence_samples = options.silence_duration_ms * SAMPLE_RATE // 1000
    found: list[tuple[int, int]] = []
    for start in windows:
        stop = start + WINDOW_SAMPLES
        # what is said goes on only where it began before the pause was over
        if found and start - found[-1][1] < max(silence_samples, 1):
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return [(a, min(b, n_samples)) for a, b in found if b - a >= MIN_SPEECH_SAMPLES]


def check(chunks: list[Chunk], samples: Samples) -> None:
    """What holds for any audio."""
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].end_s == pytest.approx(len(samples) / SAMPLE_RATE)
    told_s = 0.0
    for chunk in chunks:
        assert len(chunk.samples) <= CHUNK_SAMPLES
        assert chunk.start_s >= told_s - chunk.before_samples / SAMPLE_RATE - 1e-9
        told_s = chunk.end_s
        assert [piece.chunk_samples for piece in chunk.pieces[:1]] == [0] * bool(len(chunk.samples))
    told = 0
    for chunk, start, stop, piece in stretches(chunks):
        assert told - chunk.before_samples <= start < stop <= len(samples)
        assert chunk.pieces[0].file_samples == chunk.start_samples
        np.testing.assert_array_equal(piece, samples[start:stop])
        told = stop


SCRIPTS = st.lists(
    st.tuples(st.one_of(st.integers(1, 40), st.integers(1, 1500)), st.sampled_from([0.0, 0.4, 0.9])),
    max_size=12,
).map(lambda parts: [probability for windows, probability in parts for _ in range(windows)])

OPTIONS = st.builds(
    VadOptions,
    threshold=st.sampled_from([0.5, 0.3]),
    prefix_padding_ms=st.sampled_from([0, 100, 300, 1000]),
    silence_duration_ms=st.sampled_from([0, 200, 500, 2000]),
)


@settings(deadline=None, max_examples=100)
@given(SCRIPTS, OPTIONS, st.integers(0, WINDOW_SAMPLES - 1), st.integers(300, 200_000))
def test_all_speech_is_in_some_piece_and_pieces_are_the_file(
    probabilities: list[float], options: VadOptions, short_samples: int, block_samples: int
) -> None:
    n_samples = max(len(probabilities) * WINDOW_SAMPLES - short_samples, 0)
    samples = noise(n_samples / SAMPLE_RATE)
    blocks = in_blocks(samples, block_samples)
    chunks = list(speech_chunks(blocks, options, detector=Scripted(probabilities)))
    if n_samples == 0:
        assert chunks == []
        return
    check(chunks, samples)
    mask = kept(chunks, n_samples)
    near = np.zeros(n_samples, np.bool_)
    prefix_samples = options.prefix_padding_ms * SAMPLE_RATE // 1000
    silence_samples = options.silence_duration_ms * SAMPLE_RATE // 1000
    for start, stop in spoken(probabilities, n_samples, options):
        assert mask[max(start - prefix_samples, 0) : stop].all()
        near[max(start - prefix_samples, 0) : stop + PAUSE_SAMPLES] = True
    # A click just before the end may yet become speech, as far as anybody knows: it stays in.
    stays_in = LEAST_LEFT_OUT_SAMPLES + prefix_samples + silence_samples + MIN_SPEECH_SAMPLES + WINDOW_SAMPLES
    borders = np.flatnonzero(np.diff(np.concatenate([[True], near, [True]])))
    for start, stop in zip(borders[::2], borders[1::2], strict=True):
        if stop - start >= stays_in:
            assert not mask[start:stop].any()


@settings(deadline=None, max_examples=30)
@given(SCRIPTS, st.integers(300, 200_000))
def test_block_borders_do_not_matter(probabilities: list[float], block_samples: int) -> None:
    probabilities = probabilities[: MAX_SPAN_SAMPLES // WINDOW_SAMPLES]
    samples = noise(len(probabilities) * WINDOW_SAMPLES / SAMPLE_RATE)
    blocks = in_blocks(samples, block_samples)
    in_many = [chunk.pieces for chunk in speech_chunks(blocks, detector=Scripted(probabilities))]
    assert in_many == [chunk.pieces for chunk in speech_chunks([samples], detector=Scripted(probabilities))]


def test_stretches_share_a_chunk_and_each_keeps_its_time() -> None:
    detector = Scripted(script((9.6, 0), (3.2, 1), (48, 0), (6.4, 1), (32, 0)))
    samples = noise(100)
    packed, rest = speech_chunks(in_blocks(samples), detector=detector)
    assert [piece.file_samples / SAMPLE_RATE for piece in packed.pieces] == pytest.approx([9.3, 60.5])
    assert packed.duration_s == pytest.approx(3.2 + 6.4 + 4 * 0.3)
    assert packed.file_s(0.3) == pytest.approx(9.6)
    assert packed.file_s(3.2 + 0.3 + 0.3 + 0.3) == pytest.approx(60.8)
    assert (len(rest.samples), rest.last, rest.end_s) == (0, True, 100.0)


def test_speech_to_the_end_is_one_last_chunk() -> None:
    (chunk,) = speech_chunks(in_blocks(noise(10)), detector=Scripted([0] * 100 + [1] * 300))
    assert (chunk.index, chunk.last, chunk.end_s) == (0, True, 10.0)


def test_a_little_silence_at_the_end_stays_in() -> None:
    (chunk,) = speech_chunks(in_blocks(noise(10.4)), detector=Scripted(script((9.6, 1))))
    assert (chunk.last, chunk.end_s) == (True, 10.4)


@pytest.mark.parametrize("seconds", [0.01, 0.6, 70.123])
def test_nobody_speaks_and_the_duration_is_known(seconds: float) -> None:
    (chunk,) = speech_chunks(in_blocks(noise(seconds)), detector=Scripted([]))
    assert chunk.last
    assert is_silent(chunk.samples)
    assert chunk.end_s == pytest.approx(seconds)


def test_a_long_silence_is_told_step_by_step() -> None:
    samples = noise(3600)
    chunks = list(speech_chunks(in_blocks(samples), detector=Scripted(script((3.2, 1), (600, 0), (3.2, 1)))))
    check(chunks, samples)
    ends_s = [0.0, *(chunk.end_s for chunk in chunks)]
    assert max(np.diff(ends_s)) <= MAX_SPAN_SAMPLES / SAMPLE_RATE + 10
    assert len(chunks) < 36
    assert sum(chunk.duration_s for chunk in chunks) == pytest.approx(6.4 + 0.9, abs=0.1)


def test_a_chunk_that_reaches_far_does_not_end_while_somebody_speaks() -> None:
    detector = Scripted(script((1.6, 1), (116, 0), (9.6, 1), (32, 0)))
    assert [len(chunk.pieces) for chunk in speech_chunks(in_blocks(noise(150)), detector=detector)] == [2, 0]


def test_endless_speech_is_cut_where_it_is_quiet() -> None:
    samples = noise(100)
    quiet = np.arange(27, 100, 27) * SAMPLE_RATE
    for at in quiet:
        samples[at : at + SAMPLE_RATE // 5] = 0
    chunks = list(speech_chunks(in_blocks(samples), detector=Scripted([1] * 4000)))
    check(chunks, samples)
    assert len(chunks) == 4
    for chunk, at in zip(chunks, quiet, strict=False):
        assert at < chunk.end_s * SAMPLE_RATE < at + SAMPLE_RATE // 5


def test_a_full_chunk_ends_between_two_pieces() -> None:
    detector = Scripted(script((12.8, 1), (6.4, 0), (9.6, 1), (6.4, 0), (9.6, 1), (6.4, 0)))
    chunks = list(speech_chunks(in_blocks(noise(51.2)), detector=detector))
    assert [len(chunk.pieces) for chunk in chunks] == [2, 1, 0]
    assert chunks[0].end_s == pytest.approx(12.8 + 6.4 + 9.6 + 0.3)
    assert chunks[1].start_s == pytest.approx(12.8 + 6.4 + 9.6 + 6.4 - 0.3)


def test_memory_stays_small_however_long_the_audio_is() -> None:
    def blocks() -> Iterator[Samples]:
        for _ in range(720):
            yield np.full(BLOCK_SAMPLES, 0.1, np.float32)

    sparse = Scripted(script(*[(1.6, 1), (20.8, 0)] * 160))
    tracemalloc.start()
    for _ in speech_chunks(blocks(), detector=sparse):
        pass
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 12 * CHUNK_SAMPLES  # the chunk that grows, its copy, and a little


# From here on with the real model.


@pytest.fixture(scope="module")
def speech(two_cities: Path) -> Samples:
    with two_cities.open("rb") as file, AudioReader(file.fileno()) as reader:
        return np.concatenate(list(reader.blocks()))


def detected(detector: Detector, samples: Samples, block_windows: int = 156) -> Probabilities:
    padded = np.pad(samples, (0, -len(samples) % WINDOW_SAMPLES)).reshape(-1, WINDOW_SAMPLES)
    steps = range(0, len(padded), block_windows)
    return np.concatenate([detector(padded[at : at + block_windows]) for at in steps])


def phrase(speech: Samples, start_s: float, stop_s: float) -> Samples:
    """What is said there, from its first loud sample to its last."""
    part = speech[round(start_s * SAMPLE_RATE) : round(stop_s * SAMPLE_RATE)]
    loud = np.flatnonzero(np.abs(part) > 0.01)
    return part[loud[0] : loud[-1] + 1]


def test_real_speech_is_found(speech: Samples) -> None:
    chunks = list(speech_chunks(in_blocks(speech)))
    check(chunks, speech)
    assert sum(chunk.duration_s for chunk in chunks) > 0.8 * len(speech) / SAMPLE_RATE


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(60 * SAMPLE_RATE, np.float32),
        noise(60, level=1e-4),
        noise(60, level=0.01),
        noise(60, level=0.3),
        (0.3 * np.sin(np.arange(60 * SAMPLE_RATE) * (2 * np.pi * 50 / SAMPLE_RATE))).astype(np.float32),
    ],
    ids=["silence", "faint noise", "noise", "loud noise", "hum"],
)
def test_what_is_no_speech_gives_no_speech(samples: Samples) -> None:
    assert [len(chunk.samples) for chunk in speech_chunks(in_blocks(samples))] == [0]


@pytest.mark.parametrize("level", [0.0, 0.003], ids=["silence", "noise"])
def test_times_are_right_around_a_pause(speech: Samples, level: float) -> None:
    first, second = phrase(speech, 1.0, 8.6), phrase(speech, 20.8, 24.5)
    samples = noise(5 + 40 + 3, level=level)
    first_at, second_at = 5 * SAMPLE_RATE, 30 * SAMPLE_RATE
    samples[first_at : first_at + len(first)] += first
    samples[second_at : second_at + len(second)] += second
    chunks = list(speech_chunks(in_blocks(samples)))
    check(chunks, samples)
    found = [(start, stop) for _, start, stop, _ in stretches(chunks)]
    for (start, stop), at, said in zip(found, (first_at, second_at), (first, second), strict=True):
        assert start + 0.3 * SAMPLE_RATE == pytest.approx(at, abs=0.1 * SAMPLE_RATE)
        assert stop - 0.3 * SAMPLE_RATE == pytest.approx(at + len(said), abs=0.1 * SAMPLE_RATE)


def test_the_gate_holds_back_pauses_and_nothing_that_is_said(speech: Samples) -> None:
    pause = noise(30, level=0.0003)
    samples = np.concatenate([pause, speech, pause])
    gate = SpeechGate()
    heard = detected(lambda windows: gate(windows).astype(np.float32), samples)
    assert heard[:900].mean() < 0.3  # at first it must learn how loud the background is
    assert heard[-600:-200].mean() < 0.05
    plain = detected(SileroDetector(gated=False), samples)
    gated = detected(SileroDetector(), samples)
    assert not ((plain >= 0.5) & (gated < 0.35)).any()
    assert not ((plain < 0.35) & (gated >= 0.5)).any()


def test_calls_of_any_length_hear_the_same(speech: Samples) -> None:
    samples = np.concatenate([speech[: 10 * SAMPLE_RATE], np.zeros(8 * SAMPLE_RATE, np.float32), speech])
    at_once = detected(SileroDetector(), samples, block_windows=10_000)
    for block_windows in (1, 7, 156):
        np.testing.assert_allclose(
            detected(SileroDetector(), samples, block_windows), at_once, atol=1e-4, err_msg=f"{block_windows}"
        )


def test_streams_in_many_threads_do_not_disturb_each_other(speech: Samples) -> None:
    starts = [round(at * SAMPLE_RATE) for at in (0, 7, 13, 22)]
    alone = [detected(SileroDetector(), speech[start:]) for start in starts]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda start: detected(SileroDetector(), speech[start:]), starts))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_options_change_what_is_kept(speech: Samples) -> None:
    def duration_s(options: VadOptions) -> float:
        return math.fsum(chunk.duration_s for chunk in speech_chunks(in_blocks(speech), options))

    assert VadOptions() == VadOptions(threshold=0.5, prefix_padding_ms=300, silence_duration_ms=500)
    assert duration_s(VadOptions(prefix_padding_ms=0, silence_duration_ms=100)) < duration_s(VadOptions())
    assert duration_s(VadOptions(threshold=1.0)) == 0
