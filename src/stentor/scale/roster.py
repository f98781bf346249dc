"""Which replica gets the next chunk: the one with the least to do.

What replicas tell of themselves is as old as the last survey. What this server has with each it knows by
itself, at once: so two chunks of one moment go to two replicas, and a long file's chunks to all alike. What
other servers have there is what is left of what a replica told.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence

from stentor.engine.base import EngineHealth
from stentor.scale.calls import ReplicaState, Stream

UNHEARD_S = 60.0
"""Replicas that do not answer for so long are taken for dead. Serve itself replaces one after 40 s."""


class Roster:
    """The replicas that answer, as one server sees them.

    Args:
        states: How they are at the start.
    """

    def __init__(self, states: Sequence[ReplicaState]) -> None:
        self._ours: dict[Stream, str | None] = {}  # calls under way, and who has them
        self.note(states)

    def note(self, states: Sequence[ReplicaState]) -> None:
        """Take in a survey: whoever is not in it is gone."""
        self._heard_s = time.monotonic()
        self._states = {state.replica_id: state for state in states}
        ours = Counter(self._ours.values())
        self._others = {
            state.replica_id: max(0, _busy(state.health) - ours[state.replica_id]) for state in states
        }

    def unanswered(self) -> None:
        """Nobody has answered a survey."""
        if time.monotonic() - self._heard_s > UNHEARD_S:
            self._states = {}

    def sent(self, stream: Stream, replica_id: str | None) -> None:
        """A call is on its way to this replica; None: to whomever Serve chooses."""
        self._ours[stream] = replica_id

    def told(self, stream: Stream, state: ReplicaState) -> None:
        """A replica has told of a call, which it may have in another's stead, and how it is.

        One that ends what it has, and takes nothing more, is in no survey and does not come back by it.
        """
        self._ours[stream] = state.replica_id
        if state.replica_id in self._states:
            self._states[state.replica_id] = state

    def ended(self, stream: Stream) -> None:
        """A call is over."""
        del self._ours[stream]

    def lost(self, replica_id: str | None) -> None:
        """A replica was lost, until it answers a survey."""
        if replica_id is not None:
            self._states.pop(replica_id, None)

    def choose(self, wanted: str | None) -> str | None:
        """The replica that is wanted, if it lives, else the least busy one; None where nobody lives.

        Of equals any: several servers shall not all take the same.
        """
        alive = [state for state in self._states.values() if state.health.alive]
        if wanted in {state.replica_id for state in alive}:
            return wanted
        ours = Counter(self._ours.values())

        def load(state: ReplicaState) -> tuple[float, float]:
            busy = ours[state.replica_id] + self._others[state.replica_id]
            return busy / state.info.slots, random.random()

        return min(alive, key=load).replica_id if alive else None

    @property
    def slots(self) -> int:
        """Of all that live."""
        return sum(state.info.slots for state in self._states.values() if state.health.alive)

    def __len__(self) -> int:
        return len(self._states)

    def health(self) -> EngineHealth:
        """Of all together; alive while one of them is."""
        told = [state.health for state in self._states.values()]
        alive = any(health.alive for health in told)
        reasons = [health.reason for health in told if health.reason]
        return EngineHealth(
            alive,
            sum(health.running for health in told),
            sum(health.queued for health in told),
            None if alive else "; ".join(reasons) or "no engine replica answers",
        )


def _busy(health: EngineHealth) -> int:
    return health.running + health.queued
