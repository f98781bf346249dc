"""Audio that waits brings another engine replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

import ray
from ray import serve

from stentor.engine.base import Engine
from stentor.scale.deployments import Plan, engines
from stentor.scale.handles import connect
from stentor.types import EngineRequest
from support.replicas import scripted, serve_pids
from support.waiting import until


async def heard(engine: Engine, request: EngineRequest) -> None:
    async with aclosing(engine.generate(request)) as outputs:
        async for _ in outputs:
            pass


async def test_waiting_audio_brings_another_replica(make_request: Callable[..., EngineRequest]) -> None:
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    try:
        await asyncio.to_thread(serve.start, proxy_location="Disabled")
        plan = Plan(engines=1, max_engines=2, audio_s_per_engine=2)
        application = engines(plan, partial(scripted, 1, 0.5), 1)
        handle = await asyncio.to_thread(serve.run, application, name="scaled", route_prefix=None)
        engine = await asyncio.to_thread(connect, handle)
        assert len(serve_pids("engine")) == 1
        asked = [asyncio.create_task(heard(engine, make_request(f"r-{n}"))) for n in range(300)]
        await until(lambda: engine.health().running == 2)
        assert len(serve_pids("engine")) == 2
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await engine.close()
    finally:
        await asyncio.to_thread(serve.shutdown)
        ray.shutdown()
