"""What is the native engine's own: the same answers whoever else is in the batch, aborts within a step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from conftest import TWO_CITIES_WORDS
from stentor.engine.native import NativeEngine
from stentor.errors import EngineAborted
from stentor.models import resolve
from stentor.types import SAMPLE_RATE, EngineRequest, Samples
from support.audio import speech
from support.hearing import heard, words
from support.native import skip_unless_native
from support.waiting import until

Requests = Callable[..., EngineRequest]


@pytest.fixture
async def base() -> AsyncIterator[NativeEngine]:
    skip_unless_native()
    engine = NativeEngine(resolve("base"), max_batch=4)
    yield engine
    await engine.close()


async def test_answers_are_the_same_whoever_else_is_in_the_batch(
    base: NativeEngine, make_request: Requests, opening: Samples
) -> None:
    """To the last digit: tokens, times and log-probabilities."""
    asked = [
        make_request("a", opening, language="en"),
        make_request("b", opening[: 7 * SAMPLE_RATE], language="en", prompt="Charles Dickens, 1859."),
        make_request("c", opening[3 * SAMPLE_RATE :], language="de"),
        make_request("d", opening[: 4 * SAMPLE_RATE], language="en", temperature=0.6),
    ]
    alone = [await heard(base, request) for request in asked]
    assert await asyncio.gather(*(heard(base, request) for request in asked)) == alone


async def test_the_probe_and_the_transcript_share_the_encoder(
    base: NativeEngine, make_request: Requests, opening: Samples
) -> None:
    probe = make_request("r-lang", opening)
    guess = await base.detect_language(probe)
    assert guess.language == "en"
    assert guess.probability > 0.9
    encoded = base.statistics["encoded"]
    again = EngineRequest("r", "r", probe.chunk, make_request("r", language="en").options)
    assert words(await heard(base, again)) == TWO_CITIES_WORDS
    assert base.statistics["encoded"] == encoded


async def test_a_sentence_that_is_cut_off_is_heard_in_the_same_window(
    base: NativeEngine, make_request: Requests, two_cities: Path
) -> None:
    """Left to itself, base ends after "everything before us" and leaves three seconds for another window."""
    audio = speech(two_cities)[: round(27.5 * SAMPLE_RATE)]
    said = words(await heard(base, make_request("r", audio, language="en")))
    assert "we had nothing before us we were all going direct to heaven we were all going" in said
    assert base.statistics["encoded"] == 1


async def test_an_abort_while_decoding_frees_the_slot_and_the_next_result_is_right(
    base: NativeEngine, make_request: Requests, opening: Samples
) -> None:
    task = asyncio.create_task(heard(base, make_request("r", opening, language="en")))
    await until(lambda: base.statistics["steps"] > 3)
    await base.abort(["r"])
    with pytest.raises(EngineAborted):
        await task
    await until(lambda: base.health().running == base.health().queued == 0)
    steps = base.statistics["steps"]
    assert steps < 50  # of more than 70 that the text takes
    assert words(await heard(base, make_request("r", opening, language="en"))) == TWO_CITIES_WORDS
