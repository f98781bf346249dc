"""Clips decoded in threads, by Stentor's reader and beside it the way others do it with the same library.

The reader runs with the GIL's turns that Stentor's commands set, the others with Python's own, as in the
servers that do it so. As many processes, which share no GIL, tell what the machine has in it for the threads.
"""

from __future__ import annotations

import io
import multiprocessing
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeAlias

import av
import numpy as np
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler

from stentor.audio.reader import ReaderLimits, read_chunks
from stentor.bench.inputs import CODECS, Inputs
from stentor.bench.plan import PreprocessPlan
from stentor.bench.records import Record, median
from stentor.process import GIL_TURN_S, set_up_process
from stentor.types import SAMPLE_RATE

GROUP_SAMPLES = 500_000
"""Source: SYSTRAN/faster-whisper audio.py, `_group_frames`."""

PYTHONS_TURN_S = 0.005
"""Source: Python's documentation of sys.setswitchinterval."""

PROCESSES = "reader, processes"

Decoder: TypeAlias = Callable[[Path], int]
"""Decodes a file to 16 kHz mono float32 and says how many samples came out."""


def reader(path: Path) -> int:
    """Decode as a request of the server does, chunk by chunk."""
    with path.open("rb") as audio:
        chunks = read_chunks(audio.fileno(), ReaderLimits(), threading.Event())
        return sum(len(chunk.samples) - chunk.before_samples for chunk in chunks)


def frames(path: Path) -> int:
    """Decode with the plain loop over PyAV's frames, each resampled as it comes."""
    return _resampled(path, lambda decoded: decoded)


def grouped(path: Path) -> int:
    """Decode as faster-whisper does: frames are joined to groups before they are resampled.

    Its `gc.collect()` is left out and the file has a path, both in its favour.
    """
    return _resampled(path, _groups)


DECODERS: Mapping[str, Decoder] = {"reader": reader, "frames": frames, "grouped": grouped}


def _resampled(path: Path, joined: Callable[[Iterator[AudioFrame]], Iterable[AudioFrame]]) -> int:
    resampler = AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
    raw = io.BytesIO()
    with av.open(str(path)) as container:
        for frame in chain(joined(container.decode(audio=0)), [None]):
            for piece in resampler.resample(frame):
                raw.write(piece.to_ndarray().data)
    return len(np.frombuffer(raw.getbuffer(), np.int16).astype(np.float32) / 32768)


def _groups(decoded: Iterator[AudioFrame]) -> Iterator[AudioFrame]:
    fifo = AudioFifo()
    for frame in decoded:
        frame.pts = None
        fifo.write(frame)
        if fifo.samples >= GROUP_SAMPLES and (group := fifo.read()) is not None:
            yield group
    if fifo.samples > 0 and (group := fifo.read()) is not None:
        yield group


@dataclass(frozen=True, slots=True)
class Run:
    """One decoder's clips in so many threads: what it took by the clock, and of the processors."""

    clips: int
    threads: int
    wall_s: float
    cpu_s: float

    @property
    def clips_per_s(self) -> float:
        return self.clips / self.wall_s

    @property
    def ms(self) -> float:
        """How long one clip keeps its thread."""
        return 1000 * self.wall_s * self.threads / self.clips

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.cpu_s / self.clips


def measure_clips(inputs: Inputs, plan: PreprocessPlan) -> Iterator[Record]:
    """Decode every format with every decoder, in turns: what slows the machine down slows all of them."""
    for format in CODECS:
        path = inputs.clip(format, plan.clip_s)
        for decode in DECODERS.values():
            decode(path)  # unmeasured: the first one fills caches for those that follow
        for threads in plan.threads:
            yield from _compare(format, path, threads, plan)


def _compare(format: str, path: Path, threads: int, plan: PreprocessPlan) -> Iterator[Record]:
    runs: dict[str, list[Run]] = defaultdict(list)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(threads, spawn, initializer=set_up_process) as processes:
        list(processes.map(reader, [path] * 2 * threads))  # unmeasured: they start and import
        for repeat in range(plan.repeats):
            for name in [*DECODERS, PROCESSES][:: 1 if repeat % 2 == 0 else -1]:
                runs[name].append(_run_of(name, path, threads, plan.clips, processes))
    for name, own in runs.items():
        pairs = zip(runs["reader"], own, strict=True)
        yield Record(
            "clips",
            {
                "clip_s": plan.clip_s,
                "clips": plan.clips,
                "repeats": plan.repeats,
                "format": format,
                "threads": threads,
                "decoder": name,
            },
            {
                "ms": median(run.ms for run in own),
                "cpu_ms": None if name == PROCESSES else median(run.cpu_ms for run in own),
                "clips_per_s": median(run.clips_per_s for run in own),
                # Of runs side by side, and then the median: how many times as fast as this one the reader is.
                "reader_ratio": median(ours.clips_per_s / run.clips_per_s for ours, run in pairs),
            },
        )


def _run_of(name: str, path: Path, threads: int, clips: int, processes: Executor) -> Run:
    if name == PROCESSES:
        return _run(reader, path, threads, clips, processes)
    with ThreadPoolExecutor(threads) as pool, _turns(GIL_TURN_S if name == "reader" else PYTHONS_TURN_S):
        return _run(DECODERS[name], path, threads, clips, pool)


def _run(decode: Decoder, path: Path, threads: int, clips: int, pool: Executor) -> Run:
    start_s, cpu_start_s = perf_counter(), process_time()
    for _ in pool.map(decode, [path] * clips):
        pass
    return Run(clips, threads, perf_counter() - start_s, process_time() - cpu_start_s)


@contextmanager
def _turns(turn_s: float) -> Iterator[None]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(turn_s)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
