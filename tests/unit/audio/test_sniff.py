from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from stentor.audio.mpeg import chain, find_chain, frame_header
from stentor.audio.sniff import Sniffed, sniff
from stentor.errors import AudioError

Array = NDArray[np.float32]
FdOf = Callable[[bytes], int]

MP3_FRAME = bytes.fromhex("fffb9000") + bytes(413)  # 128 kbit/s, 44.1 kHz: 417 bytes
ADTS_FRAME = bytes.fromhex("fff15080040000") + bytes(25)  # 32 bytes
AC3_START = bytes.fromhex("0b77000000400000")


def id3(size_bytes: int) -> bytes:
    sizes = bytes(size_bytes >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x03\x00\x00" + sizes


def ogg(packet: bytes) -> bytes:
    return b"OggS\x00\x02" + bytes(20) + b"\x01" + bytes([len(packet)]) + packet


@pytest.mark.parametrize(
    ("data", "format", "demuxer"),
    [
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "wav", "wav"),
        (b"RF64\xff\xff\xff\xffWAVEds64", "wav", "wav"),
        (b"FORM\x00\x00\x00\x00AIFCFVER", "aiff", "aiff"),
        (b"fLaC\x00\x00\x00\x22", "flac", "flac"),
        (b".snd\x00\x00\x00\x18", "au", "au"),
        (b"caff\x00\x01\x00\x00", "caf", "caf"),
        (b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb", "w64", "w64"),
        (b"NIST_1A\n   1024\n", "sph", "nistsphere"),
        (ogg(b"OpusHead\x01\x02"), "ogg-opus", "ogg"),
        (ogg(b"\x01vorbis"), "ogg-vorbis", "ogg"),
        (ogg(b"\x7fFLAC"), "ogg-flac", "ogg"),
        (ogg(b"Speex   1.2"), "ogg-speex", "ogg"),
        (ogg(b"\x80theora"), "ogg", "ogg"),
        (b"OggS", "ogg", "ogg"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "webm", "matroska"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x88matroska", "mkv", "matroska"),
        (b"\x00\x00\x00\x1cftypM4A \x00\x00\x02\x00", "m4a", "mov"),
        (b"\x00\x00\x00\x1cftypisom\x00\x00\x02\x00", "mp4", "mov"),
        (b"\x00\x00\x00\x1cftyp3gp4\x00\x00\x02\x00", "3gp", "mov"),
        (b"\x00\x00\x00\x1cftypqt  \x00\x00\x02\x00", "mov", "mov"),
        (b"\x00\x00\x10\x00moov\x00\x00\x00\x6cmvhd", "mp4", "mov"),
        (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9", "wma", "asf"),
        (b"#!AMR\n\x3c", "amr", "amr"),
        (b"#!AMR-WB\n\x3c", "amr", "amr"),
        (b"FLV\x01\x05", "flv", "flv"),
        (b"\x00\x00\x01\xba\x44", "mpeg", "mpeg"),
        (MP3_FRAME * 2, "mp3", "mp3"),
        (MP3_FRAME, "mp3", "mp3"),
        (ADTS_FRAME * 3, "aac", "aac"),
        (AC3_START, "ac3", "ac3"),
        ((b"\x47" + bytes(187)) * 3, "ts", "mpegts"),
        ((bytes(4) + b"\x47" + bytes(187)) * 3, "ts", "mpegts"),
        ((b"\xd8" + bytes(32)) * 16, "gsm", "gsm"),
    ],
)
def test_content_names_the_format_and_the_one_demuxer(
    fd_of: FdOf, data: bytes, format: str, demuxer: str
) -> None:
    sniffed = sniff(fd_of(data))
    assert (sniffed.format, sniffed.demuxer, sniffed.offset_bytes) == (format, demuxer, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n",
        b"\xef\xbb\xbf#EXTM3U\nhttp://127.0.0.1:9/a.ts\n",
        b"ffconcat version 1.0\nfile other.wav\n",
        b"v=0\r\nc=IN IP4 127.0.0.1\r\nm=audio 5004 RTP/AVP 0\r\n",
        b"[playlist]\nFile1=file:///etc/passwd\n",
        b"RTSPtextRTSP://127.0.0.1:9/\r\n",
        b"<MPD xmlns='urn:mpeg:dash:schema:mpd:2011'/>",
        b"\xff\xfe" + "#EXTM3U\nfile:///etc/passwd\n".encode("utf-16-le"),
    ],
)
def test_playlists_are_refused(fd_of: FdOf, data: bytes) -> None:
    with pytest.raises(AudioError, match="not audio in a format that is read here"):
        sniff(fd_of(data))


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"<!DOCTYPE html><html>", "a web page"),
        (b'{"error": "not found"}', "JSON"),
        (b"PK\x03\x04", "a compressed archive"),
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (b"%PDF-1.7", "a PDF"),
    ],
)
def test_a_refusal_says_what_the_file_looks_like_and_what_to_send(
    fd_of: FdOf, data: bytes, hint: str
) -> None:
    with pytest.raises(AudioError, match=f"it looks like {hint}. Send wav, flac, mp3"):
        sniff(fd_of(data))


def test_an_empty_file_is_refused(fd_of: FdOf) -> None:
    with pytest.raises(AudioError, match="empty"):
        sniff(fd_of(b""))


@pytest.mark.parametrize(
    "data", [b"R", b"\xff", b"\xff\xfb", b"plain text, nothing else. " * 500, bytes(9999)]
)
def test_what_is_nothing_known_is_refused(fd_of: FdOf, data: bytes) -> None:
    with pytest.raises(AudioError):
        sniff(fd_of(data))


def test_random_bytes_are_refused(fd_of: FdOf) -> None:
    noise = np.random.default_rng(5)
    for _ in range(20):
        with pytest.raises(AudioError):
            sniff(fd_of(noise.bytes(70_000)))


def test_tags_of_any_size_are_skipped(fd_of: FdOf) -> None:
    tags = id3(300_000) + bytes(300_000) + id3(5) + bytes(5)
    assert sniff(fd_of(tags + MP3_FRAME * 2)) == Sniffed("mp3", "mp3", offset_bytes=len(tags))
    assert sniff(fd_of(tags + ADTS_FRAME * 3)) == Sniffed("aac", "aac", offset_bytes=len(tags))
    assert sniff(fd_of(tags + b"fLaC")).format == "flac"


def test_a_tag_that_claims_more_than_the_file_holds_is_searched(fd_of: FdOf) -> None:
    data = id3(200_000_000) + b"title" + MP3_FRAME * 5
    assert sniff(fd_of(data)) == Sniffed("mp3", "mp3", offset_bytes=15)


def test_a_stream_cut_out_of_another_begins_at_its_first_frame(fd_of: FdOf) -> None:
    assert sniff(fd_of(MP3_FRAME[100:] + MP3_FRAME * 5)) == Sniffed("mp3", "mp3", offset_bytes=317)


def test_layer_two_goes_to_libsndfile_and_layer_three_does_not(fd_of: FdOf) -> None:
    layer_two = bytes.fromhex("fffd8400") + bytes(380)  # 128 kbit/s, 48 kHz: 384 bytes
    assert sniff(fd_of(layer_two * 3)) == Sniffed("mp2", "mp3", sndfile=True)
    assert not sniff(fd_of(MP3_FRAME * 3)).sndfile


def test_a_frame_says_how_long_it_is() -> None:
    header = frame_header(MP3_FRAME, 0)
    assert header is not None
    assert (header.codec, header.size_bytes) == ("mp3", 417)
    adts = frame_header(ADTS_FRAME, 0)
    assert adts is not None
    assert (adts.codec, adts.size_bytes) == ("aac", 32)


@pytest.mark.parametrize(
    "start", ["fffb0000", "fffbf000", "fffb9c00", "ffeb9000", "fff13c80040000", "00fb9000"]
)
def test_impossible_headers_are_none(start: str) -> None:
    assert frame_header(bytes.fromhex(start) + bytes(400), 0) is None


def test_a_chain_wants_the_same_kind_of_frame_all_along() -> None:
    other_rate = bytes.fromhex("fffb9400") + bytes(380)
    assert chain(MP3_FRAME * 3, 0, 3, whole=False) == "mp3"
    assert chain(MP3_FRAME + other_rate * 2, 0, 3, whole=False) is None
    assert chain(MP3_FRAME, 0, 2, whole=False) is None
    assert find_chain(bytes(50) + MP3_FRAME * 4, 0, 4) == (50, "mp3")
    assert find_chain(bytes(5000), 0, 4) is None
