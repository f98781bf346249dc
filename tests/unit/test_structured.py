"""What must not be left half done is finished; errors come out as themselves."""

from __future__ import annotations

import asyncio

import pytest

from stentor.structured import task_group, to_its_end


async def test_a_cancel_is_passed_on_after_the_end_however_many_come() -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(to_its_end(future))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    future.set_result("done")
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_result_and_the_error_come_through() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def work() -> int:
        return 7

    assert await to_its_end(asyncio.ensure_future(work())) == 7
    with pytest.raises(ValueError, match="broken"):
        await to_its_end(asyncio.ensure_future(fail()))


async def test_what_takes_too_long_is_given_up() -> None:
    endless = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(TimeoutError):
        await to_its_end(endless, timeout_s=0.01)
    with pytest.raises(asyncio.CancelledError):
        await endless


async def test_a_group_raises_the_first_error_itself() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def body() -> None:
        async with task_group() as group:
            group.create_task(fail())
            await asyncio.Event().wait()

    with pytest.raises(ValueError, match="broken"):
        await body()


async def test_a_cancel_from_outside_stays_a_cancel() -> None:
    async def body() -> None:
        async with task_group() as group:
            group.create_task(asyncio.Event().wait())
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
