"""The speech that every Whisper engine is given, and the engines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from stentor.engine.base import Engine
from stentor.engine.ct2 import CTranslate2Engine
from stentor.engine.native import NativeEngine
from stentor.models import ModelFiles
from stentor.types import SAMPLE_RATE, Samples
from support.audio import speech
from support.native import skip_unless_native
from support.vllm import has_vllm, started_vllm

Load = Callable[..., Engine]
"""(model, *, at_once=1): an engine, closed behind the test."""


@pytest.fixture(scope="module")
def opening(two_cities: Path) -> Samples:
    """As far as "the winter of despair", 21.3 s."""
    return speech(two_cities)[: round(21.3 * SAMPLE_RATE)]


@pytest.fixture(params=["ctranslate2", "native", *(["vllm"] if has_vllm() else [])])
async def load(request: pytest.FixtureRequest) -> AsyncIterator[Load]:
    """Loads models, in each engine in turn."""
    if request.param == "native":
        skip_unless_native()
    async with AsyncExitStack() as stack:

        def loaded(model: ModelFiles, *, at_once: int = 1) -> Engine:
            engine: Engine
            if request.param == "native":
                engine = NativeEngine(model, max_batch=at_once)
            elif request.param == "vllm":
                engine = started_vllm(model, max_batch=at_once)
            else:
                engine = CTranslate2Engine(model, slots=at_once, device="cpu")
            stack.push_async_callback(engine.close)
            return engine

        yield loaded
