"""What the wire to engine replicas costs, and what a killed one: prints a table for docs/benchmarks/scale.md.

PYTHONPATH=tests .venv-ray/bin/python tests/perf/remote.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable, Sized
from contextlib import aclosing
from functools import partial

import ray
from ray import serve

from stentor.config import Settings
from stentor.edge.engines import engine_of
from stentor.engine.base import Engine
from stentor.engine.fake import FakeEngine
from stentor.scale.local import engines_on_ray
from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineRequest, Samples
from support.audio import packaged_speech, speech
from support.replicas import scripted, serve_pids

ROUNDS = 40


class Taker:
    """Takes samples in the ways that they can travel."""

    async def take(self, samples: Sized | Chunk | None) -> int:
        return 0 if samples is None else len(samples.samples if isinstance(samples, Chunk) else samples)


def request(name: str, samples: Samples, language: str | None = "en") -> EngineRequest:
    """An engine request over samples, with a chunk of its own."""
    return EngineRequest(name, name, Chunk(0, 0, samples, last=True), DecodeOptions(language=language))


async def heard(engine: Engine, asked: EngineRequest) -> str:
    async with aclosing(engine.generate(asked)) as outputs:
        return "".join([segment.text async for output in outputs for segment in output.segments])


async def p50_ms(call: Callable[[], Awaitable[object]]) -> float:
    await call()
    times_s = []
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        await call()
        times_s.append(time.perf_counter() - began_s)
    return 1000 * statistics.median(times_s)


async def copies(samples: Samples) -> None:
    taker = serve.deployment(Taker, ray_actor_options={"num_cpus": 0})
    handle = serve.run(taker.bind(), name="taker", route_prefix=None)
    ways: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "array": lambda: samples,
        "chunk": lambda: Chunk(0, 0, samples),
        "ray.put": lambda: ray.put(samples),
        "bytes": samples.tobytes,
        "list": samples.tolist,
    }

    async def take(prepare: Callable[[], object]) -> None:
        await handle.take.remote(prepare())

    for name, prepare in ways.items():
        print(f"copy {name}: {await p50_ms(partial(take, prepare)):.1f} ms")
    serve.delete("taker")


async def hops(connect: Callable[[], Engine], samples: Samples) -> None:
    here, there = FakeEngine(), await asyncio.to_thread(connect)

    async def hear(engine: Engine, length_s: int) -> None:
        await heard(engine, request("r", samples[: length_s * SAMPLE_RATE]))

    for name, engine in {"here": here, "Ray": there}.items():
        for length_s in (1, 30):
            print(f"scripted {length_s} s, {name}: {await p50_ms(partial(hear, engine, length_s)):.2f} ms")
        await engine.close()


async def probes(connect: Callable[[], Engine], samples: Samples) -> None:
    engine = await asyncio.to_thread(connect)

    async def both(*, again: bool) -> None:
        asked = request("r", samples, None)
        await engine.detect_language(asked)
        chunk = Chunk(0, 0, samples, last=True) if again else asked.chunk
        await heard(engine, EngineRequest("r", "r", chunk, DecodeOptions(language="en")))

    for name, again in [("again", True), ("once", False)] * 2:
        print(
            f"probe and chunk of 5 s, base, encoded {name}: {await p50_ms(partial(both, again=again)):.0f} ms"
        )
    await engine.close()


async def kill(connect: Callable[[], Engine], samples: Samples) -> None:
    engine = await asyncio.to_thread(connect)
    pieces = [samples[at : at + 28 * SAMPLE_RATE] for at in range(0, len(samples), 28 * SAMPLE_RATE)] * 4

    async def transcript(number: int) -> str:
        asked = [request(f"r{number}-{index}", piece) for index, piece in enumerate(pieces)]
        return "".join(await asyncio.gather(*(heard(engine, each) for each in asked)))

    async def run(*, killed: bool) -> None:
        began_s = time.perf_counter()
        asked = [asyncio.create_task(transcript(number)) for number in range(16)]
        if killed:
            await asyncio.sleep(5)
            os.kill(serve_pids("engine")[0], signal.SIGKILL)
        texts = await asyncio.gather(*asked)
        wall_s = time.perf_counter() - began_s
        print(
            f"16 requests of {len(pieces)} chunks, killed {killed}: {wall_s:.1f} s, texts {len(set(texts))}"
        )

    for killed in (False, False, True):
        await run(killed=killed)
    await engine.close()


def main() -> None:
    two_cities = speech(packaged_speech() / "two_cities.wav")
    with engines_on_ray(partial(scripted, 2, 0.0), replicas=1, drain_timeout_s=1) as connect:
        asyncio.run(copies(two_cities[: 30 * SAMPLE_RATE]))
        asyncio.run(hops(connect, two_cities))
    with engines_on_ray(engine_of(Settings(model="base")), replicas=2, drain_timeout_s=1) as connect:
        asyncio.run(probes(connect, two_cities[: 5 * SAMPLE_RATE]))
    with engines_on_ray(engine_of(Settings(model="tiny.en")), replicas=2, drain_timeout_s=1) as connect:
        asyncio.run(kill(connect, two_cities))


if __name__ == "__main__":
    main()
