"""What a file is, from its bytes alone; its name and its declared type are never seen.

The answer is also a fence: it names the one FFmpeg demuxer that may see the file. What is not on the list
reaches no library at all, above all no playlist (HLS, ffconcat, SDP, DASH, PLS, RTSP text), through
which FFmpeg opens other files and addresses or waits for ever for packets.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from stentor.audio import mpeg
from stentor.audio.limits import SUPPORTED
from stentor.errors import AudioError

_HEAD_BYTES = 1 << 16
"""Read to recognise the content, and searched for the first frame when an mp3 begins with junk."""

_MAX_TAGS = 8
"""ID3v2 tags skipped before the content. One is the rule, two are seen, more are an attack."""

_GSM_FRAME_BYTES, _GSM_FRAMES = 33, 16
"""GSM 06.10 has no header: each frame of 33 bytes begins with the nibble D. 16 in a row: 1 in 2^64."""


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What the content is and who may read it."""

    format: str
    """Short and from a closed list, so that it can label a metric."""
    demuxer: str
    """The only FFmpeg demuxer that may see the file."""
    sndfile: bool = False
    """Whether libsndfile is asked first. It reads wav and flac faster than FFmpeg. FFmpeg reads vorbis
    faster (30 ms against 40 for 30 s); mp3 takes it 24 ms against 22, but it goes on after a damaged frame
    and does not write to stderr about it, which libmpg123 does without a switch to stop it."""
    offset_bytes: int = 0
    """Where the content begins: after ID3v2 tags and junk."""


def read_at(fd: int, offset_bytes: int, size_bytes: int) -> bytes:
    """Up to `size_bytes` from `offset_bytes` on; fewer at the end of the file."""
    os.lseek(fd, offset_bytes, os.SEEK_SET)
    parts: list[bytes] = []
    while size_bytes > 0 and (part := os.read(fd, size_bytes)):
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)


def sniff(fd: int) -> Sniffed:
    """Recognise the content of a regular file.

    Raises:
        AudioError: The file is empty, or nothing that we read.
    """
    file_bytes = os.fstat(fd).st_size
    if file_bytes == 0:
        raise AudioError(f"The file is empty (0 bytes). Send {SUPPORTED}.")
    offset_bytes = _after_tags(fd, file_bytes)
    head = read_at(fd, offset_bytes, _HEAD_BYTES)
    whole = offset_bytes + len(head) >= file_bytes
    found = _by_magic(head) or _by_frames(head, whole)
    if found is None:
        what = _known_refusal(head)
        raise AudioError(f"The file is not audio in a format that is read here{what}. Send {SUPPORTED}.")
    return replace(found, offset_bytes=offset_bytes + found.offset_bytes)


def _after_tags(fd: int, file_bytes: int) -> int:
    """Where the content begins after ID3v2 tags.

    We skip them ourselves: a cover of megabytes would be more than FFmpeg looks at to recognise a file.
    """
    at = 0
    for _ in range(_MAX_TAGS):
        tag = read_at(fd, at, 10)
        if len(tag) < 10 or tag[:3] != b"ID3" or max(tag[6:10]) > 0x7F:
            break
        size_bytes = tag[6] << 21 | tag[7] << 14 | tag[8] << 7 | tag[9]
        end = at + 10 + size_bytes + (10 if tag[5] & 0x10 else 0)
        if end >= file_bytes:  # the tag lies about its length: look for the first frame behind its head
            return at + 10
        at = end
    return at


def _by_magic(head: bytes) -> Sniffed | None:
    """Formats that begin with a magic number."""
    if head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and head[8:12] == b"WAVE":
        return Sniffed("wav", "wav", sndfile=True)
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return Sniffed("aiff", "aiff", sndfile=True)
    if head[:4] == b"OggS":
        return _ogg(head)
    if head[:4] == b"\x1aE\xdf\xa3":
        return Sniffed("webm" if b"webm" in head[:64] else "mkv", "matroska")
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"):
        return Sniffed(_mp4_brand(head), "mov")
    for magic, sniffed in _MAGIC:
        if head.startswith(magic):
            return sniffed
    return None


_MAGIC = (
    (b"fLaC", Sniffed("flac", "flac", sndfile=True)),
    (b".snd", Sniffed("au", "au", sndfile=True)),
    (b"caff", Sniffed("caf", "caf", sndfile=True)),
    (b"riff\x2e\x91\xcf\x11", Sniffed("w64", "w64", sndfile=True)),
    (b"NIST_1A\n", Sniffed("sph", "nistsphere", sndfile=True)),
    (b"#!AMR\n", Sniffed("amr", "amr")),
    (b"#!AMR-WB\n", Sniffed("amr", "amr")),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", Sniffed("wma", "asf")),
    (b"FLV\x01", Sniffed("flv", "flv")),
    (b"\x00\x00\x01\xba", Sniffed("mpeg", "mpeg")),
)


def _ogg(head: bytes) -> Sniffed:
    """Name the codec by the first packet, which stands behind the first page's table of segments."""
    packet = head[27 + head[26] :] if len(head) > 27 else b""
    for magic, codec in (
        (b"OpusHead", "opus"),
        (b"\x01vorbis", "vorbis"),
        (b"\x7fFLAC", "flac"),
        (b"Speex   ", "speex"),
    ):
        if packet.startswith(magic):
            return Sniffed(f"ogg-{codec}", "ogg")
    return Sniffed("ogg", "ogg")


def _mp4_brand(head: bytes) -> str:
    brand = head[8:12] if head[4:8] == b"ftyp" else b""
    if brand.startswith((b"3gp", b"3g2")):
        return "3gp"
    return {b"M4A ": "m4a", b"qt  ": "mov"}.get(brand, "mp4")


def _by_frames(head: bytes, whole: bool) -> Sniffed | None:
    """Formats that are known by frames which follow each other."""
    for packet_bytes, sync in ((188, 0), (192, 4)):  # 192: with a time stamp before each packet
        syncs = head[sync : sync + 5 * packet_bytes : packet_bytes]
        if len(syncs) >= 2 and syncs.count(b"\x47") == len(syncs):
            return Sniffed("ts", "mpegts")
    codec = mpeg.chain(head, 0, 2, whole=whole)
    if codec is not None:
        return _mpeg(codec, 0)
    if head[:2] == b"\x0b\x77" and len(head) > 5 and head[5] >> 3 <= 16:
        return Sniffed("ac3", "ac3") if head[5] >> 3 <= 10 else Sniffed("eac3", "eac3")
    starts = head[: _GSM_FRAME_BYTES * _GSM_FRAMES : _GSM_FRAME_BYTES]
    if len(starts) == _GSM_FRAMES and all(first >> 4 == 0xD for first in starts):
        return Sniffed("gsm", "gsm")
    # A stream that was cut out of another begins in the middle of a frame. What lies before the first
    # frame is skipped and shown to no library; four frames in a row do not come about by chance.
    found = mpeg.find_chain(head, 0, 4)
    return _mpeg(found[1], found[0]) if found is not None else None


def _mpeg(codec: mpeg.Codec, offset_bytes: int) -> Sniffed:
    if codec == "aac":
        return Sniffed("aac", "aac", offset_bytes=offset_bytes)
    # FFmpeg's mp3 demuxer promises float for all layers, its decoder of layer II gives integers, and the
    # filter graph refuses the change. libsndfile reads layers I and II, if the file begins with them.
    return Sniffed(codec, "mp3", sndfile=codec != "mp3" and offset_bytes == 0, offset_bytes=offset_bytes)


_REFUSALS = (
    ((b"#EXTM3U", b"ffconcat", b"[playlist]", b"v=0", b"RTSPtext", b"<ASX", b"<asx", b"<MPD"), "a playlist"),
    ((b"<!DOCTYPE", b"<!doctype", b"<html", b"<HTML"), "a web page"),
    ((b"<?xml",), "XML"),
    ((b"{", b"["), "JSON"),
    ((b"\x1f\x8b", b"PK\x03\x04", b"7z\xbc\xaf", b"BZh", b"\xfd7zXZ", b"Rar!"), "a compressed archive"),
    ((b"\x89PNG", b"\xff\xd8\xff", b"GIF8"), "a picture"),
    ((b"%PDF",), "a PDF"),
)


def _known_refusal(head: bytes) -> str:
    """What we can say about a file that we refuse; a hint for the reader of the message, never a decision."""
    start = head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    for magics, what in _REFUSALS:
        if start.startswith(magics):
            return f": it looks like {what}"
    return ""
