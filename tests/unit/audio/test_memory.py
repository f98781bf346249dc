"""How much memory a small file that lies can take; measured in a process of its own, as peaks must be."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float32]

MEASURE = """
import os, sys
from stentor.audio.reader import AudioReader
from stentor.errors import AudioError

def peak_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

before = peak_kb()
fd = os.open(sys.argv[1], os.O_RDONLY)
try:
    with AudioReader(fd) as reader:
        for block in reader.blocks():
            pass
    outcome = "audio"
except AudioError:
    outcome = "refused"
print(outcome, peak_kb() - before)
"""


@pytest.fixture
def growth_mb(tmp_path: Path) -> Callable[[bytes], tuple[str, float]]:
    """Reads bytes in a fresh process: what came of it, and by how many MB its peak grew."""

    def measure(data: bytes) -> tuple[str, float]:
        path = tmp_path / "upload"
        path.write_bytes(data)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outcome, kb = done.stdout.split()
        return outcome, int(kb) / 1024

    return measure


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")


@needs_proc
def test_a_wav_that_claims_a_title_of_2_gb(growth_mb: Callable[[bytes], tuple[str, float]]) -> None:
    head = struct.pack("<4sI4s", b"RIFF", 200_000, b"WAVE")
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 0x2000, 1, 48_000, 6_000, 1, 0)  # ac3: FFmpeg is asked
    title = struct.pack("<4sI4s4sI", b"LIST", 0x7F000000, b"INFO", b"ISFT", 0x7E000000) + bytes(100_000)
    outcome, mb = growth_mb(head + fmt + title)
    assert outcome == "refused"
    assert mb < 40


@needs_proc
def test_an_mp4_that_claims_millions_of_frames(
    growth_mb: Callable[[bytes], tuple[str, float]],
    sung: Callable[..., Array],
    encoded: Callable[..., bytes],
) -> None:
    data = bytearray(encoded(sung(5, 48_000), 48_000, "libmp3lame", "mp4"))
    sizes, runs = data.rfind(b"stsz"), data.rfind(b"stsc")
    data[sizes + 8 : sizes + 16] = struct.pack(">II", 288, 0xFFFFFF)
    data[runs + 16 : runs + 20] = struct.pack(">I", 0xFFFFFF)
    _, mb = growth_mb(bytes(data))
    assert mb < 60


@needs_proc
def test_half_an_hour_takes_no_more_than_its_blocks(
    growth_mb: Callable[[bytes], tuple[str, float]], written: Callable[..., bytes]
) -> None:
    outcome, mb = growth_mb(written(np.zeros((1800 * 8000, 2), np.float32), 8_000, "FLAC"))
    assert outcome == "audio"
    assert mb < 40
