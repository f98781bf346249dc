"""The pool holds its bound whatever its callers do, and a cancel waits for one step at the most."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from stentor.preprocess import PreprocessPool
from support.waiting import until


@pytest.fixture
def pool() -> Iterator[PreprocessPool]:
    pool = PreprocessPool(2)
    yield pool
    pool.close()


async def test_steps_run_in_threads_of_the_pools_own(pool: PreprocessPool) -> None:
    name = await pool.run(lambda: threading.current_thread().name)
    assert name.startswith("stentor-preprocess")


async def test_an_error_reaches_the_caller_and_frees_the_slot(pool: PreprocessPool) -> None:
    def fail() -> None:
        raise ValueError("broken")

    for _ in range(5):
        with pytest.raises(ValueError, match="broken"):
            await pool.run(fail)
    assert pool.running == 0


async def test_what_waits_is_cancelled_at_once_and_never_runs(pool: PreprocessPool) -> None:
    gate, ran = threading.Event(), threading.Event()
    busy = [asyncio.create_task(pool.run(gate.wait)) for _ in range(2)]
    await until(lambda: pool.running == 2)
    waiter = asyncio.create_task(pool.run(ran.set))
    await until(lambda: pool.waiting == 1)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert pool.waiting == 0
    gate.set()
    await asyncio.gather(*busy)
    assert not ran.is_set()


async def test_a_slot_is_free_only_when_its_thread_is(pool: PreprocessPool) -> None:
    gate = threading.Event()
    most, now, lock = 0, 0, threading.Lock()

    def step() -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        gate.wait()
        with lock:
            now -= 1

    tasks = [asyncio.create_task(pool.run(step)) for _ in range(6)]
    await until(lambda: pool.running == 2)
    for task in tasks[:2]:  # the running ones: their threads go on
        task.cancel()
    await asyncio.sleep(0)
    assert pool.running == 2
    assert not any(task.done() for task in tasks[:2])
    gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [True] * 2 + [False] * 4
    assert most == 2
    assert pool.running == 0


async def test_steps_walk_an_iterator_one_step_at_a_time(pool: PreprocessPool) -> None:
    threads: set[str] = set()

    def numbers(_: threading.Event) -> Iterator[int]:
        for number in range(3):
            threads.add(threading.current_thread().name)
            yield number

    async with pool.steps(numbers) as steps:
        assert [number async for number in steps] == [0, 1, 2]
    assert all(name.startswith("stentor-preprocess") for name in threads)


async def test_a_cancelled_step_is_told_and_awaited_before_its_source_is_closed(pool: PreprocessPool) -> None:
    events: list[str] = []
    running = threading.Event()

    def source(unwanted: threading.Event) -> Iterator[int]:
        try:
            yield 0
            running.set()
            unwanted.wait()
            events.append("step ended")
            yield 1
        finally:
            events.append("closed")

    async def walk() -> None:
        async with pool.steps(source) as steps:
            async for _ in steps:
                pass

    task = asyncio.create_task(walk())
    await asyncio.to_thread(running.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["step ended", "closed"]
    assert pool.running == 0


async def test_a_step_that_takes_too_long_is_told_to_end() -> None:
    pool = PreprocessPool(1, max_step_s=0.01)

    def endless(unwanted: threading.Event) -> Iterator[int]:
        unwanted.wait()
        raise RuntimeError("told to end")
        yield 0

    async with pool.steps(endless) as steps:
        with pytest.raises(TimeoutError, match=r"longer than 0\.01 s"):
            await anext(steps)
    assert pool.running == 0
    pool.close()


async def test_every_step_is_reported(pool: PreprocessPool) -> None:
    seconds: list[float] = []
    pool.on_step = seconds.append
    await pool.run(lambda: None)
    await until(lambda: len(seconds) == 1)
    assert 0 <= seconds[0] < 1


async def test_closing_leaves_no_thread() -> None:
    pool = PreprocessPool(2)
    await asyncio.gather(*(pool.run(lambda: None) for _ in range(4)))
    pool.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("stentor-preprocess")]
