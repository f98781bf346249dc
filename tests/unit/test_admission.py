"""A full house says so at once, and when to come back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from stentor.admission import BYTES_PER_S, FIRST_RETRY_S, MAX_RETRY_S, Admission, Budgets
from stentor.errors import Draining, Overloaded

ROOMY = Budgets(max_requests=100, max_queued_audio_s=1e9, max_stored_bytes=1 << 40)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def admission(**budgets: float) -> Admission:
    fields = {name: getattr(ROOMY, name) for name in Budgets.__slots__} | budgets
    return Admission(Budgets(**fields), Clock())


def enter(stack: ExitStack, admission: Admission, declared_bytes: int | None = None) -> None:
    stack.enter_context(admission.request(declared_bytes))


def refused(admission: Admission, declared_bytes: int | None = None) -> Overloaded:
    with pytest.raises(Overloaded) as caught, admission.request(declared_bytes):
        pass
    return caught.value


def test_places_are_held_and_given_back() -> None:
    house = admission(max_requests=2)
    with ExitStack() as stack:
        enter(stack, house)
        enter(stack, house)
        assert not house.open
        assert "limit is 2" in refused(house).message
    assert house.open
    assert house.active == 0


def test_a_failing_request_gives_its_place_back() -> None:
    house = admission()
    with pytest.raises(ValueError, match="broken"), house.request(None):
        raise ValueError("broken")
    assert house.active == 0


def test_audio_is_guessed_from_bytes_then_known_then_done() -> None:
    house = admission(max_queued_audio_s=100)
    with house.request(90 * BYTES_PER_S) as place:
        assert house.queued_audio_s == 90
        assert "110 s of audio" in refused(house, 20 * BYTES_PER_S).message
        place.duration_s = lambda: 60.0
        assert house.queued_audio_s == 60
        place.advance(25.0)
        assert house.queued_audio_s == 35
        with house.request(60 * BYTES_PER_S):
            assert house.queued_audio_s == 95


def test_bytes_on_disk_are_counted_as_declared_and_as_they_come() -> None:
    house = admission(max_stored_bytes=1000)
    with house.request(600), house.request(300) as undeclared:
        refused(house, 200)
        undeclared.receive(350)
        with pytest.raises(Overloaded, match="limit is 1,000"):
            undeclared.receive(500)


def test_an_empty_house_lets_in_whatever_comes() -> None:
    house = admission(max_queued_audio_s=100, max_stored_bytes=1000)
    with house.request(10**9) as place:
        place.receive(2 * 10**9)
        refused(house, 1)


def test_the_refused_are_told_to_come_back_one_after_the_other() -> None:
    clock = Clock()
    house = Admission(Budgets(1, 1e9, 1 << 40), clock)
    for _ in range(60):
        with house.request(None):
            clock.now_s += 2
    with house.request(None):
        waits_s = [refused(house).retry_after_s for _ in range(40)]
        assert waits_s[:3] == [pytest.approx(2), pytest.approx(4), pytest.approx(6)]
        assert waits_s[-1] == MAX_RETRY_S
        clock.now_s += 200  # the line has gone by
        assert refused(house).retry_after_s == pytest.approx(2)


def test_nothing_measured_yet_still_says_when() -> None:
    house = admission(max_requests=1)
    with house.request(None):
        assert refused(house).retry_after_s == FIRST_RETRY_S


def test_too_much_audio_waits_for_the_measured_pace() -> None:
    clock = Clock()
    house = Admission(Budgets(100, 100, 1 << 40), clock)
    with house.request(0) as place:
        place.duration_s = lambda: 100.0
        for done_s in range(1, 51):
            clock.now_s += 0.5
            place.advance(done_s)
        wait_s = refused(house, 70 * BYTES_PER_S).retry_after_s
        assert wait_s == pytest.approx(20 / 2, rel=0.01)  # 20 s too much, at 2 s of audio a second


def test_a_batch_that_ends_at_once_makes_the_pace_no_faster() -> None:
    clock = Clock()
    house = Admission(Budgets(100, 100, 1 << 40), clock)
    with house.request(0) as place:
        place.duration_s = lambda: 3400.0
        for batch in range(8):
            clock.now_s += 2
            for chunk in range(1, 17):
                place.advance(25.0 * (16 * batch + chunk))
                clock.now_s += 0.001
        wait_s = refused(house, 0).retry_after_s
        assert wait_s == pytest.approx(0.5, rel=0.05)  # 100 s too much, at 200 s of audio a second


def test_an_idle_hour_does_not_count() -> None:
    clock = Clock()
    house = Admission(Budgets(1, 1e9, 1 << 40), clock)
    for _ in range(3):
        clock.now_s += 3600
        with house.request(None) as place:
            clock.now_s += 2
            place.advance(60.0)
    with house.request(None):
        assert refused(house).retry_after_s == pytest.approx(2)
    assert house.audio_pace.seconds_for(60.0) == pytest.approx(2)


def test_draining_refuses_everything() -> None:
    house = admission()
    house.draining = True
    assert not house.open
    with pytest.raises(Draining) as caught, house.request(None):
        pass
    assert caught.value.retry_after_s
