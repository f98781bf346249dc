"""How many engine replicas there should be: as many as the audio that waits for them asks for."""

from __future__ import annotations

import math
from typing import Any

from ray.serve.config import AutoscalingContext

from stentor.scale.replica import WAITING_AUDIO


class WaitingAudioPolicy:
    """A policy for Serve: audio with the replicas and waiting for them, shared out evenly.

    Serve itself keeps the number within its bounds and waits out its delays before it follows.

    Args:
        audio_s_per_replica: How much of it each shall have.
    """

    def __init__(self, audio_s_per_replica: float) -> None:
        self._audio_s_per_replica = audio_s_per_replica

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        """The number of replicas wanted; called by Serve's controller."""
        told = context.aggregated_metrics.get(WAITING_AUDIO)
        if not told:
            return context.target_num_replicas, {}
        return math.ceil(sum(told.values()) / self._audio_s_per_replica), {}
