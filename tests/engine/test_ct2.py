"""What is CTranslate2's own: a call that runs cannot be stopped, but is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from conftest import TWO_CITIES_WORDS
from stentor.engine.ct2 import CTranslate2Engine
from stentor.errors import EngineAborted
from stentor.models import resolve
from stentor.types import EngineRequest, Samples
from support.hearing import heard, words
from support.waiting import until

Requests = Callable[..., EngineRequest]


@pytest.fixture
async def base() -> AsyncIterator[CTranslate2Engine]:
    engine = CTranslate2Engine(resolve("base"), slots=2, device="cpu")
    yield engine
    await engine.close()


async def test_an_abort_while_decoding_is_answered_at_once_and_the_next_result_is_right(
    base: CTranslate2Engine, make_request: Requests, opening: Samples
) -> None:
    probe = make_request("r-lang", opening)
    await base.detect_language(probe)  # so that the encoder is done, and what runs next is the decoder
    again = EngineRequest("r", "r", probe.chunk, make_request("r", language="en").options)
    task = asyncio.create_task(heard(base, again))
    await until(lambda: base.health().running == 1)
    await base.abort(["r"])
    with pytest.raises(EngineAborted):
        await task
    await until(lambda: base.health().running == base.health().queued == 0)
    assert words(await heard(base, again)) == TWO_CITIES_WORDS
