"""The gate against the model alone, on real speech: what it saves must not be speech."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stentor.audio.reader import AudioReader
from stentor.audio.silero import WINDOW_SAMPLES, Probabilities, SileroDetector, SpeechGate, Windows
from stentor.audio.vad import speech_chunks
from stentor.types import SAMPLE_RATE, Samples

LOST_S = 0.1
"""Of the speech in each language and recording. Measured: nothing of 3850 s nor with pauses."""

PADDING_WINDOWS = 9
"""Nearly 300 ms, which stay in on both sides of speech."""

LANGUAGES = ("de", "el", "en", "es", "fi", "fr", "hu", "it", "ja", "ko", "nl", "pt", "ru", "zh")
LONG = (
    "de_kerstin_38sentences.opus",
    "en_bush_columbia_2003.flac",
    "en_earnings22_1_4482311_3_62.flac",
    "en_earnings22_3_4483589_261_321.flac",
    "en_librispeech_8chapters.flac",
    "en_librispeech_ls3080_chapter.flac",
    "fr_fleursdumal-001.mp3",
    "fr_fleursdumal-114.mp3",
    "fr_fleursdumal-115.mp3",
    "nl_nathalie_38sentences.opus",
)


def read(path: Path) -> Samples:
    fd = os.open(path, os.O_RDONLY)
    try:
        with AudioReader(fd) as reader:
            return np.concatenate(list(reader.blocks()))
    finally:
        os.close(fd)


def windows(samples: Samples) -> Windows:
    return np.pad(samples, (0, -len(samples) % WINDOW_SAMPLES)).reshape(-1, WINDOW_SAMPLES)


def speech(probabilities: Probabilities) -> NDArray[np.bool_]:
    """Windows in which somebody speaks: from 0.5 on until it falls below 0.35."""
    speaking = False
    told = [speaking := p >= (0.35 if speaking else 0.5) for p in probabilities.tolist()]
    return np.array(told, np.bool_)


def lost_s(heard: Windows) -> float:
    """How much of the speech that the model finds alone lies outside of what it finds gated, with padding."""
    alone = speech(SileroDetector(gated=False)(heard))
    gated = SileroDetector()
    found = speech(np.concatenate([gated(heard[at : at + 156]) for at in range(0, len(heard), 156)]))
    kept = np.convolve(found, np.ones(2 * PADDING_WINDOWS + 1), "same") > 0
    return float((alone & ~kept).sum() * WINDOW_SAMPLES / SAMPLE_RATE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_gate_loses_no_speech_in_any_language(corpus: Path, language: str) -> None:
    paths = sorted((corpus / "speech" / language).glob("*.flac"))
    assert paths
    assert sum(lost_s(windows(read(path))) for path in paths) <= LOST_S


@pytest.mark.parametrize("name", LONG)
def test_the_gate_loses_no_speech_in_long_recordings(corpus: Path, name: str) -> None:
    assert lost_s(windows(read(corpus / "long" / name))) <= LOST_S


@pytest.mark.parametrize("noise_db", [None, -70, -55, -40])
def test_the_gate_saves_most_of_a_recording_with_pauses(corpus: Path, noise_db: float | None) -> None:
    generator = np.random.default_rng(5)
    parts: list[Samples] = []
    for path in sorted((corpus / "speech" / "en").glob("*.flac"))[::20]:
        pause = np.zeros(round(generator.uniform(5, 30) * SAMPLE_RATE), np.float32)
        parts += [pause, read(path)]
    recording = np.concatenate(parts)
    if noise_db is not None:
        recording += 10 ** (noise_db / 20) * generator.standard_normal(len(recording), np.float32)
    heard = windows(recording)
    assert lost_s(heard) <= LOST_S
    assert SpeechGate()(heard).mean() < 0.45  # 0.34 in silence, where 0.25 are speech


def test_no_utterance_is_taken_for_silence(corpus: Path, manifest: dict[str, dict[str, Any]]) -> None:
    paths = [path for path, entry in manifest.items() if path.startswith("speech/de/") and entry["text"]]
    for path in paths:
        chunks = list(speech_chunks([read(corpus / path)]))
        assert sum(chunk.duration_s for chunk in chunks) > 0.5 * manifest[path]["seconds"], path
