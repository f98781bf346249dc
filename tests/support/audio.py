"""Small audio files that tests make themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from stentor.types import SAMPLE_RATE, Samples


def noise(seconds: float, *, level: float = 0.05, seed: int = 7) -> Samples:
    """Noise that is plainly not silence."""
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(round(seconds * SAMPLE_RATE)) * level).astype(np.float32)


def bursts(seconds: float, *, pause_every_s: float = 10.0, pause_s: float = 0.4) -> Samples:
    """Noise with pauses in it, where a chunker likes to cut."""
    samples = noise(seconds)
    for start_s in np.arange(pause_every_s, seconds, pause_every_s):
        start = round(float(start_s) * SAMPLE_RATE)
        samples[start : start + round(pause_s * SAMPLE_RATE)] = 0
    return samples


def write(path: Path, samples: Samples) -> Path:
    """Write 16 kHz mono in the format that the name's ending says."""
    soundfile.write(path, samples, SAMPLE_RATE)
    return path
