"""Fair, bounded, and an abort takes effect at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest

from stentor.engine.scheduler import OLDEST_EVERY, Scheduler
from stentor.errors import EngineAborted, EngineError
from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineRequest
from support.waiting import until


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(1, "test-engine")
    yield scheduler
    await scheduler.close()


def request(request_id: str, index: int = 0, seconds: float = 30.0) -> EngineRequest:
    samples = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
    return EngineRequest(f"{request_id}-{index}", request_id, Chunk(index, 0, samples), DecodeOptions())


class Record:
    """Runs requests through a scheduler, each held until it is let go, and notes the order of turns."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.turns: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def hold(self, request: EngineRequest) -> None:
        gate = self.gates[request.id] = asyncio.Event()
        async with self.scheduler.ticket(request) as ticket, ticket.slot():
            self.turns.append(request.id)
            await gate.wait()

    def start(self, *requests: EngineRequest) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.hold(each)) for each in requests]

    async def let_go_in_turn(self, tasks: list[asyncio.Task[None]]) -> None:
        while not all(task.done() for task in tasks):
            for turn in self.turns:
                self.gates[turn].set()
            await asyncio.sleep(0)


async def test_a_short_clip_goes_before_the_later_chunks_of_a_long_file(scheduler: Scheduler) -> None:
    record = Record(scheduler)
    tasks = record.start(*(request("long", index) for index in range(4)))
    await asyncio.sleep(0)
    tasks += record.start(request("clip", seconds=5))
    await asyncio.sleep(0)
    await record.let_go_in_turn(tasks)
    assert record.turns == ["long-0", "clip-0", "long-1", "long-2", "long-3"]


async def test_requests_of_one_chunk_go_in_the_order_of_their_coming(scheduler: Scheduler) -> None:
    record = Record(scheduler)
    lengths_s = {"a": 30, "b": 20, "c": 5, "d": 29, "e": 1}
    tasks = record.start(*(request(name, seconds=seconds) for name, seconds in lengths_s.items()))
    await asyncio.sleep(0)
    await record.let_go_in_turn(tasks)
    assert record.turns == ["a-0", "b-0", "c-0", "d-0", "e-0"]


async def test_a_clip_gets_its_turn_between_two_calls_of_a_long_files_chunk(scheduler: Scheduler) -> None:
    turns: list[str] = []
    first_call = asyncio.Event()

    async def two_calls(request: EngineRequest, gate: asyncio.Event) -> None:
        async with scheduler.ticket(request) as ticket:
            for call in ("encode", "generate"):
                async with ticket.slot():
                    turns.append(f"{request.id} {call}")
                    await gate.wait()

    opened = asyncio.Event()
    opened.set()
    tasks = [asyncio.create_task(two_calls(request("long", 7), first_call))]
    await until(lambda: len(turns) == 1)
    tasks += [asyncio.create_task(two_calls(request(name, seconds=5), opened)) for name in ("a", "b")]
    await until(lambda: scheduler.queued == 2)
    first_call.set()
    await asyncio.gather(*tasks)
    assert turns == [
        "long-7 encode",
        *("a-0 encode", "a-0 generate", "b-0 encode", "b-0 generate"),  # one after the other, not all half
        "long-7 generate",
    ]


async def test_two_long_files_take_turns(scheduler: Scheduler) -> None:
    record = Record(scheduler)
    tasks = record.start(*(request("a", index) for index in range(3)))
    tasks += record.start(*(request("b", index) for index in range(3)))
    await asyncio.sleep(0)
    await record.let_go_in_turn(tasks)
    assert record.turns == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2"]


async def test_a_long_file_keeps_its_share_under_a_flood_of_clips(scheduler: Scheduler) -> None:
    record = Record(scheduler)
    tasks = record.start(*(request("long", index) for index in range(2)))
    await asyncio.sleep(0)
    tasks += record.start(*(request(f"clip{number}", seconds=5) for number in range(40)))
    await asyncio.sleep(0)
    await record.let_go_in_turn(tasks)
    assert record.turns.index("long-1") <= OLDEST_EVERY


async def test_a_long_file_leaves_a_slot_for_clips() -> None:
    scheduler = Scheduler(3, "test-engine", reserved=1)
    record = Record(scheduler)
    tasks = record.start(*(request("long", index) for index in range(20)))
    await until(lambda: len(record.turns) == 2 and scheduler.queued == 18)
    tasks += record.start(request("clip", seconds=5))
    await until(lambda: record.turns[2:] == ["clip-0"])
    await record.let_go_in_turn(tasks)
    await scheduler.close()


async def test_a_slot_left_for_clips_is_not_given_away_by_waiting_time() -> None:
    scheduler = Scheduler(3, "test-engine", reserved=1)
    record = Record(scheduler)
    tasks = record.start(*(request("long", index) for index in range(1, 20)))
    await until(lambda: len(record.turns) == 2)
    for number in range(2 * OLDEST_EVERY):
        (task,) = record.start(request(f"clip{number}", seconds=5))
        await until(lambda: len(record.turns) == 3 + number)  # noqa: B023 - awaited before the next number
        record.gates[record.turns[-1]].set()
        await task
    assert sum(turn.startswith("long") for turn in record.turns) == 2
    await record.let_go_in_turn(tasks)
    await scheduler.close()


async def test_a_long_file_keeps_its_share_where_slots_are_left_for_clips() -> None:
    scheduler = Scheduler(3, "test-engine", reserved=1)
    record = Record(scheduler)
    tasks = record.start(*(request(f"early{number}", seconds=5) for number in range(3)))
    tasks += record.start(request("long", 1))
    tasks += record.start(*(request(f"clip{number}", seconds=5) for number in range(40)))
    await asyncio.sleep(0)
    await record.let_go_in_turn(tasks)
    assert record.turns.index("long-1") <= OLDEST_EVERY
    await scheduler.close()


async def test_an_abort_takes_a_queued_request_out_at_once(scheduler: Scheduler) -> None:
    record = Record(scheduler)
    running, queued = record.start(request("a"), request("b"))
    await asyncio.sleep(0)
    assert (scheduler.running, scheduler.queued) == (1, 1)
    scheduler.abort(["b-0", "unknown", "b-0"])
    with pytest.raises(EngineAborted):
        await queued
    assert (scheduler.running, scheduler.queued) == (1, 0)
    record.gates["a-0"].set()
    await running
    assert record.turns == ["a-0"]


async def test_an_aborted_call_keeps_its_slot_until_its_thread_is_done(scheduler: Scheduler) -> None:
    gate, began = threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        gate.wait()

    async def compute() -> None:
        async with scheduler.ticket(request("a")) as ticket:
            await ticket.run(call)

    task = asyncio.create_task(compute())
    await asyncio.to_thread(began.wait)
    scheduler.abort(["a-0"])
    with pytest.raises(EngineAborted):
        await task
    assert scheduler.running == 1
    following = asyncio.create_task(Record(scheduler).hold(request("b")))
    await asyncio.sleep(0)
    assert scheduler.queued == 1
    gate.set()
    await until(lambda: scheduler.queued == 0)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert (scheduler.running, scheduler.queued) == (0, 0)


async def test_a_cancelled_waiter_leaves_nothing_behind(scheduler: Scheduler) -> None:
    record = Record(scheduler)
    running, queued = record.start(request("a"), request("b"))
    await asyncio.sleep(0)
    queued.cancel()
    await asyncio.gather(queued, return_exceptions=True)
    record.gates["a-0"].set()
    await running
    assert (scheduler.running, scheduler.queued) == (0, 0)


async def test_a_call_that_raises_kills_the_engine_and_fails_all(scheduler: Scheduler) -> None:
    def fault() -> None:
        raise RuntimeError("worker lost")

    async def compute() -> None:
        async with scheduler.ticket(request("a")) as ticket:
            await ticket.run(fault)

    record = Record(scheduler)
    dying = asyncio.create_task(compute())
    await asyncio.sleep(0)
    [queued] = record.start(request("b"))
    for task in (dying, queued):
        with pytest.raises(EngineError, match="worker lost"):
            await task
    with pytest.raises(EngineError, match="worker lost"):
        await record.hold(request("c"))


async def test_closing_ends_what_waits_and_frees_the_threads() -> None:
    scheduler = Scheduler(1, "test-closing")
    record = Record(scheduler)
    tasks = record.start(request("a"), request("b"))
    await asyncio.sleep(0)
    await scheduler.close()
    record.gates["a-0"].set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(tasks[1].exception(), EngineError)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test-closing")]
