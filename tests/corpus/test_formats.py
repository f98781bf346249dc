"""One utterance in sixty encodings: each must come out as that utterance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stentor.audio.reader import AudioReader
from stentor.errors import AudioError
from stentor.types import SAMPLE_RATE

Array = NDArray[np.float32]
OpenFd = Callable[[str], int]

UTTERANCE_S = 11.66
HOP = SAMPLE_RATE // 50

FORMATS = {
    "aac_faststart.m4a": "m4a",
    "aac_fragmented.m4a": "mp4",
    "aac_moov_end.m4a": "m4a",
    "ac3.ac3": "ac3",
    "adpcm_ima_16k.wav": "wav",
    "adpcm_ms_16k.wav": "wav",
    "adts.aac": "aac",
    "aiff.aiff": "aiff",
    "alac.m4a": "m4a",
    "alaw_8k.wav": "wav",
    "amr_nb.amr": "amr",
    "amr_nb_in_3gp.3gp": "3gp",
    "au.au": "au",
    "caf.caf": "caf",
    "flac_16k.flac": "flac",
    "flac_24bit_44k.flac": "flac",
    "float32_16k.wav": "wav",
    "float64_16k.wav": "wav",
    "flv.flv": "flv",
    "gsm.gsm": "gsm",
    "m4a_named_mp3.mp3": "m4a",
    "mov.mov": "mov",
    "mp2.mp2": "mp2",
    "mp3_cbr24_16k_mpeg2.mp3": "mp3",
    "mp3_cbr64.mp3": "mp3",
    "mp3_in_wav.wav": "wav",
    "mp3_named_wav.wav": "mp3",
    "mp3_vbr_id3_cover.mp3": "mp3",
    "mpegts.ts": "ts",
    "mulaw_8k.wav": "wav",
    "no_extension": "wav",
    "oggflac.oga": "ogg-flac",
    "opus.mka": "mkv",
    "opus.ogg": "ogg-opus",
    "opus.opus": "ogg-opus",
    "opus_mediarecorder_style.webm": "webm",
    "opus_seekable.webm": "webm",
    "pcm16_16k.wav": "wav",
    "pcm16_44k.wav": "wav",
    "pcm16_48k.wav": "wav",
    "pcm16_8k.wav": "wav",
    "pcm24_16k.wav": "wav",
    "pcm32_16k.wav": "wav",
    "pcm_u8_11k.wav": "wav",
    "stereo_44k.wav": "wav",
    "stereo_antiphase.wav": "wav",
    "stereo_left_only.wav": "wav",
    "surround51_16k.wav": "wav",
    "surround51_48k.flac": "flac",
    "two_audio_tracks.mp4": "mp4",
    "video_h264_aac.mp4": "mp4",
    "video_h264_mp3.mkv": "mkv",
    "video_vp8_vorbis.webm": "webm",
    "vorbis.ogg": "ogg-vorbis",
    "w64.w64": "w64",
    "wav_extensible.wav": "wav",
    "wav_ffmpeg_pipe_ffffffff.wav": "wav",
    "wav_odd_junk_chunks.wav": "wav",
    "wav_trailing_chunk.wav": "wav",
    "wav_zero_data_length.wav": "wav",
    "wma.wma": "wma",
}

BROWSER_RECORDINGS = {
    "chrome_mediarecorder_real_nl_1.webm": ("webm", 3.18),
    "chrome_mediarecorder_real_nl_2.webm": ("webm", 3.18),
    "firefox_mediarecorder_real_de_ogg_named.webm": ("ogg-opus", 6.84),
}

REFUSED = {"raw_mulaw_8k.ulaw"}  # no header: nothing tells it from noise


def read(fd: int) -> tuple[Array, str]:
    with AudioReader(fd) as reader:
        audio = np.concatenate(list(reader.blocks()))
        assert reader.damage is None
        return audio, reader.format


def likeness(heard: Array, expected: Array) -> float:
    """Correlation of loudness in steps of 20 ms; a codec may shift it by up to 60 ms."""
    steps = min(len(heard), len(expected)) // HOP
    a, b = (np.linalg.norm(x[: steps * HOP].reshape(steps, HOP), axis=1) for x in (heard, expected))
    return max(float(np.corrcoef(a[lag : steps - 6 + lag], b[3 : steps - 3])[0, 1]) for lag in range(7))


@pytest.fixture(scope="module")
def utterance(corpus: Path) -> Array:
    fd = (corpus / "formats/pcm16_16k.wav").open("rb")
    with fd:
        return read(fd.fileno())[0]


def test_the_tables_name_every_file(corpus: Path) -> None:
    here = {path.name for path in (corpus / "formats").iterdir()}
    assert here == FORMATS.keys() | BROWSER_RECORDINGS.keys() | REFUSED


@pytest.mark.parametrize("name", FORMATS)
def test_each_encoding_is_the_utterance(
    open_fd: OpenFd, manifest: dict[str, dict[str, Any]], utterance: Array, name: str
) -> None:
    audio, format = read(open_fd(f"formats/{name}"))
    assert format == FORMATS[name]
    assert len(audio) / SAMPLE_RATE == pytest.approx(UTTERANCE_S, abs=0.08)
    # The manifest has FFmpeg's guesses at the length: 0.38 s too much for amr, 0.14 s with video.
    assert len(audio) / SAMPLE_RATE == pytest.approx(manifest[f"formats/{name}"]["seconds"], abs=0.4)
    assert likeness(audio, utterance) > 0.95
    assert 0.2 < np.abs(audio).max() < 1


@pytest.mark.parametrize("name", BROWSER_RECORDINGS)
def test_browser_recordings_are_read(open_fd: OpenFd, name: str) -> None:
    format, seconds = BROWSER_RECORDINGS[name]
    audio, heard_format = read(open_fd(f"formats/{name}"))
    assert heard_format == format
    assert len(audio) / SAMPLE_RATE == pytest.approx(seconds, abs=0.05)
    assert np.abs(audio).max() > 0.1


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_headerless_audio_is_refused(open_fd: OpenFd, name: str) -> None:
    with pytest.raises(AudioError, match="not audio in a format"):
        read(open_fd(f"formats/{name}"))
