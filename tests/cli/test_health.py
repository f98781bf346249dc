"""`stentor health` against a real server: its exit code is what containers and supervisors go by."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from stentor.engine.fake import FakeEngine
from support.server import serving

STENTOR = str(Path(sys.executable).with_name("stentor"))


async def asked(port: int, *options: str, **environment: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(STENTOR, "health", "--port", str(port), *options),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await process.communicate()
    return process.returncode, (said + complained).decode()


async def test_a_server_that_is_well() -> None:
    async with serving(FakeEngine()) as served:
        assert await asked(served.port) == (0, "ok\n")
        assert await asked(served.port, "--ready") == (0, "ready\n")
        # What a server listens on is what a client cannot ask.
        assert await asked(served.port, STENTOR_HOST="0.0.0.0") == (0, "ok\n")


async def test_one_that_drains_lives_and_is_not_ready() -> None:
    async with serving(FakeEngine()) as served:
        served.services.admission.draining = True
        assert await asked(served.port) == (0, "ok\n")
        assert await asked(served.port, "--ready") == (1, "draining\n")


async def test_one_with_a_dead_engine() -> None:
    engine = FakeEngine()
    async with serving(engine) as served:
        await engine.close()
        assert await asked(served.port) == (1, "dead\n")


async def test_one_that_locks_even_its_probes() -> None:
    async with serving(FakeEngine(), api_keys="sk-one", keyless="") as served:
        assert (await asked(served.port))[0] == 1
        assert await asked(served.port, STENTOR_API_KEYS="sk-one", STENTOR_KEYLESS="") == (0, "ok\n")


async def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and listens not
        code, said = await asked(taken.getsockname()[1])
    assert code == 1
    assert "does not answer" in said
