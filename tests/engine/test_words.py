"""Word times of real speech, by each engine that hears it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stentor.engine.base import Engine
from stentor.engine.ct2 import CTranslate2Engine
from stentor.engine.native import NativeEngine
from stentor.models import resolve
from stentor.types import EngineRequest, Samples, Word
from support.hearing import heard
from support.native import skip_unless_native

Load = Callable[..., Engine]
Requests = Callable[..., EngineRequest]


@pytest.fixture
def engine(load: Load) -> Engine:
    return load(resolve("tiny.en"))


async def test_words_are_the_text_and_have_its_times(
    engine: Engine, make_request: Requests, opening: Samples
) -> None:
    segments = await heard(engine, make_request("r", opening, language="en", words=True))
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


async def test_words_come_only_when_asked_for(
    engine: Engine, make_request: Requests, opening: Samples
) -> None:
    assert all(
        not segment.words for segment in await heard(engine, make_request("r", opening, language="en"))
    )


async def test_log_probabilities_spell_the_text(
    engine: Engine, make_request: Requests, opening: Samples
) -> None:
    for segment in await heard(engine, make_request("r", opening, language="en", logprobs=True)):
        assert b"".join(token.text for token in segment.logprobs).decode() == segment.text
        assert len(segment.logprobs) == len(segment.tokens)
        assert all(token.logprob <= 0 for token in segment.logprobs)


async def test_both_engines_hear_the_words_at_the_same_time(make_request: Requests, opening: Samples) -> None:
    skip_unless_native()
    found: list[list[Word]] = []
    engines: list[Engine] = [
        NativeEngine(resolve("base"), max_batch=1),
        CTranslate2Engine(resolve("base"), slots=1, device="cpu"),
    ]
    for engine in engines:
        segments = await heard(engine, make_request("r", opening, language="en", words=True))
        found.append([word for segment in segments for word in segment.words])
        await engine.close()
    native, other = found
    assert [word.text for word in native] == [word.text for word in other]
    apart = sorted(abs(one.start_s - two.start_s) for one, two in zip(native, other, strict=True))
    assert apart[len(apart) * 9 // 10] <= 0.04  # two of the encoder's frames
    assert apart[-1] < 0.3
