"""What vLLM's scheduler is shown of its queue, step after step."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import PriorityRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler

from stentor.engine.vllm import lanes
from stentor.engine.vllm.arguments import URGENT


@dataclass(order=True)
class Waiting:
    """A pass in vLLM's queue."""

    priority: int
    name: str = field(compare=False)

    __hash__ = object.__hash__


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lanes, "monotonic", clock)
    return clock


@pytest.fixture(params=[False, True])
def scheduler(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> lanes.LaneScheduler:
    """The lanes over a scheduler that only tells which passes it sees waiting, steps overlapped or not."""

    def begin(self: Scheduler, vllm_config: Any) -> None:
        self.running, self.waiting = [], PriorityRequestQueue()
        self.num_spec_tokens, self.parallel_config = 0, SimpleNamespace(pipeline_parallel_size=1)

    monkeypatch.setattr(Scheduler, "__init__", begin)
    monkeypatch.setattr(Scheduler, "schedule", lambda self: [each.name for each in self.waiting])
    config = SimpleNamespace(scheduler_config=SimpleNamespace(async_scheduling=request.param))
    scheduler = lanes.lane_scheduler(vllm_config=config)
    assert isinstance(scheduler, AsyncScheduler) == request.param
    return scheduler


def test_alone_the_chunks_of_a_long_file_go_on(scheduler: lanes.LaneScheduler) -> None:
    scheduler.running = [Waiting(0, "a")]
    scheduler.waiting.add_request(Waiting(0, "b"))
    assert scheduler.schedule() == ["b"]


def test_while_a_clip_is_there_they_wait_and_lose_nothing(scheduler: lanes.LaneScheduler) -> None:
    clip = Waiting(URGENT, "clip")
    for each in (Waiting(0, "a"), clip, Waiting(0, "b")):
        scheduler.waiting.add_request(each)
    assert scheduler.schedule() == ["clip"]
    scheduler.waiting.remove_request(clip)
    scheduler.running = [clip, Waiting(0, "c")]
    assert scheduler.schedule() == []
    scheduler.running = []
    assert sorted(scheduler.schedule()) == ["a", "b"]


def test_a_flood_of_clips_leaves_an_eighth_of_the_time(scheduler: lanes.LaneScheduler, clock: Clock) -> None:
    scheduler.running = [Waiting(URGENT, "clip")]
    scheduler.waiting.add_request(Waiting(0, "a"))
    clock.now_s = 1000.0  # nothing is owed for what passed before
    let_in_s = 0.0
    for _ in range(4000):
        let_in = scheduler.schedule() == ["a"]
        step_s = 0.2 if let_in else 0.01
        let_in_s += step_s if let_in else 0
        clock.now_s += step_s
    assert let_in_s / (clock.now_s - 1000.0) == pytest.approx(lanes.PATIENT_SHARE, rel=0.1)
