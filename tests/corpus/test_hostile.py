"""Broken, lying and attacking files: each has one right outcome, and none takes memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stentor.audio.chunker import is_silent
from stentor.audio.reader import AudioReader, ReaderLimits
from stentor.errors import AudioError
from stentor.types import SAMPLE_RATE

OpenFd = Callable[[str], int]

AUDIO = {  # name -> seconds that come out
    "click_10ms.wav": 0.01,
    "clipped_speech.wav": 5,
    "dc_full_scale_5s.wav": 5,
    "flac_claims_2e36_samples.flac": 11.66,
    "float_denormals.wav": 1,
    "float_huge_1e30.wav": 5,
    "id3_claims_256MB.mp3": 11.66,
    "mp3_corrupt_middle.mp3": 8.65,
    "one_sample.wav": 1 / SAMPLE_RATE,
    "silence_1h.flac": 3600,
    "silence_1h.opus": 3600,
    "silence_1h_8ch_48k_24bit.flac": 3600,
    "silence_30s.wav": 30,
    "silence_5min.flac": 300,
    "speech_60ms.wav": 0.06,
    "tone_440_30s.flac": 30,
    "truncated.flac": 3.1,
    "truncated.ogg": 3.99,
    "truncated.webm": 4.92,
    "truncated_faststart.m4a": 5.81,
    "truncated_mid.mp3": 2.95,
    "truncated_odd_bytes.wav": 3.123,
    "very_quiet_speech_-70dB.wav": 5,
    "wav_block_align_0.wav": 1,
    "wav_claims_2GB.wav": 1,
    "white_noise_60s.opus": 60,
}

NOT_AUDIO = "not audio in a format that is read here"
PLAYLIST = f"{NOT_AUDIO}: it looks like a playlist"
UNDECODABLE = "cannot be decoded"
NO_AUDIO = "holds no audio that can be decoded"
NO_VIDEO_WANTED = "holds video but no audio"
NO_SAMPLES = "holds no audio samples"
INVALID_SAMPLES = "invalid samples"
RATE = "sample rate"

REFUSED = {  # name -> what the message says
    "dash_named.m4a": NOT_AUDIO,
    "empty.mp3": "empty",
    "empty.wav": "empty",
    "ffconcat_http_named.mp3": PLAYLIST,
    "ffconcat_named.mp3": PLAYLIST,
    "ffconcat_relative_named.mp3": PLAYLIST,
    "ffconcat_self_named.mp3": PLAYLIST,
    "float_all_nan.wav": INVALID_SAMPLES,
    "float_nan_inf.wav": INVALID_SAMPLES,  # 2.4 % of the samples
    "gzip_named.wav": NOT_AUDIO,
    "hls_concat_leak_named.mp3": PLAYLIST,
    "hls_endless_live_named.mp3": PLAYLIST,
    "hls_file_named.mp3": PLAYLIST,
    "hls_http_named.mp3": PLAYLIST,
    "hls_sibling_ts_named.mp3": PLAYLIST,
    "hls_sibling_wav_named.wav": PLAYLIST,
    "html_named.m4a": NOT_AUDIO,
    "json_named.flac": NOT_AUDIO,
    "mp3_headers_only.mp3": NOT_AUDIO,
    "mp4_huge_box.m4a": NO_AUDIO,
    "mp4_nested_2000.m4a": UNDECODABLE,
    "one_byte.wav": NOT_AUDIO,
    "pls_named.mp3": PLAYLIST,
    "png_named.wav": NOT_AUDIO,
    "random_bytes.wav": NOT_AUDIO,
    "rtsp_text_named.mp3": PLAYLIST,
    "sdp_named.mp3": PLAYLIST,
    "silence_10h.flac": "longer than 4 h",
    "text_named.mp3": NOT_AUDIO,
    "truncated_header_only.webm": UNDECODABLE,
    "truncated_no_moov.m4a": UNDECODABLE,
    "video_no_audio.mp4": NO_VIDEO_WANTED,
    "video_no_audio.webm": NO_VIDEO_WANTED,
    "wav_0_bits.wav": UNDECODABLE,
    "wav_0_channels.wav": NO_AUDIO,
    "wav_44_bytes_no_samples.wav": NO_SAMPLES,
    "wav_65535_channels.wav": NO_AUDIO,
    "wav_claims_2GB_no_data.wav": NO_SAMPLES,
    "wav_sr_0.wav": UNDECODABLE,
    "wav_sr_1.wav": RATE,
    "wav_sr_4GHz.wav": UNDECODABLE,
    "wav_sr_max.wav": UNDECODABLE,
    "wav_unknown_format_tag.wav": UNDECODABLE,
    "webm_header_then_garbage.webm": UNDECODABLE,
}

DAMAGED = {"mp3_corrupt_middle.mp3", "truncated.flac", "truncated_faststart.m4a"}
SILENT = {name for name in AUDIO if name.startswith("silence")} | {"float_denormals.wav"}


def test_the_tables_name_every_file(corpus: Path) -> None:
    assert {path.name for path in (corpus / "hostile").iterdir()} == AUDIO.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", AUDIO)
def test_what_is_there_is_given(open_fd: OpenFd, name: str) -> None:
    n_samples = 0
    silent = True
    with AudioReader(open_fd(f"hostile/{name}")) as reader:
        for block in reader.blocks():
            assert np.isfinite(block).all()
            assert np.abs(block).max() <= 1.001
            silent = silent and is_silent(block)
            n_samples += len(block)
    assert n_samples / SAMPLE_RATE == pytest.approx(AUDIO[name], abs=0.01)
    assert (reader.damage is not None) == (name in DAMAGED)
    assert silent == (name in SILENT)


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_with_a_reason(open_fd: OpenFd, name: str) -> None:
    with (
        pytest.raises(AudioError, match=REFUSED[name]),
        AudioReader(open_fd(f"hostile/{name}")) as reader,
    ):
        for _ in reader.blocks():
            pass


def test_ten_hours_end_at_the_limit_whatever_it_is(open_fd: OpenFd) -> None:
    with pytest.raises(AudioError, match="longer than 9 h"):
        AudioReader(open_fd("hostile/silence_10h.flac"), ReaderLimits(max_audio_s=9 * 3600))


MEASURE = """
import os, sys
from stentor.audio.reader import AudioReader, ReaderLimits
from stentor.errors import AudioError

def peak_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

before = peak_kb()
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    try:
        with AudioReader(fd, ReaderLimits(max_audio_s=12 * 3600)) as reader:
            for block in reader.blocks():
                pass
    except AudioError:
        pass
    os.close(fd)
print((peak_kb() - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_no_file_takes_memory(corpus: Path) -> None:
    """All in one process, ten hours of silence to the end. One file alone is 5.5 GB when read at once."""
    paths = sorted(str(path) for path in (corpus / "hostile").iterdir())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *paths], env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100
