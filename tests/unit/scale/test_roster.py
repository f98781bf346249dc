"""Who gets the next chunk, of replicas that come, go and are busy."""

from __future__ import annotations

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.scale.calls import News, ReplicaState
from stentor.scale.roster import Roster


class Sent:
    """A call under way."""

    async def __anext__(self) -> News:
        raise StopAsyncIteration

    def cancel(self) -> None:
        """Nobody is there to stop."""


def state(replica_id: str, running: int = 0, *, slots: int = 4, alive: bool = True) -> ReplicaState:
    info = EngineInfo("fake", "fake", ("en",), slots, translates=True)
    return ReplicaState(replica_id, info, EngineHealth(alive, running, 0, None if alive else "died"))


def test_calls_of_one_moment_are_shared_out() -> None:
    roster = Roster([state("a"), state("b"), state("c", slots=8)])
    for _ in range(16):
        roster.sent(Sent(), roster.choose(None))
    assert {roster.choose(None) for _ in range(100)} == {"a", "b", "c"}  # each has one for each slot
    roster.note([state("a", 4), state("b", 4), state("c", 9)])  # one of another server's
    assert {roster.choose(None) for _ in range(100)} == {"a", "b"}


def test_a_call_may_be_with_another_than_was_named() -> None:
    roster = Roster([state("a"), state("b")])
    call = Sent()
    roster.sent(call, "a")
    roster.told(call, state("b"))
    assert {roster.choose(None) for _ in range(100)} == {"a"}
    roster.ended(call)
    assert {roster.choose(None) for _ in range(100)} == {"a", "b"}


def test_a_replica_that_takes_nothing_more_does_not_come_back_by_what_it_tells() -> None:
    roster = Roster([state("a"), state("b")])
    last = Sent()
    roster.sent(last, "a")
    roster.note([state("b", 3)])
    roster.told(last, state("a", 1))
    roster.ended(last)
    assert roster.choose(None) == roster.choose("a") == "b"
    assert roster.slots == 4


def test_a_lost_replica_is_back_when_it_answers() -> None:
    roster = Roster([state("a"), state("b", 1)])
    roster.lost("a")
    assert roster.choose("a") == "b"
    roster.note([state("a"), state("b", 1)])
    assert roster.choose(None) == "a"


def test_nobody_is_chosen_where_nobody_lives() -> None:
    roster = Roster([state("a", alive=False)])
    assert roster.choose("a") is None
    assert roster.health() == EngineHealth(False, 0, 0, "died")
    roster.lost("a")
    assert roster.health().reason == "no engine replica answers"
