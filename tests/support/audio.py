"""Audio for tests: files that they make themselves, and the speech that comes with their dependencies."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import soundfile
import soxr

from stentor.types import SAMPLE_RATE, Samples

TWO_CITIES_TEXT = """
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,
it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the season of
darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had
nothing before us, we were all going direct to heaven, we were all going direct the other way. In short, the
period was so far like the present period, that some of its noisiest authorities insisted on its being
received, for good or for evil, in the superlative degree of comparison only.
"""
"""Charles Dickens, A Tale of Two Cities, as it is read in the recording."""


def noise(seconds: float, *, level: float = 0.05, seed: int = 7) -> Samples:
    """Noise that is plainly not silence."""
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(round(seconds * SAMPLE_RATE)) * level).astype(np.float32)


def bursts(seconds: float, *, pause_every_s: float = 4.0, pause_s: float = 0.4) -> Samples:
    """Noise with pauses in it, so near to each other that every chunk ends in one."""
    samples = noise(seconds)
    for start_s in np.arange(pause_every_s, seconds, pause_every_s):
        start = round(float(start_s) * SAMPLE_RATE)
        samples[start : start + round(pause_s * SAMPLE_RATE)] = 0
    return samples


def packaged_speech() -> Path:
    """A folder of recordings."""
    spec = importlib.util.find_spec("moonshine_voice")  # found, not imported: the package wants PortAudio
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / "assets"


def speech(path: Path) -> Samples:
    """A mono recording at 16 kHz."""
    audio, rate = soundfile.read(path, dtype="float32")
    resampled: Samples = soxr.resample(audio, rate, SAMPLE_RATE)
    return resampled


def write(path: Path, samples: Samples) -> Path:
    """Write 16 kHz mono in the format that the name's ending says."""
    soundfile.write(path, samples, SAMPLE_RATE)
    return path
