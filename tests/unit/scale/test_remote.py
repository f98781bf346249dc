"""A chunk heard by replicas that die, are full, or are asked again: without Ray, which only carries it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

import numpy as np
import pytest

from stentor.engine.base import Engine
from stentor.engine.fake import FakeEngine
from stentor.errors import EngineError
from stentor.scale.calls import Call
from stentor.scale.remote import ATTEMPTS, RemoteEngine
from stentor.scale.replica import WAITING_AUDIO
from stentor.types import (
    SAMPLE_RATE,
    Chunk,
    DecodeOptions,
    EngineOutput,
    EngineReport,
    EngineRequest,
    LanguageGuess,
    Samples,
    Segment,
    Word,
)
from support.replicas import LocalReplicas
from support.waiting import until

Requests = Callable[..., EngineRequest]


def spoken(request: EngineRequest) -> Sequence[Segment]:
    """A segment for each second, which says where in the file it is."""
    first_s = round(request.chunk.start_s)
    return [
        Segment(
            f" {first_s + at_s}", at_s, at_s + 1, words=(Word(f" {first_s + at_s}", at_s, at_s + 1, 1.0),)
        )
        for at_s in range(round(request.chunk.duration_s))
    ]


class StallingEngine(FakeEngine):
    """Tells so many segments and then nothing more."""

    def __init__(self, tells: int) -> None:
        super().__init__(spoken)
        self._tells = tells

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        async with aclosing(super().generate(request)) as outputs:
            for _ in range(self._tells):
                yield await anext(outputs)
            await asyncio.Event().wait()


def busy(slots: int) -> FakeEngine:
    """It ends nothing before its gate is opened."""
    engine = FakeEngine(spoken, slots=slots)
    engine.gate.clear()
    return engine


def release(replicas: LocalReplicas) -> None:
    """Let all that are busy end."""
    for engine in replicas.engines:
        assert isinstance(engine, FakeEngine)
        engine.gate.set()


def calls_at(replicas: LocalReplicas) -> dict[str, int]:
    """How many calls each has got."""
    return dict(Counter(replica_id for replica_id, _, _ in replicas.calls))


@asynccontextmanager
async def gathered() -> AsyncIterator[list[asyncio.Task[object]]]:
    """Tasks that are awaited at the end, or cancelled where the test has failed."""
    tasks: list[asyncio.Task[object]] = []
    try:
        yield tasks
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def remote(*engines: Engine) -> AsyncIterator[tuple[RemoteEngine, LocalReplicas]]:
    replicas = LocalReplicas(engines)
    engine = await replicas.remote()
    try:
        yield engine, replicas
    finally:
        await engine.close()
        await replicas.close()


async def heard(engine: Engine, request: EngineRequest) -> list[EngineOutput]:
    async with aclosing(engine.generate(request)) as outputs:
        return [output async for output in outputs]


def text(outputs: Sequence[EngineOutput]) -> str:
    return "".join(segment.text for output in outputs for segment in output.segments)


def seconds(count: float) -> Samples:
    return np.full(round(count * SAMPLE_RATE), 0.01, np.float32)


def later_chunk(engine_id: str, samples: Samples, *, request_id: str | None = None) -> EngineRequest:
    """A chunk of a long file that is not its first."""
    return EngineRequest(engine_id, request_id or engine_id, Chunk(1, 0, samples), DecodeOptions())


@pytest.mark.parametrize("told", [0, 1, 3])
async def test_a_lost_replica_costs_no_word_and_doubles_none(make_request: Requests, told: int) -> None:
    request = make_request("r", seconds(5))
    async with remote(StallingEngine(told)) as (engine, replicas):
        outputs: list[EngineOutput] = []
        async with aclosing(engine.generate(request)) as answers:
            reading = asyncio.ensure_future(_read(answers, outputs))
            await until(lambda: bool(replicas.calls) and len(outputs) == told)
            replicas.add(FakeEngine(spoken))
            replicas.lose("r0")
            await reading
    assert text(outputs) == " 0 1 2 3 4"
    segments = [segment for output in outputs for segment in output.segments]
    assert [(segment.start_s, segment.end_s) for segment in segments] == [(at, at + 1) for at in range(5)]
    assert [word.start_s for segment in segments for word in segment.words] == [0, 1, 2, 3, 4]
    assert outputs[-1].end_s == request.chunk.duration_s
    assert [len(call.chunk.samples) for _, _, call in replicas.calls] == [80_000, (5 - told) * SAMPLE_RATE]


async def test_a_replica_lost_after_its_last_word_is_not_missed(make_request: Requests) -> None:
    async with remote(StallingEngine(3)) as (engine, replicas):
        outputs: list[EngineOutput] = []
        async with aclosing(engine.generate(make_request("r", seconds(3)))) as answers:
            reading = asyncio.ensure_future(_read(answers, outputs))
            await until(lambda: len(outputs) == 3)
            replicas.add(FakeEngine(spoken))
            replicas.lose("r0")
            await reading
    assert text(outputs) == " 0 1 2"
    assert len(replicas.calls) == 1


async def test_a_dead_engine_is_a_lost_replica(make_request: Requests) -> None:
    dead = FakeEngine(spoken)
    await dead.close()
    async with remote(dead, FakeEngine(spoken)) as (engine, _):
        assert text(await heard(engine, make_request("r", seconds(2)))) == " 0 1"
        assert engine.health().alive


async def test_a_chunk_that_kills_every_engine_is_given_up(make_request: Requests) -> None:
    def fault(request: EngineRequest) -> Sequence[Segment]:
        raise MemoryError("as a runtime would")

    engines = [FakeEngine(fault) for _ in range(ATTEMPTS + 1)]
    async with remote(*engines) as (engine, replicas):
        with pytest.raises(EngineError, match="no engine replica could hear the chunk"):
            await heard(engine, make_request("r"))
        assert len(replicas.calls) == ATTEMPTS
        assert [each.health().alive for each in engines].count(True) == 1


async def test_without_replicas_the_engine_is_dead_until_one_comes(make_request: Requests) -> None:
    async with remote(FakeEngine(spoken)) as (engine, replicas):
        assert engine.health().alive
        replica = replicas.living["r0"]
        replicas.lose("r0")
        with pytest.raises(EngineError):
            await heard(engine, make_request("r"))
        await until(lambda: not engine.health().alive)
        assert engine.health().reason == "no engine replica answers"
        replicas.living["r1"] = replica
        await until(lambda: engine.health().alive)
        assert text(await heard(engine, make_request("r", seconds(1)))) == " 0"


async def test_a_chunk_goes_where_its_language_was_heard(make_request: Requests) -> None:
    async with remote(*(FakeEngine(spoken) for _ in range(5))) as (engine, replicas):
        for number in range(10):
            request = make_request(f"r-{number}")
            assert (await engine.detect_language(request)).language == "en"
            await heard(engine, request)
            (probed_at, _, probe), (heard_at, _, call) = replicas.calls[-2:]
            assert (probed_at, probe.key) == (heard_at, call.key)


async def test_what_is_left_of_a_chunk_is_not_taken_for_what_was_probed(make_request: Requests) -> None:
    request = make_request("r", seconds(3))
    async with remote(StallingEngine(1)) as (engine, replicas):
        await engine.detect_language(request)
        outputs: list[EngineOutput] = []
        async with aclosing(engine.generate(request)) as answers:
            reading = asyncio.ensure_future(_read(answers, outputs))
            await until(lambda: len(outputs) == 1)
            replicas.add(FakeEngine(spoken))
            replicas.lose("r0")
            await reading
    assert text(outputs) == " 0 1 2"
    probe, whole, rest = (call for _, _, call in replicas.calls)
    assert probe.key == whole.key != rest.key


async def test_the_engine_is_given_the_very_chunk_it_has_encoded(make_request: Requests) -> None:
    given: list[EngineRequest] = []

    def note(request: EngineRequest) -> Sequence[Segment]:
        given.append(request)
        return spoken(request)

    class Probed(FakeEngine):
        async def detect_language(self, request: EngineRequest) -> LanguageGuess:
            given.append(request)
            return await super().detect_language(request)

    replicas = LocalReplicas([Probed(note)])
    replica = replicas.living["r0"]
    probe = Call.of(make_request("r-lang"), "server", "key", 0)
    again = Call.of(make_request("r"), "server", "key", 0)
    assert probe.chunk is not again.chunk
    assert [news.guess is not None async for news in replica.detect_language(probe)] == [False, True]
    assert [news.output is not None async for news in replica.generate(again)] == [False, True, False]
    assert given[0].chunk is given[1].chunk
    await replicas.close()


async def test_what_replicas_have_no_slots_for_waits_at_the_server(make_request: Requests) -> None:
    busy = FakeEngine(spoken, slots=2)
    busy.gate.clear()
    async with remote(busy) as (engine, replicas):
        chunks = [later_chunk(f"r-{n}", seconds(2)) for n in range(8)]
        tasks = [asyncio.create_task(heard(engine, chunk)) for chunk in chunks]
        await until(lambda: engine.health().queued == 6)
        assert len(replicas.calls) == 3
        await until(lambda: replicas.waiting_s[-1] == 5 * 2)
        stats = await replicas.living["r0"].record_autoscaling_stats()
        assert stats == {WAITING_AUDIO: 8 * 2}
        busy.gate.set()
        await asyncio.gather(*tasks)
        await until(lambda: replicas.waiting_s[-1] == 0)
        assert (await replicas.living["r0"].record_autoscaling_stats()) == {WAITING_AUDIO: 0}


async def test_a_clip_is_sent_at_once_beside_a_long_file(make_request: Requests) -> None:
    busy = FakeEngine(spoken, slots=4)
    busy.gate.clear()
    async with remote(busy) as (engine, replicas):
        chunks = [later_chunk(f"long-{n}", seconds(1), request_id="long") for n in range(9)]
        tasks = [asyncio.create_task(heard(engine, chunk)) for chunk in chunks]
        await until(lambda: len(replicas.calls) == 6)
        tasks.append(asyncio.create_task(heard(engine, make_request("clip", seconds(1)))))
        await until(lambda: len(replicas.calls) == 7)
        assert replicas.calls[-1][2].request_id.endswith("clip")
        busy.gate.set()
        await asyncio.gather(*tasks)


async def test_a_replica_that_comes_gets_what_waits(make_request: Requests) -> None:
    busy = FakeEngine(spoken, slots=1)
    busy.gate.clear()
    async with remote(busy) as (engine, replicas):
        tasks = [asyncio.create_task(heard(engine, make_request(f"r-{n}", seconds(1)))) for n in range(8)]
        await until(lambda: engine.health().queued == 7)
        another = FakeEngine(spoken, slots=4)
        another.gate.clear()
        replicas.add(another)
        await until(lambda: len(replicas.calls) == 8)
        assert calls_at(replicas) == {"r0": 3, "r1": 5}
        await another.until(lambda e: len(e.started) == 4)
        for each in (busy, another):
            each.gate.set()
        await asyncio.gather(*tasks)


async def test_calls_of_one_moment_go_to_different_replicas(make_request: Requests) -> None:
    async with remote(*(busy(1) for _ in range(4))) as (engine, replicas), gathered() as tasks:
        tasks += [asyncio.create_task(heard(engine, make_request(f"r-{n}"))) for n in range(4)]
        await until(lambda: len(replicas.calls) == 4)
        assert calls_at(replicas) == {"r0": 1, "r1": 1, "r2": 1, "r3": 1}
        release(replicas)


async def test_a_long_file_and_a_clip_find_the_replica_with_the_most_room(make_request: Requests) -> None:
    async with remote(busy(4), busy(2)) as (engine, replicas), gathered() as tasks:
        chunks = [later_chunk(f"file-{n}", seconds(1), request_id="file") for n in range(5)]
        tasks += [asyncio.create_task(heard(engine, chunk)) for chunk in chunks[:3]]
        await until(lambda: len(replicas.calls) == 3)
        assert calls_at(replicas) == {"r0": 2, "r1": 1}
        tasks += [asyncio.create_task(heard(engine, chunk)) for chunk in chunks[3:]]
        await until(lambda: len(replicas.calls) == 5)
        tasks.append(asyncio.create_task(heard(engine, make_request("clip"))))
        await until(lambda: len(replicas.calls) == 6)
        assert calls_at(replicas) == {"r0": 4, "r1": 2}
        release(replicas)


async def test_what_another_server_sent_counts(make_request: Requests) -> None:
    async with remote(busy(1), busy(1)) as (engine, replicas), gathered() as tasks:
        another = await replicas.remote()
        for number, server in enumerate([engine, another] * 3):
            tasks.append(asyncio.create_task(heard(server, make_request(f"r-{number}"))))
            await until(lambda: len(replicas.calls) == len(tasks))
            replicas.waiting_s.clear()  # both servers begin a survey when the replica has the call
            await until(lambda: len(replicas.waiting_s) >= 4)
        assert calls_at(replicas) == {"r0": 3, "r1": 3}
        release(replicas)
    await another.close()


async def test_a_call_that_has_ended_counts_no_more(make_request: Requests) -> None:
    async with remote(busy(1), busy(1)) as (engine, replicas), gathered() as tasks:
        tasks += [asyncio.create_task(heard(engine, make_request(f"r-{n}"))) for n in range(2)]
        await until(lambda: engine.health().running == len(replicas.calls) == 2)
        left_at = replicas.calls[1][0]
        left = tasks.pop()
        left.cancel()
        await until(lambda: left.done() and engine.health().running == 1)
        tasks.append(asyncio.create_task(heard(engine, make_request("r-2"))))
        await until(lambda: len(replicas.calls) == 3)
        assert replicas.calls[2][0] == left_at
        release(replicas)


async def test_two_servers_may_be_given_the_same_request_id(make_request: Requests) -> None:
    slow = FakeEngine(spoken)
    slow.gate.clear()
    replicas = LocalReplicas([slow])
    one, other = await replicas.remote(), await replicas.remote()
    tasks = [asyncio.create_task(heard(each, make_request("r", seconds(1)))) for each in (one, other)]
    await slow.until(lambda e: len(e.started) == 2)
    await one.abort(["r"])
    slow.gate.set()
    assert text(await tasks[1]) == " 0"
    with pytest.raises(EngineError):
        await tasks[0]
    for each in (one, other, replicas):
        await each.close()


async def test_the_report_counts_what_the_replica_computed_and_what_waited(make_request: Requests) -> None:
    slow = FakeEngine(spoken, slots=1)
    slow.gate.clear()
    async with remote(slow) as (engine, _):
        requests = [make_request(f"r-{n}", seconds(1)) for n in range(3)]
        tasks = [asyncio.create_task(heard(engine, request)) for request in requests]
        await until(lambda: engine.health().queued == 2)
        slow.gate.set()
        await asyncio.gather(*tasks)
    reports: list[EngineReport] = [request.report for request in requests]
    assert all(report.computed_s > 0 for report in reports)
    assert reports[0].queued_s < reports[2].queued_s
    assert reports[2].computed_s < reports[2].queued_s


async def test_a_caller_that_leaves_frees_the_replica(make_request: Requests) -> None:
    slow = FakeEngine(spoken, slots=1)
    slow.gate.clear()
    async with remote(slow) as (engine, _):
        tasks = [asyncio.create_task(heard(engine, make_request(f"r-{n}"))) for n in range(4)]
        await slow.until(lambda e: len(e.started) == 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: slow.health().running == slow.health().queued == 0)
        await until(lambda: engine.health().running == engine.health().queued == 0)


async def _read(answers: AsyncIterator[EngineOutput], outputs: list[EngineOutput]) -> None:
    async for output in answers:
        outputs.append(output)  # noqa: PERF401 - one by one, for who looks on
