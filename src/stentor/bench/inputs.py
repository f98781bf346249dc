"""The audio that the preprocessing bench decodes: made from a little speech, in a folder of its own."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from numpy.typing import NDArray

from stentor.errors import SetupError

RATE_HZ = 48_000

CODECS = {"mp3": "libmp3lame", "m4a": "aac", "webm": "libopus", "flac": "flac", "wav": "pcm_s16le"}
"""The formats measured, by the ending that also names the container, and what codes them."""

BIT_RATE = 128_000
"""Of the codecs that lose something; the others take no notice."""

NOISE_S = 30

Frames = NDArray[np.int16]
"""int16 (n_frames, 2), 48 kHz."""


class Inputs:
    """Makes each file when it is first asked for.

    Args:
        folder: Where the files go.
        speech: Any audio file to make them from; noise when there is none, which takes as long to decode.

    Raises:
        SetupError: The speech cannot be read as audio.
    """

    def __init__(self, folder: Path, speech: Path | None) -> None:
        self._folder = folder
        self._frames = _noise() if speech is None else _read(speech)

    def clip(self, format: str, seconds: float) -> Path:
        """A short 48 kHz stereo file in one of the formats of `CODECS`."""
        path = self._folder / f"clip-{seconds:g}s.{format}"
        if not path.exists():
            count = round(seconds * RATE_HZ)
            _encode(np.resize(self._frames, (count, 2)), path, CODECS[format])
        return path

    def long_mp3(self, seconds: float) -> Path:
        """A long mp3 of the speech over and over.

        Coded once, its packets are repeated: an hour takes 0.5 s to make so, and 60 s to code anew.
        """
        path = self._folder / f"long-{seconds:g}s.mp3"
        if not path.exists():
            once = self._folder / "once.mp3"
            if not once.exists():
                _encode(self._frames, once, CODECS["mp3"])
            _repeat(once, path, seconds)
        return path


def _read(speech: Path) -> Frames:
    resampler = AudioResampler(format="s16", layout="stereo", rate=RATE_HZ)
    try:
        with av.open(str(speech)) as container:
            decoded = chain(container.decode(audio=0), [None])
            pieces = [piece.to_ndarray() for frame in decoded for piece in resampler.resample(frame)]
        frames = np.concatenate(pieces, axis=1).reshape(-1, 2).astype(np.int16)
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise SetupError(f"{speech} cannot be read as audio: {error}") from error
    # Two equal channels would be coded as one and an empty difference, which is cheaper than stereo is.
    frames[:, 1] = frames[:, 1] * 0.8
    return frames


def _noise() -> Frames:
    noise = np.random.default_rng(7).standard_normal((NOISE_S * RATE_HZ, 2))
    return (noise * 0.05 * 32767).astype(np.int16)


def _encode(frames: Frames, path: Path, codec: str) -> None:
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=RATE_HZ, layout="stereo")
        assert isinstance(stream, AudioStream)
        stream.bit_rate = BIT_RATE
        frame = AudioFrame.from_ndarray(frames.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = RATE_HZ
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def _repeat(source: Path, path: Path, seconds: float) -> None:
    with av.open(str(source)) as once, av.open(str(path), "w") as output:
        heard = once.streams.audio[0]
        stream = output.add_stream_from_template(heard)
        packets = [packet for packet in once.demux(heard) if packet.size]
        payloads = [bytes(packet) for packet in packets]
        step, time_base = packets[0].duration, packets[0].time_base
        assert step is not None
        for index in range(round(seconds / (step * time_base))):
            packet = av.Packet(payloads[index % len(payloads)])
            packet.stream, packet.time_base = stream, time_base
            packet.pts = packet.dts = index * step
            packet.duration = step
            output.mux(packet)
