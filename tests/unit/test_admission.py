"""A full house says so at once, and when to come back."""

from __future__ import annotations

import pytest

from stentor.admission import Admission
from stentor.errors import Draining, Overloaded


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_places_are_held_and_given_back() -> None:
    admission = Admission(2)
    with admission.request(), admission.request():
        assert not admission.open
        with pytest.raises(Overloaded) as refused, admission.request():
            pass
        assert refused.value.status == 429
        assert refused.value.retry_after_s
    assert admission.open
    assert admission.active == 0


def test_a_failing_request_gives_its_place_back() -> None:
    admission = Admission(1)
    with pytest.raises(ValueError, match="broken"), admission.request():
        raise ValueError("broken")
    assert admission.active == 0


def test_retry_after_follows_the_measured_drain_rate() -> None:
    clock = Clock()
    admission = Admission(1, clock)
    for _ in range(60):
        with admission.request():
            clock.now_s += 20
    with admission.request(), pytest.raises(Overloaded) as refused, admission.request():
        pass
    assert refused.value.retry_after_s == pytest.approx(20, rel=0.01)


def test_draining_refuses_everything() -> None:
    admission = Admission(2)
    admission.draining = True
    assert not admission.open
    with pytest.raises(Draining), admission.request():
        pass
