"""Word times of real speech, by each engine that hears it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stentor.engine.base import Engine
from stentor.engine.ct2 import CTranslate2Engine
from stentor.engine.native import NativeEngine
from stentor.models import resolve
from stentor.types import Chunk, DecodeOptions, EngineRequest, Samples, Segment
from support.native import skip_unless_native


@pytest.fixture(params=["ctranslate2", "native"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    files = resolve("tiny.en")
    if request.param == "native":
        skip_unless_native()
        engine: Engine = NativeEngine(files, max_batch=2)
    else:
        engine = CTranslate2Engine(files, slots=1)
    yield engine
    await engine.close()


async def heard(
    engine: Engine, samples: Samples, *, words: bool = False, logprobs: bool = False
) -> list[Segment]:
    chunk = Chunk(0, 0, samples, last=True)
    options = DecodeOptions(language="en", words=words, logprobs=logprobs)
    request = EngineRequest("r", "r", chunk, options)
    return [segment async for output in engine.generate(request) for segment in output.segments]


async def test_words_are_the_text_and_have_its_times(engine: Engine, opening: Samples) -> None:
    segments = await heard(engine, opening, words=True)
    assert segments
    for segment in segments:
        assert "".join(word.text for word in segment.words) == segment.text
        edges = [edge for word in segment.words for edge in (word.start_s, word.end_s)]
        assert edges == sorted(edges)
        assert segment.start_s <= edges[0]
        assert edges[-1] <= segment.end_s
    first = {word.text.strip(): word for word in reversed(segments[0].words)}
    # Two engines with different kernels agree on these to a frame or two.
    assert first["best"].start_s == pytest.approx(1.8, abs=0.15)
    assert first["worst"].start_s == pytest.approx(3.55, abs=0.15)
    assert all(0 < word.probability <= 1 for segment in segments for word in segment.words)


async def test_words_come_only_when_asked_for(engine: Engine, opening: Samples) -> None:
    assert all(not segment.words for segment in await heard(engine, opening))


async def test_log_probabilities_spell_the_text(engine: Engine, opening: Samples) -> None:
    for segment in await heard(engine, opening, logprobs=True):
        assert b"".join(token.text for token in segment.logprobs).decode() == segment.text
        assert len(segment.logprobs) == len(segment.tokens)
        assert all(token.logprob <= 0 for token in segment.logprobs)
