"""`stentor bench engine`: engines side by side in this program, on the same chunks with the same weights.

    speed   RTFx: native at several batch sizes, CTranslate2 int8, faster-whisper batched
    limits  native's stages against what the machine could do at best
    abort   from abort to a free slot

This looks below HTTP, as `preprocess` does; `pyproject.toml` lists it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import psutil
from rich.console import Console

from stentor.audio.reader import ReaderLimits, read_chunks
from stentor.bench.peers import load_peer
from stentor.bench.progress import progress
from stentor.bench.records import Record, Store, Value, show
from stentor.engine.base import Engine
from stentor.engine.ct2 import CTranslate2Engine
from stentor.engine.native import NativeEngine
from stentor.errors import EngineAborted, SetupError
from stentor.models import ModelFiles
from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineRequest, Samples

PEER_BATCH = 16
"""faster-whisper's best on two cores."""

NATIVE = ("native bfloat16", "native int8")
"""With AMX both compute the same."""

FRAMES = 1500
"""Of the encoder's output. Source: openai/whisper, n_audio_ctx."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What is measured: a model, its chunks, native's batch sizes, and how often a request is aborted."""

    model: ModelFiles
    chunks: tuple[Samples, ...]
    language: str
    batches: tuple[int, ...]
    aborts: int

    @property
    def audio_s(self) -> float:
        return sum(len(chunk) for chunk in self.chunks) / SAMPLE_RATE

    def common(self) -> dict[str, Value]:
        """What all rows of the run share."""
        return {"model": self.model.name, "chunks": len(self.chunks), "audio_s": round(self.audio_s)}


Part: TypeAlias = Callable[[EnginePlan], Iterator[Record]]


def cut_chunks(paths: Sequence[Path], count: int) -> tuple[Samples, ...]:
    """The first chunks of the files, as the server cuts them.

    Raises:
        SetupError: There are fewer.
    """
    chunks: list[Samples] = []
    for path in paths:
        with path.open("rb") as file:
            for chunk in read_chunks(file.fileno(), ReaderLimits(), threading.Event()):
                chunks.append(chunk.samples)
                if len(chunks) == count:
                    return tuple(chunks)
    raise SetupError(f"--chunks: the files hold {len(chunks)} chunks, not {count}")


def measure_speed(plan: EnginePlan) -> Iterator[Record]:
    """RTFx of every engine; the first row of CTranslate2 is what the others' ratio is to."""
    cores = len(psutil.Process().cpu_affinity())
    base = yield from _speed_row(plan, "ctranslate2 int8", cores, None, None)
    peer_s = _peer_s(plan)
    yield _record(plan, "faster-whisper batched int8", PEER_BATCH, peer_s, base, None)
    for name, batch in itertools.product(NATIVE, plan.batches):
        yield from _speed_row(plan, name, batch, base, plan.audio_s / peer_s)


def _speed_row(
    plan: EnginePlan, name: str, slots: int, base: float | None, peer: float | None
) -> Generator[Record, None, float]:
    engine, load_s = _load(plan, name, slots)
    memory_mb = psutil.Process().memory_info().rss / 1e6

    async def run() -> float:
        async with _open(engine):
            await _hear_all(plan, engine, plan.chunks[: 2 * slots])  # warm
            start = perf_counter()
            await _hear_all(plan, engine, plan.chunks)
            return perf_counter() - start

    wall_s = asyncio.run(run())
    record = _record(plan, name, slots, wall_s, base, peer)
    figures = {**record.figures, "load_s": round(load_s, 2), "rss_mb": round(memory_mb)}
    if isinstance(engine, NativeEngine):
        figures["slot_mb"] = round(engine.slot_bytes / 1e6, 1)
    yield Record(record.part, record.plan, figures)
    return plan.audio_s / wall_s


def _record(
    plan: EnginePlan, name: str, batch: int, wall_s: float, base: float | None, peer: float | None
) -> Record:
    rtfx = plan.audio_s / wall_s
    figures: dict[str, Value] = {
        "rtfx": rtfx,
        "ms_per_chunk": wall_s / len(plan.chunks) * 1e3,
        "x_ctranslate2": None if base is None else rtfx / base,
        "x_faster_whisper": None if peer is None else rtfx / peer,
    }
    return Record("speed", {**plan.common(), "engine": name, "batch": batch}, figures)


def _peer_s(plan: EnginePlan) -> float:
    """faster-whisper over the same windows, its own batching; features are its own as well."""
    model = load_peer(plan.model.directory, batch_size=PEER_BATCH)
    starts = np.cumsum([0, *(len(chunk) for chunk in plan.chunks)]) / SAMPLE_RATE
    windows = [{"start": a, "end": b} for a, b in itertools.pairwise(starts)]
    audio = np.concatenate(plan.chunks)

    def transcribe(windows: Sequence[Mapping[str, float]]) -> None:
        segments, _ = model.transcribe(
            audio,
            language=plan.language,
            beam_size=1,
            batch_size=PEER_BATCH,
            clip_timestamps=windows,
            without_timestamps=False,
            temperature=0.0,
        )
        for _ in segments:
            pass

    transcribe(windows[:2])
    start = perf_counter()
    transcribe(windows)
    return perf_counter() - start


def measure_limits(plan: EnginePlan) -> Iterator[Record]:
    """The encoder and a decoder step against the machine's products and memory."""
    import stentor_native

    batch = max(plan.batches)
    engine, _ = _load(plan, "native bfloat16", batch)  # the limit is that of its products
    assert isinstance(engine, NativeEngine)
    threads = engine.threads
    operations, read = stentor_native.measure_limits("auto", threads)

    async def run() -> None:
        async with _open(engine):
            await _hear_all(plan, engine, plan.chunks)

    asyncio.run(run())
    cost = Cost.of(stentor_native.open_weights(plan.model.directory))
    spent = engine.statistics
    encode_s = spent["encode_s"] / spent["encoded"]
    step_s, rows = spent["step_s"] / spent["steps"], spent["rows"] / spent["steps"]
    stages = {
        "encoder, a window": (encode_s, cost.encoder_operations, cost.encoder_weight_bytes),
        f"step of {rows:.1f} rows": (step_s, cost.row_operations * rows, cost.step_bytes(rows)),
    }
    for stage, (seconds, work, traffic) in stages.items():
        figures: dict[str, Value] = {
            "ms": seconds * 1e3,
            "gflop": work / 1e9,
            "gflop_per_s": work / seconds / 1e9,
            "percent_of_products": 100 * work / seconds / operations,
            "gb_per_s": traffic / seconds / 1e9,
            "percent_of_memory": 100 * traffic / seconds / read,
        }
        machine = {"gflop_per_s_best": round(operations / 1e9), "gb_per_s_best": round(read / 1e9, 1)}
        yield Record("limits", {**plan.common(), **machine, "threads": threads, "stage": stage}, figures)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a network has to multiply and read at least: two operations a product, two bytes a weight."""

    encoder_operations: float
    encoder_weight_bytes: float
    row_operations: float
    decoder_weight_bytes: float
    row_bytes: float

    @classmethod
    def of(cls, weights: Any) -> Cost:
        """Count them; cross-attention is counted absorbed, over 1500 frames for every layer."""
        width, heads = weights.width, weights.heads
        layer = 12 * width * width
        convolutions = 2 * FRAMES * 3 * weights.mels * width + FRAMES * 3 * width * width
        encoder = weights.encoder_layers * (FRAMES * layer + 2 * FRAMES * FRAMES * width) + convolutions
        cross = 2 * heads * FRAMES * width + 2 * width * width
        row = weights.decoder_layers * (layer + 2 * width * width + cross) + weights.vocabulary * width
        decoder_weights = weights.decoder_layers * (layer + 4 * width * width) + weights.vocabulary * width
        return cls(
            encoder_operations=2.0 * encoder,
            encoder_weight_bytes=2.0 * weights.encoder_layers * layer,
            row_operations=2.0 * row,
            decoder_weight_bytes=2.0 * decoder_weights,
            row_bytes=2.0 * weights.decoder_layers * FRAMES * width,
        )

    def step_bytes(self, rows: float) -> float:
        """Weights once, and every row's audio once a layer."""
        return self.decoder_weight_bytes + rows * self.row_bytes


def measure_aborts(plan: EnginePlan) -> Iterator[Record]:
    """Abort one of a full batch at a random moment: how long until its slot is free?"""
    cores = len(psutil.Process().cpu_affinity())
    for name, slots in (("native int8", PEER_BATCH), ("ctranslate2 int8", cores)):
        engine, _ = _load(plan, name, slots)
        waits_ms = asyncio.run(_abort_waits(plan, engine, slots))
        cuts = statistics.quantiles(waits_ms, n=100)
        figures: dict[str, Value] = {
            "p50_ms": cuts[49], "p90_ms": cuts[89], "p99_ms": cuts[98], "max_ms": max(waits_ms)
        }  # fmt: skip
        row = {**plan.common(), "aborts": plan.aborts, "engine": name, "batch": slots}
        yield Record("abort", row, figures)


async def _abort_waits(plan: EnginePlan, engine: Engine, slots: int) -> list[float]:
    draws = random.Random(1)
    waits_ms: list[float] = []
    async with _open(engine):
        running: dict[str, asyncio.Task[None]] = {}
        number = 0
        while len(waits_ms) < plan.aborts:
            while len(running) < slots:
                name = f"a{number}"
                number += 1
                chunk = plan.chunks[number % len(plan.chunks)]
                running[name] = asyncio.create_task(_hear(plan, engine, name, chunk))
            await asyncio.sleep(draws.uniform(0.02, 0.3))
            running = {name: task for name, task in running.items() if not task.done()}
            if len(running) < slots or engine.health().running < slots:
                continue
            victim = draws.choice(list(running))
            start = perf_counter()
            await engine.abort([victim])
            with suppress(EngineAborted):
                await running.pop(victim)
            while engine.health().running == slots:  # noqa: ASYNC110 - an engine offers no event for it
                await asyncio.sleep(0)
            waits_ms.append((perf_counter() - start) * 1e3)
        await engine.abort(list(running))
        await asyncio.gather(*running.values(), return_exceptions=True)
    return waits_ms


PARTS: Mapping[str, Part] = {"speed": measure_speed, "limits": measure_limits, "abort": measure_aborts}


def run_engine(plan: EnginePlan, parts: Sequence[str], store: Store) -> None:
    """Measure part after part; rows are stored as they come and printed part by part.

    Raises:
        SetupError: A part is unknown.
    """
    if unknown := sorted(set(parts) - set(PARTS)):
        raise SetupError(f"--part: {', '.join(unknown)} is none of {', '.join(PARTS)}")
    for part in parts:
        records = []
        with progress(f"{part}: rows") as advance:
            for record in PARTS[part](plan):
                records.append(record)
                store(record)
                advance()
        show(records, Console())


def _load(plan: EnginePlan, name: str, slots: int) -> tuple[Engine, float]:
    start = perf_counter()
    engine: Engine
    if name in NATIVE:
        engine = NativeEngine(plan.model, max_batch=slots, compute_type=name.split()[1])
    else:
        engine = CTranslate2Engine(plan.model, slots=slots, device="cpu")
    return engine, perf_counter() - start


@asynccontextmanager
async def _open(engine: Engine) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await engine.close()


async def _hear_all(plan: EnginePlan, engine: Engine, chunks: Sequence[Samples]) -> None:
    await asyncio.gather(*(_hear(plan, engine, f"r{n}", chunk) for n, chunk in enumerate(chunks)))


async def _hear(plan: EnginePlan, engine: Engine, name: str, samples: Samples) -> None:
    chunk = Chunk(0, 0, samples, last=True)
    request = EngineRequest(name, name, chunk, DecodeOptions(language=plan.language))
    async with aclosing(engine.generate(request)) as outputs:
        async for _ in outputs:
            pass
