"""Two lanes inside vLLM: a scheduler that its engine core asks for by name.

vLLM's own admits a window as soon as there is a row for it, and its encoding is a step of its own, behind
which all other rows wait. So while a clip is there, the later chunks of long files wait with theirs; what is
decoded already goes on, as a row more costs a step little.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from stentor.engine.vllm.arguments import URGENT

PATIENT_SHARE = 0.125
"""Of the time while both are there, what steps that let later chunks in may take: a flood of clips does not
stop long files. The native engine's is the same."""


class LaneScheduler(Scheduler):  # type: ignore[misc]  # vLLM is not there when types are checked
    """vLLM's scheduler, which keeps what is not urgent in the queue while something urgent is there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._owed_s = 0.0
        self._gain = 0.0
        self._asked_s = monotonic()

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Choose what the next step computes; see vLLM's Scheduler."""
        now_s = monotonic()
        self._owed_s += self._gain * (now_s - self._asked_s)
        self._asked_s = now_s
        patient = [request for request in self.waiting if request.priority != URGENT]
        if not patient or not any(request.priority == URGENT for request in [*self.running, *self.waiting]):
            self._owed_s = self._gain = 0.0
            return super().schedule(*args, **kwargs)
        if self._owed_s > 0:
            self._gain = -1.0
            return super().schedule(*args, **kwargs)
        self._gain = PATIENT_SHARE / (1 - PATIENT_SHARE)
        self.waiting.remove_requests(patient)
        try:
            return super().schedule(*args, **kwargs)
        finally:
            for request in patient:
                self.waiting.add_request(request)


class AsyncLaneScheduler(LaneScheduler, AsyncScheduler):  # type: ignore[misc]
    """The same over the one that vLLM takes where it schedules a step before the last one has ended."""


def lane_scheduler(*, vllm_config: Any, **more: Any) -> LaneScheduler:
    """The lanes over that scheduler of its own which vLLM would have taken; called by its engine core."""
    overlapped = vllm_config.scheduler_config.async_scheduling  # never on a CPU, and as the operator says
    return (AsyncLaneScheduler if overlapped else LaneScheduler)(vllm_config=vllm_config, **more)
