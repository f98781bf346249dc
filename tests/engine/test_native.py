"""stentor-native with real weights: right words, whoever else is in the batch, and aborts within a step."""

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
from stentor.engine.native import NativeEngine
from stentor.errors import EngineAborted, ModelError
from stentor.models import ModelFiles, resolve
from stentor.types import SAMPLE_RATE, EngineRequest, Samples, Segment
from support.native import skip_unless_native
from support.waiting import until

Requests = Callable[..., EngineRequest]


@pytest.fixture
async def base() -> AsyncIterator[NativeEngine]:
    skip_unless_native()
    engine = NativeEngine(resolve("base"), max_batch=4)
    yield engine
    await engine.close()


async def heard(engine: NativeEngine, request: EngineRequest) -> list[Segment]:
    async with aclosing(engine.generate(request)) as outputs:
        return [segment async for output in outputs for segment in output.segments]


def words(segments: list[Segment]) -> str:
    return " ".join(re.findall(r"[a-z]+", "".join(segment.text for segment in segments).lower()))


@pytest.mark.parametrize("model", ["base", "tiny.en"])
async def test_the_opening_of_a_tale_of_two_cities(
    make_request: Requests, opening: Samples, model: str
) -> None:
    skip_unless_native()
    engine = NativeEngine(resolve(model), max_batch=1)
    segments = await heard(engine, make_request("r", opening, language="en"))
    await engine.close()
    assert jiwer.process_words(TWO_CITIES_WORDS, words(segments)).wer <= 0.02
    assert all(before.end_s <= after.start_s for before, after in pairwise(segments))
    assert all(-1 < segment.avg_logprob < 0 for segment in segments)


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


async def test_a_translation_asks_for_english(
    base: NativeEngine, make_request: Requests, opening: Samples
) -> None:
    segments = await heard(base, make_request("r", opening, language="de", task="translate"))
    assert "best of times" in words(segments)


async def test_a_prompt_of_any_length_is_never_echoed(
    base: NativeEngine, make_request: Requests, opening: Samples
) -> None:
    for prompt in ("Charles Dickens.", "<|endoftext|><|de|> Dickens", "Mr. Lorry, Miss Manette. " * 200):
        said = words(await heard(base, make_request("r", opening, language="en", prompt=prompt)))
        assert "it was the worst of times" in said
        assert "lorry" not in said
        assert "endoftext" not in said


async def test_words_after_a_long_pause_are_heard(
    base: NativeEngine, make_request: Requests, opening: Samples
) -> None:
    pause = np.zeros(8 * SAMPLE_RATE, np.float32)
    samples = np.concatenate([opening[: 7 * SAMPLE_RATE], pause, opening[-5 * SAMPLE_RATE :]])
    assert words(await heard(base, make_request("r", samples, language="en"))).endswith("winter of despair")


def test_a_directory_that_holds_no_model_is_named(tmp_path: Path) -> None:
    skip_unless_native()
    (tmp_path / "model.bin").write_bytes(b"no model")
    (tmp_path / "tokenizer.json").symlink_to(resolve("tiny.en").directory / "tokenizer.json")
    with pytest.raises(ModelError, match=str(tmp_path)):
        NativeEngine(ModelFiles("broken", tmp_path, "0" * 64), max_batch=1)
