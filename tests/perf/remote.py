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

from stentor.cli.engines import engine_of
from stentor.config import Settings
from stentor.engine.base import Engine
from stentor.engine.fake import FakeEngine
from stentor.scale.local import engines_on_ray
from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineRequest, Samples
from support.audio import packaged_speech, speech
from support.replicas import scripted, serve_pids

ROUNDS = 40


@serve.deployment(ray_actor_options={"num_cpus": 0})
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
    handle = serve.run(Taker.bind(), name="taker", route_prefix=None)
    ways: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "array": lambda: samples,
        "chunk": lambda: Chunk(0, 0, samples),
        "ray.put": lambda: ray.put(samples),
        "bytes": samples.tobytes,
        "list": samples.tolist,
    }
    for name, prepare in ways.items():
        print(f"copy {name}: {await p50_ms(lambda p=prepare: _taken(handle, p())):.1f} ms")  # type: ignore[misc]
    serve.delete("taker")


async def _taken(handle: serve.handle.DeploymentHandle[Taker], what: object) -> None:
    await handle.take.remote(what)


async def hops(connect: Callable[[], Engine], samples: Samples) -> None:
    here, there = FakeEngine(), await asyncio.to_thread(connect)
    for name, engine in {"here": here, "Ray": there}.items():
        for length_s in (1, 30):
            asked = partial(request, "r", samples[: length_s * SAMPLE_RATE])
            print(
                f"scripted {length_s} s, {name}: {await p50_ms(lambda e=engine, a=asked: heard(e, a())):.2f} ms"
            )  # type: ignore[misc]
    await here.close()
    await there.close()


async def probes(connect: Callable[[], Engine], samples: Samples) -> None:
    engine = await asyncio.to_thread(connect)

    async def both(*, again: bool) -> None:
        asked = request("r", samples, None)
        await engine.detect_language(asked)
        if again:
            engine._probed.clear()  # type: ignore[attr-defined]
        await heard(engine, EngineRequest("r", "r", asked.chunk, DecodeOptions(language="en")))

    for again in (False, True, False, True):
        print(
            f"probe and chunk, base, {'elsewhere' if again else 'same replica'}: {await p50_ms(partial(both, again=again)):.0f} ms"
        )
    await engine.close()


async def kill(connect: Callable[[], Engine], samples: Samples) -> None:
    engine = await asyncio.to_thread(connect)
    pieces = [samples[at : at + 28 * SAMPLE_RATE] for at in range(0, len(samples), 28 * SAMPLE_RATE)] * 4

    async def run(*, killed: bool) -> tuple[float, list[str]]:
        began_s = time.perf_counter()
        asked = [
            asyncio.create_task(heard(engine, request(f"r{n}-{i}", piece)))
            for n in range(16)
            for i, piece in enumerate(pieces)
        ]
        if killed:
            await asyncio.sleep(5)
            os.kill(serve_pids("engine")[0], signal.SIGKILL)
        texts = await asyncio.gather(*asked)
        return time.perf_counter() - began_s, texts

    await run(killed=False)
    for killed in (False, True):
        wall_s, texts = await run(killed=killed)
        print(
            f"16 requests of {len(pieces)} chunks, {'one killed' if killed else 'none killed'}: {wall_s:.1f} s, "
            f"{len(set(map(tuple, zip(*[iter(texts)] * len(pieces), strict=True))))} different"
        )
        await asyncio.sleep(10)
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
