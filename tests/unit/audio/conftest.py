"""Small audio in any container, written by the tests themselves, and descriptors to read it from."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from numpy.typing import NDArray

Array = NDArray[np.float32]


@pytest.fixture
def fd_of(tmp_path: Path) -> Iterator[Callable[[bytes], int]]:
    """Puts bytes into a file without a telling name and gives its descriptor."""
    fds: list[int] = []

    def make(data: bytes) -> int:
        path = tmp_path / f"upload-{len(fds)}"
        path.write_bytes(data)
        fds.append(os.open(path, os.O_RDONLY))
        return fds[-1]

    yield make
    for fd in fds:
        os.close(fd)  # fails when somebody closed it for us


@pytest.fixture
def sung() -> Callable[..., Array]:
    """A tone whose loudness rises and falls twice a second, so that a shift in time shows."""

    def make(seconds: float, rate_hz: int = 16_000, channels: int = 1) -> Array:
        t = np.arange(int(seconds * rate_hz)) / rate_hz
        tone = (0.3 + 0.2 * np.sin(2 * np.pi * 2 * t)) * np.sin(2 * np.pi * 330 * t)
        return np.repeat(tone.astype(np.float32)[:, None], channels, axis=1)

    return make


@pytest.fixture
def written() -> Callable[..., bytes]:
    """Writes with libsndfile."""

    def make(frames: Array, rate_hz: int, format: str, subtype: str | None = None) -> bytes:
        buffer = io.BytesIO()
        soundfile.write(buffer, frames, rate_hz, format=format, subtype=subtype)
        return buffer.getvalue()

    return make


@pytest.fixture
def encoded() -> Callable[..., bytes]:
    """Encodes with FFmpeg."""

    def make(frames: Array, rate_hz: int, codec: str, container: str, **options: str) -> bytes:
        buffer = io.BytesIO()
        layout = {1: "mono", 2: "stereo", 6: "5.1"}[frames.shape[1]]
        with av.open(buffer, "w", format=container, container_options=options) as output:
            stream = output.add_stream(codec, rate=rate_hz)
            assert isinstance(stream, AudioStream)
            stream.layout = layout
            stream.bit_rate = 96_000
            if codec in ("aac", "libmp3lame"):
                stream.format = "fltp"
            stream.codec_context.open(strict=False)
            size = stream.codec_context.frame_size or 1024
            for start in range(0, len(frames), size):
                frame = _frame(frames[start : start + size], stream.format.name, layout)
                frame.sample_rate, frame.pts = rate_hz, start
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
        return buffer.getvalue()

    return make


def _frame(part: Array, sample_format: str, layout: str) -> AudioFrame:
    if sample_format.startswith("s16"):
        data = np.asarray(part * 32767, np.int16)
        planes = data.T if sample_format.endswith("p") else data.reshape(1, -1)
        return AudioFrame.from_ndarray(np.ascontiguousarray(planes), format=sample_format, layout=layout)
    floats = part.T if sample_format.endswith("p") else part.reshape(1, -1)
    return AudioFrame.from_ndarray(np.ascontiguousarray(floats), format=sample_format, layout=layout)
