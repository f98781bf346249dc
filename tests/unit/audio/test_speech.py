"""How much of some audio is speech."""

from __future__ import annotations

import numpy as np
import pytest

from stentor.audio.vad import speech_s
from stentor.types import SAMPLE_RATE, Samples
from support.audio import noise, packaged_speech, speech

TIME_S = np.arange(10 * SAMPLE_RATE) / SAMPLE_RATE
MELODY = sum(
    0.1 * np.sin(2 * np.pi * pitch_hz * TIME_S) * ((TIME_S * 4 + at) % 8 < 1)
    for at, pitch_hz in enumerate((262, 294, 330, 349, 392, 440, 494, 523))
)


@pytest.mark.parametrize(
    "samples",
    [
        noise(10),
        np.asarray(MELODY, np.float32),
        (0.2 * np.sin(2 * np.pi * 440 * TIME_S)).astype(np.float32),
        np.zeros(10 * SAMPLE_RATE, np.float32),
        np.zeros(0, np.float32),
    ],
    ids=["noise", "melody", "tone", "silence", "nothing"],
)
def test_there_is_none_where_nobody_speaks(samples: Samples) -> None:
    assert speech_s(samples) == 0


def test_there_is_as_much_as_was_said() -> None:
    said = speech(packaged_speech() / "two_cities.wav")[: 20 * SAMPLE_RATE]
    heard_s = speech_s(np.concatenate([noise(10, level=0.001), said]))
    assert 14 < heard_s <= 20.5
