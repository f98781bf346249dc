"""What bounds the reading of audio, and how the rooms inside `audio/` tell each other that it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from stentor.errors import AudioError, AudioTooLong
from stentor.types import Samples

RAW_FRAMES = 1 << 16
"""Frames a decoder hands over at once. Fixed in frames, so that memory is bounded whatever rate a header
claims (16 channels: 4 MB), and small enough to stay in the cache from the decoder to the resampler: 30 s of
48 kHz stereo mp3 take 20 ms so, and 30 ms in pieces of 5 s. Smaller ones cost calls, and with them turns of
the GIL: two threads decode 1.9 times as much wav as one so, 1.4 with half, 1.06 times with a quarter."""

SUPPORTED = "wav, flac, mp3, ogg, opus, m4a, mp4 or webm"
"""For messages. More is read (see `sniff.py`), but these are what we advise to send."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What a file may be. All of it holds during the work, not after it."""

    max_audio_s: float = 4 * 3600
    max_channels: int = 16
    min_rate_hz: int = 4_000
    """Below it lies no speech, but 32,000 s of audio in a 64 KB file that claims 1 Hz."""
    max_rate_hz: int = 384_000


ANY_LENGTH = ReaderLimits(max_audio_s=float("inf"))
"""For files that are the caller's own: no limit on their length but the caller's patience."""


class Stopped(Exception):
    """The `stop` event was set while the audio was read. Raised out of `AudioReader.blocks`.

    Private to those who run audio steps: it says nothing about the audio and never reaches a client.
    """


class DecodeFailure(Exception):
    """A decoder cannot open the file or cannot go on. Another one may.

    Private to `audio/`: the reader turns it into an `AudioError`, or into `damage`.
    """


class Decoder(Protocol):
    """One library at work on one file. Its constructor reads the header and holds it against the limits."""

    rate_hz: int
    duration_s: float | None
    """What the header says, or None where it says nothing or lies."""
    lost_packets: int
    """Damaged packets skipped so far."""

    def blocks(self) -> Iterator[Samples]:
        """Raw blocks, float32 (n_frames, n_channels), each valid until the next one is asked for.

        Raises:
            DecodeFailure: It cannot go on. What it has given stands.
        """

    def close(self) -> None:
        """Let go of the file; the descriptor stays open."""


def check_header(rate_hz: int, channels: int, limits: ReaderLimits) -> None:
    """Refuse what no recording of speech looks like.

    Raises:
        AudioError: The sample rate or the number of channels is outside `limits`.
    """
    if not limits.min_rate_hz <= rate_hz <= limits.max_rate_hz:
        raise AudioError(
            f"The audio's sample rate is {rate_hz} Hz; rates from {limits.min_rate_hz} to "
            f"{limits.max_rate_hz} Hz are read. Convert it to 16000 Hz."
        )
    if not 1 <= channels <= limits.max_channels:
        raise AudioError(
            f"The audio has {channels} channels; 1 to {limits.max_channels} are read. Convert it to mono."
        )


def too_long(limits: ReaderLimits) -> AudioTooLong:
    """The error for audio that goes on past the limit: what the limit is, and what to change."""
    return AudioTooLong(
        f"The audio is longer than {readable_s(limits.max_audio_s)}, the most that is taken in one request. "
        "Send it in parts, or have the server's max_audio_s (STENTOR_MAX_AUDIO_S) raised."
    )


def readable_s(seconds: float) -> str:
    """Seconds as a person says them: "4 h", "1 h 30 min", "90.5 s"."""
    if seconds < 120 or seconds % 60:
        return f"{seconds:g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min")) if count)
