"""Frame headers of MPEG audio and ADTS AAC: formats without a magic number, known by a chain of frames.

Two sync bytes alone are no proof: UTF-16 text begins with FF FE, a valid Layer I header. A frame says how
long it is, so the next header must stand exactly there, with the same version, layer and rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# kbit/s for bitrate indexes 1 to 14. Source: ISO/IEC 11172-3 and 13818-3.
_KBPS = {
    (1, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (1, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (1, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ = {0: (11_025, 12_000, 8_000), 2: (22_050, 24_000, 16_000), 3: (44_100, 48_000, 32_000)}
_ADTS_RATES = 13

Codec = Literal["mp1", "mp2", "mp3", "aac"]


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """One frame: what it is, what must not change from frame to frame, and how long it is."""

    codec: Codec
    family: tuple[int, ...]
    size_bytes: int


def frame_header(data: bytes, at: int) -> FrameHeader | None:
    """The frame header at `at`, or None where none stands."""
    if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] & 0xE0 != 0xE0:
        return None
    if data[at + 1] & 0xF6 == 0xF0:
        return _adts_header(data, at)
    version, layer = data[at + 1] >> 3 & 3, 4 - (data[at + 1] >> 1 & 3)
    bitrate, rate, padding = data[at + 2] >> 4, data[at + 2] >> 2 & 3, data[at + 2] >> 1 & 1
    if version == 1 or layer == 4 or not 1 <= bitrate <= 14 or rate == 3:
        return None
    bps = 1000 * _KBPS[1 if version == 3 else 2, layer][bitrate - 1]
    rate_hz = _RATES_HZ[version][rate]
    if layer == 1:
        size_bytes = (12 * bps // rate_hz + padding) * 4
    else:
        size_bytes = (72 if layer == 3 and version != 3 else 144) * bps // rate_hz + padding
    codec: Codec = ("mp1", "mp2", "mp3")[layer - 1]
    return FrameHeader(codec, (version, layer, rate), size_bytes)


def _adts_header(data: bytes, at: int) -> FrameHeader | None:
    if at + 7 > len(data):
        return None
    rate = data[at + 2] >> 2 & 0xF
    size_bytes = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
    if rate >= _ADTS_RATES or size_bytes < 7:
        return None
    return FrameHeader("aac", (data[at + 1] >> 3 & 1, rate), size_bytes)


def chain(data: bytes, at: int, wanted: int, *, whole: bool) -> Codec | None:
    """The codec of `wanted` frames that follow each other from `at`, or None.

    Args:
        data: The bytes at hand.
        at: Where the first frame would begin.
        wanted: How many frames make a proof.
        whole: Whether `data` reaches the end of the file: then fewer frames do, if they fill it.
    """
    first = frame_header(data, at)
    if first is None or at + first.size_bytes > len(data):
        return None
    for _ in range(wanted - 1):
        header = frame_header(data, at)
        if header is None or header.family != first.family:
            return None
        at += header.size_bytes
        if at + 7 > len(data):
            return first.codec if whole else None
    header = frame_header(data, at)
    return first.codec if header is not None and header.family == first.family else None


def find_chain(data: bytes, start: int, wanted: int) -> tuple[int, Codec] | None:
    """Where in `data`, from `start` on, the first chain of `wanted` frames begins, and of what codec."""
    at = data.find(b"\xff", start)
    while at >= 0:
        codec = chain(data, at, wanted, whole=False)
        if codec is not None:
            return at, codec
        at = data.find(b"\xff", at + 1)
    return None
