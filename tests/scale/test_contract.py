"""The engines' contract once more, over Ray: replicas in other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.test_contract import (
    speech,
    test_a_cancelled_caller_leaves_nothing_behind,
    test_a_closed_engine_is_dead_and_says_so,
    test_aborting_the_unknown_is_silent,
    test_aborts_from_many_tasks_at_once,
    test_an_id_can_be_used_again_after_an_abort,
    test_many_at_once_answer_as_one_does,
    test_text_comes_with_times_inside_the_chunk,
    test_the_probe_names_a_language_of_the_model,
    test_the_queued_vanish_at_once_and_the_rest_goes_on,
)
from stentor.engine.base import Engine
from stentor.scale.local import Connect

__all__ = [
    "speech",
    "test_a_cancelled_caller_leaves_nothing_behind",
    "test_a_closed_engine_is_dead_and_says_so",
    "test_aborting_the_unknown_is_silent",
    "test_aborts_from_many_tasks_at_once",
    "test_an_id_can_be_used_again_after_an_abort",
    "test_many_at_once_answer_as_one_does",
    "test_text_comes_with_times_inside_the_chunk",
    "test_the_probe_names_a_language_of_the_model",
    "test_the_queued_vanish_at_once_and_the_rest_goes_on",
]


@pytest.fixture
async def engine(scripted_replicas: Connect) -> AsyncIterator[Engine]:
    engine = await asyncio.to_thread(scripted_replicas)
    yield engine
    await engine.close()
