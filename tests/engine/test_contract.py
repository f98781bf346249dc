"""One contract, every engine: right text, fair queue, aborts that hold."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
import soundfile
import soxr

from stentor.engine.base import Engine
from stentor.engine.ct2 import CTranslate2Engine
from stentor.engine.fake import FakeEngine, numbered
from stentor.engine.native import NativeEngine
from stentor.errors import EngineAborted, EngineError
from stentor.models import resolve
from stentor.types import SAMPLE_RATE, EngineRequest, Samples, Segment
from support.native import skip_unless_native
from support.replicas import LocalReplicas
from support.vllm import has_vllm, started_vllm
from support.waiting import until

Requests = Callable[..., EngineRequest]


@pytest.fixture(scope="session")
def speech(two_cities: Path) -> Samples:
    """The first 28.5 s of A Tale of Two Cities: "It was the best of times … direct the other way."."""
    audio, rate = soundfile.read(two_cities, dtype="float32")
    resampled: Samples = soxr.resample(audio, rate, SAMPLE_RATE)
    return resampled[: round(28.5 * SAMPLE_RATE)]


def lingering(request: EngineRequest) -> Sequence[Segment]:
    """Computes long enough for who looks every millisecond to see it running."""
    threading.Event().wait(0.02)
    return numbered(request)


ENGINES = [
    "fake",
    "ctranslate2-tiny.en",
    "native-tiny.en",
    "remote",
    *(["vllm-tiny.en"] if has_vllm() else []),
]


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    engine: Engine
    if request.param == "fake":
        engine = FakeEngine(lingering, slots=2)
    elif request.param == "remote":
        replicas = LocalReplicas([FakeEngine(lingering, slots=1), FakeEngine(lingering, slots=1)])
        engine = await replicas.remote()
    elif request.param == "native-tiny.en":
        skip_unless_native()
        engine = NativeEngine(resolve("tiny.en"), max_batch=2)
    elif request.param == "vllm-tiny.en":
        engine = await asyncio.to_thread(started_vllm, resolve("tiny.en"), max_batch=2)
    else:
        engine = CTranslate2Engine(resolve("tiny.en"), slots=2, device="cpu")
    yield engine
    await engine.close()
    if request.param == "remote":
        await replicas.close()


async def text(engine: Engine, request: EngineRequest) -> str:
    async with aclosing(engine.generate(request)) as outputs:
        segments = [segment async for output in outputs for segment in output.segments]
    for segment in segments:
        assert 0 <= segment.start_s <= segment.end_s <= request.chunk.duration_s
    return "".join(segment.text for segment in segments)


async def test_text_comes_with_times_inside_the_chunk(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    assert await text(engine, make_request("r", speech, language="en"))
    assert_idle(engine)


async def test_many_at_once_answer_as_one_does(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    alone = await text(engine, make_request("alone", speech, language="en"))
    requests = [make_request(f"r-{number}", speech, language="en") for number in range(4)]
    assert await asyncio.gather(*(text(engine, each) for each in requests)) == [alone] * 4
    assert_idle(engine)


async def test_the_probe_names_a_language_of_the_model(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    guess = await engine.detect_language(make_request("r-lang", speech))
    assert guess.language == "en"
    assert 0 < guess.probability <= 1


async def test_aborting_the_unknown_is_silent(engine: Engine, make_request: Requests) -> None:
    await engine.abort([])
    await engine.abort(["never-heard-of", "nor-this"])
    assert await text(engine, make_request("r", language="en")) is not None


async def test_an_id_can_be_used_again_after_an_abort(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    alone = await text(engine, make_request("r", speech, language="en"))
    task = asyncio.create_task(text(engine, make_request("r", speech, language="en")))
    await until(lambda: engine.health().running == 1)
    await engine.abort(["r"])
    await engine.abort(["r"])
    with pytest.raises(EngineAborted):
        await task
    assert await text(engine, make_request("r", speech, language="en")) == alone


async def test_the_queued_vanish_at_once_and_the_rest_goes_on(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    requests = [make_request(f"r-{number}", speech, language="en") for number in range(6)]
    tasks = [asyncio.create_task(text(engine, each)) for each in requests]
    await until(lambda: engine.health().queued == 4)
    await engine.abort([request.id for request in requests[2:]])
    assert await asyncio.gather(*tasks[2:], return_exceptions=True) == [IsAborted()] * 4
    await until(lambda: engine.health().queued == 0)
    assert all(await asyncio.gather(*tasks[:2]))
    await until(lambda: engine.health().running == 0)


async def test_aborts_from_many_tasks_at_once(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    requests = [make_request(f"r-{number}", speech, language="en") for number in range(6)]
    tasks = [asyncio.create_task(text(engine, each)) for each in requests]
    await until(lambda: engine.health().running == 2)
    await asyncio.gather(*(engine.abort([request.id]) for request in requests))
    assert await asyncio.gather(*tasks, return_exceptions=True) == [IsAborted()] * 6
    await until(lambda: engine.health().running == engine.health().queued == 0)
    assert await text(engine, make_request("after", speech, language="en"))


async def test_a_cancelled_caller_leaves_nothing_behind(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    requests = [make_request(f"r-{number}", speech, language="en") for number in range(4)]
    tasks = [asyncio.create_task(text(engine, each)) for each in requests]
    await until(lambda: engine.health().running == 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: engine.health().running == engine.health().queued == 0)


async def test_a_closed_engine_is_dead_and_says_so(
    engine: Engine, make_request: Requests, speech: Samples
) -> None:
    task = asyncio.create_task(text(engine, make_request("r", speech, language="en")))
    await until(lambda: engine.health().running == 1)
    await engine.close()
    await engine.close()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], EngineError)
    assert not engine.health().alive
    with pytest.raises(EngineError):
        await text(engine, make_request("late", language="en"))


class IsAborted:
    """Equals every `EngineAborted`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineAborted)

    __hash__ = object.__hash__


def assert_idle(engine: Engine) -> None:
    health = engine.health()
    assert (health.alive, health.running, health.queued) == (True, 0, 0)
