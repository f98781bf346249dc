from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from numpy.typing import NDArray

from stentor.audio.limits import readable_s
from stentor.audio.reader import BLOCK_SAMPLES, AudioReader, ReaderLimits, Stopped, read_chunks
from stentor.errors import AudioError, AudioTooLong
from stentor.types import SAMPLE_RATE

Array = NDArray[np.float32]
FdOf = Callable[[bytes], int]
Make = Callable[..., Array]
Write = Callable[..., bytes]


def read(fd: int, limits: ReaderLimits | None = None) -> tuple[Array, AudioReader]:
    with AudioReader(fd, limits or ReaderLimits()) as reader:
        blocks = list(reader.blocks())
        return np.concatenate(blocks), reader


def envelope(samples: Array) -> Array:
    """Loudness in steps of 20 ms."""
    steps = samples[: len(samples) // 320 * 320].reshape(-1, 320)
    return np.asarray(np.sqrt((steps**2).mean(axis=1)), np.float32)


def alike(heard: Array, expected: Array) -> float:
    """Correlation of loudness; a codec may shift it by up to 60 ms."""
    a, b = envelope(heard), envelope(expected)
    n = min(len(a), len(b)) - 6
    return max(float(np.corrcoef(a[lag : n + lag], b[3 : n + 3])[0, 1]) for lag in range(7))


def loudness(samples: Array) -> float:
    return float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))


SNDFILE = [
    ("wav", "WAV", "PCM_16"),
    ("wav", "WAV", "PCM_U8"),
    ("wav", "WAV", "PCM_24"),
    ("wav", "WAV", "FLOAT"),
    ("wav", "WAV", "DOUBLE"),
    ("wav", "WAV", "ULAW"),
    ("wav", "WAV", "IMA_ADPCM"),
    ("wav", "WAV", "GSM610"),
    ("wav", "WAVEX", "PCM_16"),
    ("wav", "RF64", "PCM_16"),
    ("flac", "FLAC", "PCM_16"),
    ("flac", "FLAC", "PCM_24"),
    ("aiff", "AIFF", "PCM_16"),
    ("au", "AU", "PCM_16"),
    ("caf", "CAF", "PCM_16"),
    ("w64", "W64", "PCM_16"),
    ("sph", "NIST", "PCM_16"),
    ("ogg-vorbis", "OGG", "VORBIS"),
    ("mp3", "MP3", "MPEG_LAYER_III"),
]


@pytest.mark.parametrize(("format", "container", "subtype"), SNDFILE)
def test_what_libsndfile_writes_is_read(
    fd_of: FdOf, sung: Make, written: Write, format: str, container: str, subtype: str
) -> None:
    audio, reader = read(fd_of(written(sung(7.3, 16_000), 16_000, container, subtype)))
    assert reader.format == format
    assert len(audio) / SAMPLE_RATE == pytest.approx(7.3, abs=0.05)
    assert reader.duration_s == pytest.approx(7.3, abs=0.05)
    assert alike(audio, sung(7.3)[:, 0]) > 0.98


LIBAV = [
    ("m4a", "aac", "ipod", {}),
    ("mp4", "aac", "mp4", {"movflags": "frag_keyframe+empty_moov", "frag_duration": "1000000"}),
    ("mov", "pcm_s16le", "mov", {}),
    ("3gp", "aac", "3gp", {}),
    ("webm", "libopus", "webm", {}),
    ("webm", "libopus", "webm", {"live": "1"}),
    ("mkv", "flac", "matroska", {}),
    ("mkv", "pcm_f32le", "matroska", {}),
    ("ogg-opus", "libopus", "ogg", {}),
    ("ogg-flac", "flac", "ogg", {}),
    ("mp3", "libmp3lame", "mp3", {}),
    ("mp2", "mp2", "mp2", {}),
    ("aac", "aac", "adts", {}),
    ("ac3", "ac3", "ac3", {}),
    ("eac3", "eac3", "eac3", {}),
    ("wma", "wmav2", "asf", {}),
    ("ts", "aac", "mpegts", {}),
    ("ts", "aac", "mpegts", {"mpegts_m2ts_mode": "1"}),
    ("mpeg", "mp2", "mpeg", {}),
    ("flv", "libmp3lame", "flv", {}),
    ("wav", "mp2", "wav", {}),
]


@pytest.mark.parametrize(("format", "codec", "container", "options"), LIBAV)
def test_what_ffmpeg_writes_is_read(
    fd_of: FdOf,
    sung: Make,
    encoded: Write,
    format: str,
    codec: str,
    container: str,
    options: dict[str, str],
) -> None:
    rate_hz = 44_100 if container == "flv" else 48_000
    audio, reader = read(fd_of(encoded(sung(7.3, rate_hz), rate_hz, codec, container, **options)))
    assert reader.format == format
    assert reader.damage is None
    assert len(audio) / SAMPLE_RATE == pytest.approx(7.3, abs=0.1)
    assert loudness(audio) == pytest.approx(loudness(sung(7.3)), rel=0.1)
    assert alike(audio, sung(7.3)[:, 0]) > 0.95


def test_blocks_are_five_seconds_of_owned_finite_float32(fd_of: FdOf, sung: Make, written: Write) -> None:
    with AudioReader(fd_of(written(sung(12, 44_100, 2), 44_100, "WAV"))) as reader:
        blocks = list(reader.blocks())
    assert [len(block) for block in blocks] == [BLOCK_SAMPLES, BLOCK_SAMPLES, 2 * SAMPLE_RATE]
    for block in blocks:
        assert block.dtype == np.float32
        assert block.flags.owndata
    assert len({id(block) for block in blocks}) == 3
    np.testing.assert_allclose(np.concatenate(blocks)[999:-999], sung(12)[999:-999, 0], atol=3e-3)


def test_the_descriptor_is_read_from_its_start_and_stays_open(
    fd_of: FdOf, sung: Make, written: Write, encoded: Write
) -> None:
    for data in (written(sung(1), 16_000, "WAV"), encoded(sung(1, 48_000), 48_000, "libopus", "webm")):
        fd = fd_of(data)
        for _ in range(2):
            os.lseek(fd, 99, os.SEEK_SET)
            assert len(read(fd)[0]) == pytest.approx(SAMPLE_RATE, abs=400)
        assert os.fstat(fd).st_size == len(data)


def test_no_descriptor_is_left_open(fd_of: FdOf, sung: Make, encoded: Write) -> None:
    fd = fd_of(encoded(sung(1, 48_000), 48_000, "aac", "ipod"))
    read(fd)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        read(fd)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("codec", ["pcm_s16le", "libopus"])
def test_speech_in_opposite_phases_is_heard(fd_of: FdOf, sung: Make, encoded: Write, codec: str) -> None:
    stereo = sung(3, 48_000, 2)
    stereo[:, 1] *= -1
    audio, _ = read(fd_of(encoded(stereo, 48_000, codec, "matroska")))
    assert loudness(audio) == pytest.approx(loudness(sung(3)), rel=0.1)


@pytest.mark.parametrize(("codec", "container"), [("ac3", "ac3"), ("flac", "flac"), ("libopus", "webm")])
def test_surround_is_mixed_down_within_full_scale(
    fd_of: FdOf, sung: Make, encoded: Write, codec: str, container: str
) -> None:
    audio, _ = read(fd_of(encoded(sung(3, 48_000, 6) * 1.9, 48_000, codec, container)))
    assert alike(audio, sung(3)[:, 0]) > 0.95
    assert loudness(audio) <= 1.05 * loudness(1.9 * sung(3))


# -- lengths that lie --


def wav(samples: Array, *, riff: int | None = None, data: int | None = None, rate_hz: int = 16_000) -> bytes:
    """A 16-bit mono wav whose sizes say what we want."""
    body = (samples * 32767).astype("<i2").tobytes()
    head = struct.pack("<4sI4s", b"RIFF", len(body) + 36 if riff is None else riff, b"WAVE")
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate_hz, 2 * rate_hz, 2, 16)
    return head + fmt + struct.pack("<4sI", b"data", len(body) if data is None else data) + body


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0xFFFFFFFF - 36, 0x7FFFFFFF, 2_000_000_000])
@pytest.mark.parametrize("tail", [b"", b"\x01"])
def test_a_wav_with_unknown_sizes_is_read_to_its_end(fd_of: FdOf, sung: Make, size: int, tail: bytes) -> None:
    audio, reader = read(fd_of(wav(sung(6.5)[:, 0], riff=size, data=size) + tail))
    assert len(audio) == int(6.5 * SAMPLE_RATE)
    np.testing.assert_allclose(audio, sung(6.5)[:, 0], atol=1e-4)
    assert reader.duration_s in (None, 6.5)


def test_a_flac_that_claims_too_much_gives_what_it_has(fd_of: FdOf, sung: Make, written: Write) -> None:
    data = bytearray(written(sung(6), 16_000, "FLAC"))
    data[21:26] = bytes([data[21] | 0x0F]) + b"\xff" * 4  # 2^36 - 1 samples
    audio, reader = read(fd_of(bytes(data)))
    assert len(audio) == 6 * SAMPLE_RATE
    assert reader.duration_s is None


def test_a_flac_of_unknown_length_is_read(fd_of: FdOf, sung: Make, written: Write) -> None:
    data = bytearray(written(sung(6), 16_000, "FLAC"))
    data[21:26] = bytes([data[21] & 0xF0]) + bytes(4)
    audio, reader = read(fd_of(bytes(data)), ReaderLimits(max_audio_s=float("inf")))
    assert len(audio) == 6 * SAMPLE_RATE
    assert reader.duration_s is None


# -- bounds --


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG", "MP3"])
def test_too_long_is_refused_before_anything_is_decoded(
    fd_of: FdOf, sung: Make, written: Write, container: str
) -> None:
    fd = fd_of(written(sung(10), 16_000, container))
    with pytest.raises(AudioTooLong, match=r"longer than 6 s.*max_audio_s \(STENTOR_MAX_AUDIO_S\)"):
        AudioReader(fd, ReaderLimits(max_audio_s=6))
    assert len(read(fd, ReaderLimits(max_audio_s=10.2))[0]) == pytest.approx(10 * SAMPLE_RATE, abs=800)


@pytest.mark.parametrize(
    ("codec", "container", "options"),
    [("aac", "ipod", {}), ("libopus", "ogg", {}), ("wmav2", "asf", {}), ("libopus", "webm", {})],
)
def test_too_long_is_refused_by_a_header_that_ffmpeg_confirms(
    fd_of: FdOf, sung: Make, encoded: Write, codec: str, container: str, options: dict[str, str]
) -> None:
    fd = fd_of(encoded(sung(20, 48_000), 48_000, codec, container, **options))
    with pytest.raises(AudioTooLong):
        AudioReader(fd, ReaderLimits(max_audio_s=12))


def test_too_long_is_noticed_while_decoding_when_no_header_says_it(
    fd_of: FdOf, sung: Make, encoded: Write
) -> None:
    live = fd_of(encoded(sung(20, 48_000), 48_000, "libopus", "webm", live="1"))
    with AudioReader(live, ReaderLimits(max_audio_s=12)) as reader:
        assert reader.duration_s is None
        blocks = reader.blocks()
        next(blocks)
        next(blocks)
        with pytest.raises(AudioTooLong):
            next(blocks)


@pytest.mark.parametrize("rate_hz", [1, 8, 3_999, 400_000])
def test_absurd_rates_are_refused(fd_of: FdOf, sung: Make, rate_hz: int) -> None:
    with pytest.raises(AudioError, match="sample rate"):
        AudioReader(fd_of(wav(sung(1)[:, 0], rate_hz=rate_hz)))


def test_too_many_channels_are_refused(fd_of: FdOf, written: Write) -> None:
    data = written(np.zeros((100, 17), np.float32), 16_000, "WAV")
    with pytest.raises(AudioError, match="17 channels; 1 to 16"):
        AudioReader(fd_of(data))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(14400, "4 h"), (5400, "1 h 30 min"), (300, "5 min"), (90, "90 s"), (90.5, "90.5 s"), (3601, "3601 s")],
)
def test_limits_are_readable(seconds: float, text: str) -> None:
    assert readable_s(seconds) == text


# -- stop --


def test_a_stop_ends_the_reading_at_the_next_block(fd_of: FdOf, sung: Make, written: Write) -> None:
    stop = threading.Event()
    with AudioReader(fd_of(written(sung(30), 16_000, "WAV")), ReaderLimits(), stop) as reader:
        blocks = reader.blocks()
        next(blocks)
        stop.set()
        with pytest.raises(Stopped):
            list(blocks)


@pytest.mark.parametrize("codec", ["pcm_s16le", "libopus"])
def test_a_stop_set_before_gives_no_block(fd_of: FdOf, sung: Make, encoded: Write, codec: str) -> None:
    stop = threading.Event()
    stop.set()
    data = encoded(sung(1, 48_000), 48_000, codec, "matroska")
    with AudioReader(fd_of(data), ReaderLimits(), stop) as reader, pytest.raises(Stopped):
        next(reader.blocks())


# -- damage --


@pytest.mark.parametrize("container", ["FLAC", "MP3", "OGG"])
def test_a_truncated_file_gives_what_is_there(
    fd_of: FdOf, sung: Make, written: Write, container: str
) -> None:
    data = written(sung(20), 16_000, container)
    audio, _ = read(fd_of(data[: len(data) * 6 // 10]))
    assert 9 < len(audio) / SAMPLE_RATE < 13
    assert alike(audio, sung(20)[:, 0]) > 0.98


def test_ffmpeg_takes_over_where_libsndfile_fails(fd_of: FdOf, written: Write) -> None:
    noise = (0.1 * np.random.default_rng(3).standard_normal(30 * SAMPLE_RATE)).astype(np.float32)
    data = bytearray(written(noise, 16_000, "FLAC"))
    middle = len(data) // 2
    data[middle : middle + 400] = bytes(400)
    audio, reader = read(fd_of(bytes(data)))
    assert reader.damage == "1 damaged packets were skipped"
    lost = len(noise) - len(audio)
    assert 0 < lost < SAMPLE_RATE
    np.testing.assert_allclose(audio[: 14 * SAMPLE_RATE], noise[: 14 * SAMPLE_RATE], atol=1e-4)
    np.testing.assert_allclose(audio[-14 * SAMPLE_RATE :], noise[-14 * SAMPLE_RATE :], atol=1e-4)


def test_noise_amid_an_mp3_is_skipped(fd_of: FdOf, sung: Make, encoded: Write) -> None:
    data = bytearray(encoded(sung(20, 48_000), 48_000, "libmp3lame", "mp3"))
    middle = len(data) // 2
    data[middle : middle + 20_000] = np.random.default_rng(0).bytes(20_000)
    audio, reader = read(fd_of(bytes(data)))
    assert 17 < len(audio) / SAMPLE_RATE < 20
    assert reader.damage is not None
    assert "damaged packets" in reader.damage


def test_a_file_without_samples_says_so(fd_of: FdOf) -> None:
    for size in (0, 2_000_000_000):
        with pytest.raises(AudioError, match="holds no audio samples"):
            read(fd_of(wav(np.empty(0, np.float32), data=size)))


def test_an_unreadable_file_says_what_it_looks_like(fd_of: FdOf, sung: Make, encoded: Write) -> None:
    data = encoded(sung(2, 48_000), 48_000, "aac", "ipod")
    with pytest.raises(AudioError, match=r"looks like m4a, but cannot be decoded .* Send wav, flac"):
        read(fd_of(data[: len(data) // 2]))  # the index is at the end


def test_damage_in_a_header_is_an_audio_error(
    fd_of: FdOf, sung: Make, written: Write, encoded: Write
) -> None:
    files = [
        written(sung(1), 16_000, "WAV"),
        written(sung(1), 16_000, "FLAC"),
        encoded(sung(1, 48_000), 48_000, "aac", "ipod"),
        encoded(sung(1, 48_000), 48_000, "libopus", "webm"),
        encoded(sung(1, 48_000), 48_000, "libopus", "ogg"),
    ]
    chance = np.random.default_rng(1)
    for n in range(200):
        data = bytearray(files[n % len(files)])
        for at in chance.integers(0, min(600, len(data)), 4):
            data[at] = chance.integers(256)
        with suppress(AudioError):  # and nothing else
            audio, _ = read(fd_of(bytes(data)), ReaderLimits(max_audio_s=60))
            assert np.isfinite(audio).all()


# -- tags --


def test_a_large_cover_does_not_matter(fd_of: FdOf, sung: Make, encoded: Write) -> None:
    sizes = bytes(300_000 >> shift & 0x7F for shift in (21, 14, 7, 0))
    tag = b"ID3\x03\x00\x00" + sizes + bytes(300_000)
    for codec, container in (("libmp3lame", "mp3"), ("aac", "adts"), ("mp2", "mp2")):
        audio, _ = read(fd_of(tag + encoded(sung(3, 48_000), 48_000, codec, container)))
        assert alike(audio, sung(3)[:, 0]) > 0.95


def test_a_title_in_latin_1_does_not_matter(fd_of: FdOf, sung: Make, encoded: Write) -> None:
    tag = b"TAG" + "Für Elise".encode("latin-1").ljust(125, b"\0")
    audio, _ = read(fd_of(encoded(sung(3, 48_000), 48_000, "libmp3lame", "mp3") + tag))
    assert len(audio) / SAMPLE_RATE == pytest.approx(3, abs=0.1)


# -- chunks --


def test_read_chunks_gives_the_audio_end_to_end(fd_of: FdOf, sung: Make, written: Write) -> None:
    fd = fd_of(written(sung(70), 16_000, "WAV"))
    cut = list(read_chunks(fd, ReaderLimits(), threading.Event()))
    assert [chunk.last for chunk in cut] == [False, False, True]
    np.testing.assert_allclose(
        np.concatenate([c.samples[c.before_samples :] for c in cut]), sung(70)[:, 0], atol=1e-4
    )


def test_read_chunks_opens_nothing_before_the_first_step(fd_of: FdOf) -> None:
    steps = read_chunks(fd_of(b"no audio"), ReaderLimits(), threading.Event())
    with pytest.raises(AudioError):
        next(steps)
