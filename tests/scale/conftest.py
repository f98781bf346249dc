"""Ray on this machine, small, and gone behind the tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile

from stentor.engine.base import Engine
from stentor.models import resolve
from stentor.scale.local import Connect, engines_on_ray
from support.replicas import scripted

os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # replicas import what the tests script


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ray takes its time to start."""
    for item in items:
        item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="module")
def scripted_replicas() -> Iterator[Connect]:
    """Two replicas with a scripted engine of one slot, which takes 3 s for a chunk.

    That it runs is told a fifth of a second later, and more under load: by then it must not be done.
    """
    with engines_on_ray(partial(scripted, 1, 3), replicas=2, drain_timeout_s=1) as connect:
        yield connect


@pytest.fixture(scope="module")
def tiny_replicas() -> Iterator[Connect]:
    """Two replicas with tiny.en."""
    from stentor.config import Settings
    from stentor.edge.engines import engine_of

    resolve("tiny.en")
    with engines_on_ray(engine_of(Settings(model="tiny.en")), replicas=2, drain_timeout_s=1) as connect:
        yield connect


@pytest.fixture
async def tiny(tiny_replicas: Connect) -> AsyncIterator[Engine]:
    """An engine of two replicas with tiny.en."""
    engine = await asyncio.to_thread(tiny_replicas)
    yield engine
    await engine.close()


@pytest.fixture(scope="session")
def long_speech(two_cities: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """133 s of real speech: A Tale of Two Cities, three times."""
    audio, rate = soundfile.read(two_cities, dtype="int16")
    path = tmp_path_factory.mktemp("speech") / "long.flac"
    soundfile.write(path, np.concatenate([audio] * 3), rate)
    return path
