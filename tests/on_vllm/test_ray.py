"""A replica of Ray's with vLLM in it."""

from __future__ import annotations

import asyncio
import importlib.util
import signal

import psutil
import pytest

from on_vllm.test_served import clip, served

__all__ = ["clip"]

pytestmark = [
    pytest.mark.timeout(800),  # it is started twice
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


async def test_a_replica_whose_core_dies_is_replaced_and_nothing_is_left_at_the_end(clip: bytes) -> None:
    async with served("tiny.en", "--ray") as server:
        assert "best of times" in (await server.post(clip, response_format="text")).text
        started = server.children
        server.core.send_signal(signal.SIGKILL)
        while (await server.http.get("/health/live")).status_code == 200:
            pass
        while (await server.http.get("/health/ready")).status_code != 200:
            pass
        assert "best of times" in (await server.post(clip, response_format="text")).text
        started += server.children
        server.process.send_signal(signal.SIGTERM)
        assert await server.process.wait() == 0
        _, alive = await asyncio.to_thread(psutil.wait_procs, started, 20)
        assert alive == []
