"""Real weights, real speech, right words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import jiwer
import numpy as np
import pytest

from conftest import TWO_CITIES_WORDS
from stentor.engine.ct2 import CTranslate2Engine
from stentor.errors import EngineAborted, ModelError
from stentor.models import ModelFiles, resolve
from stentor.types import SAMPLE_RATE, EngineRequest, Samples, Segment
from support.waiting import until

Requests = Callable[..., EngineRequest]


@pytest.fixture
async def base() -> AsyncIterator[CTranslate2Engine]:
    engine = CTranslate2Engine(resolve("base"), slots=2, device="cpu")
    yield engine
    await engine.close()


async def heard(engine: CTranslate2Engine, request: EngineRequest) -> list[Segment]:
    async with aclosing(engine.generate(request)) as outputs:
        return [segment async for output in outputs for segment in output.segments]


def words(segments: list[Segment]) -> str:
    return " ".join(re.findall(r"[a-z]+", "".join(segment.text for segment in segments).lower()))


@pytest.mark.parametrize("model", ["base", "tiny.en"])
async def test_the_opening_of_a_tale_of_two_cities(
    make_request: Requests, opening: Samples, model: str
) -> None:
    engine = CTranslate2Engine(resolve(model), slots=1, device="cpu")
    segments = await heard(engine, make_request("r", opening, language="en"))
    await engine.close()
    # One word of 58 may differ: processors round int8 products differently, and a small model then stutters.
    assert jiwer.process_words(TWO_CITIES_WORDS, words(segments)).wer <= 0.02
    assert all(before.end_s <= after.start_s for before, after in pairwise(segments))
    assert all(-1 < segment.avg_logprob < 0 for segment in segments)


async def test_the_probe_and_the_transcript_share_the_encoder(
    base: CTranslate2Engine, make_request: Requests, opening: Samples
) -> None:
    probe = make_request("r-lang", opening)
    guess = await base.detect_language(probe)
    assert guess.language == "en"
    assert guess.probability > 0.9
    following = make_request("r", language="en")
    same_chunk = EngineRequest("r", "r", probe.chunk, following.options)
    assert words(await heard(base, same_chunk)) == TWO_CITIES_WORDS


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


async def test_a_translation_asks_for_english(
    base: CTranslate2Engine, make_request: Requests, opening: Samples
) -> None:
    segments = await heard(base, make_request("r", opening, language="de", task="translate"))
    assert "best of times" in words(segments)


async def test_a_prompt_of_any_length_is_never_echoed(
    base: CTranslate2Engine, make_request: Requests, opening: Samples
) -> None:
    for prompt in ("Charles Dickens.", "<|endoftext|><|de|> Dickens", "Mr. Lorry, Miss Manette. " * 200):
        said = words(await heard(base, make_request("r", opening, language="en", prompt=prompt)))
        assert "it was the worst of times" in said
        assert "lorry" not in said
        assert "endoftext" not in said


async def test_words_after_a_long_pause_are_heard(
    base: CTranslate2Engine, make_request: Requests, opening: Samples
) -> None:
    pause = np.zeros(8 * SAMPLE_RATE, np.float32)
    samples = np.concatenate([opening[: 7 * SAMPLE_RATE], pause, opening[-5 * SAMPLE_RATE :]])
    assert words(await heard(base, make_request("r", samples, language="en"))).endswith("winter of despair")


def test_a_directory_that_holds_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"no model")
    with pytest.raises(ModelError, match=str(tmp_path)):
        CTranslate2Engine(ModelFiles("broken", tmp_path, "0" * 64), slots=1)
