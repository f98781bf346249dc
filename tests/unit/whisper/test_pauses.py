from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.types import SAMPLE_RATE, Chunk, Piece, Samples, Word
from stentor.whisper.pauses import Pause, between, pauses


def sound(*spans: tuple[float, float], seconds: float, noise: float = 0.0) -> Samples:
    """Loud between the given seconds, quiet elsewhere."""
    random = np.random.default_rng(3)
    samples = (noise * random.standard_normal(round(seconds * SAMPLE_RATE))).astype(np.float32)
    for start_s, end_s in spans:
        stretch = slice(round(start_s * SAMPLE_RATE), round(end_s * SAMPLE_RATE))
        samples[stretch] += 0.2 * random.standard_normal(len(samples[stretch])).astype(np.float32)
    return samples


def of(samples: Samples, *seams_s: float) -> tuple[Pause, ...]:
    """The pauses of a chunk from which silence was left out at some places."""
    pieces = tuple(Piece(round(at_s * SAMPLE_RATE), round(100 * at_s)) for at_s in (0.0, *seams_s))
    return pauses(Chunk(0, 0, samples, pieces=pieces if seams_s else ()))


def word(text: str, start_s: float, end_s: float) -> Word:
    return Word(text, start_s, end_s, 1.0)


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.02])
def test_pauses_are_where_nothing_is_loud(noise: float) -> None:
    samples = sound((0.5, 1.5), (2.0, 2.8), seconds=4, noise=noise)
    found = np.array(of(samples))
    assert found == pytest.approx(np.array([(0, 0.5), (1.5, 2.0), (2.8, 4.0)]), abs=0.011)


def test_a_closure_inside_a_word_is_no_pause() -> None:
    assert of(sound((0, 0.6), (0.68, 1.3), (1.38, 2.0), seconds=2)) == (Pause(0, 0), Pause(2, 2))


@pytest.mark.parametrize(
    "samples",
    [np.zeros(0, np.float32), np.zeros(100, np.float32), sound((0, 5), seconds=5), sound(seconds=5)],
    ids=["nothing", "less than a frame", "noise", "silence"],
)
def test_where_levels_tell_nothing_there_are_no_pauses(samples: Samples) -> None:
    assert of(samples) == ()


def test_where_silence_was_left_out_is_a_pause() -> None:
    assert of(sound((0, 0.6), (0.68, 1.3), (1.38, 2.0), seconds=2), 1.0) == (
        Pause(0, 0), Pause(1, 1), Pause(2, 2)
    )  # fmt: skip
    assert of(sound((0, 5), seconds=5), 3.0) == (Pause(3, 3),)


def test_words_beside_a_pause_reach_to_its_edges() -> None:
    words = [word(" one", 0.1, 0.6), word(" two", 0.6, 1.1), word(" three", 1.1, 2.0)]
    found = between(words, [Pause(0, 0.05), Pause(1.4, 1.6), Pause(2.2, 3.0)])
    assert [(each.start_s, each.end_s) for each in found] == [(0.05, 0.6), (0.6, 1.4), (1.6, 2.2)]


def test_a_pause_too_far_from_any_word_moves_none() -> None:
    words = [word(" one", 0.1, 0.6)]
    assert between(words, [Pause(5.0, 6.0)]) == words


def test_of_two_pauses_between_the_same_words_the_longer_one_counts() -> None:
    words = [word(" one", 0.0, 1.0), word(" two", 1.0, 3.0)]
    first, second = between(words, [Pause(0.8, 0.9), Pause(1.3, 2.0)])
    assert (first.end_s, second.start_s) == (1.3, 2.0)


def test_no_words_stay_no_words() -> None:
    assert between([], [Pause(0, 1)]) == []


times = st.lists(st.floats(0, 30), min_size=2, max_size=40, unique=True).map(sorted)


@given(times, times)
def test_words_stay_in_order_and_keep_their_texts(edges: list[float], quiet: list[float]) -> None:
    words = [word(str(at), *edges[at : at + 2]) for at in range(len(edges) - 1)]
    stretches = [Pause(*quiet[at : at + 2]) for at in range(0, len(quiet) - 1, 2)]
    found = between(words, stretches)
    assert [each.text for each in found] == [each.text for each in words]
    bounds = [edge for each in found for edge in (each.start_s, each.end_s)]
    assert bounds == sorted(bounds)
