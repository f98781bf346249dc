"""What users of other servers rely on, with real weights and real speech.

The cases of vLLM's public validation of its audio endpoints are among them, said in our own way: there `text`
is JSON and streams are chat completions, here they are OpenAI's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import pytest_asyncio

from stentor.config import Settings
from stentor.engine.choice import load_engine
from stentor.models import resolve
from stentor.types import SAMPLE_RATE, Samples
from support.audio import speech, write
from support.server import Served, serving

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),  # one server for all
    pytest.mark.timeout(180),  # CTranslate2, where the native engine does not run, takes its time
]

PAUSE_SAMPLES = SAMPLE_RATE // 10
"""A stretch with less than `PAUSE_LEVEL` in it, so long, is a pause."""

PAUSE_LEVEL = 0.02


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    engine = load_engine(
        resolve("base"), slots=Settings().resolved_engine_slots, device="cpu", max_batch=Settings().max_batch
    )
    async with serving(engine) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="module")
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def without_pauses(samples: Samples) -> Samples:
    """Only the stretches of 0.1 s that somebody speaks in."""
    whole = samples[: len(samples) // PAUSE_SAMPLES * PAUSE_SAMPLES].reshape(-1, PAUSE_SAMPLES)
    spoken: Samples = whole[np.abs(whole).max(axis=1) > PAUSE_LEVEL]
    return spoken.ravel()


@pytest.fixture(scope="module")
def continuous(two_cities: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """95 s of speech in which nothing tells where to cut."""
    once = without_pauses(speech(two_cities))
    whole = np.tile(once, 1 + 95 * SAMPLE_RATE // len(once))[: 95 * SAMPLE_RATE]
    return write(tmp_path_factory.mktemp("continuous") / "speech.flac", whole)


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


async def transcribed(client: openai.AsyncOpenAI, audio: Path, **options: Any) -> Any:
    return await client.audio.transcriptions.create(
        file=audio, **{"model": "whisper-1", "language": "en", **options}
    )


def cue_text(body: str) -> str:
    return " ".join(line for line in body.splitlines() if line and not re.search(r"^\d+$|-->|^WEBVTT", line))


async def test_continuous_speech_has_the_same_words_in_every_format(
    client: openai.AsyncOpenAI, continuous: Path
) -> None:
    told = words((await transcribed(client, continuous)).text)
    assert len(told) > 250
    assert told.count("wisdom") >= 2
    verbose = await transcribed(
        client, continuous, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    stream = await transcribed(client, continuous, stream=True)
    events = [event async for event in stream]
    texts = {
        "text": await transcribed(client, continuous, response_format="text"),
        "srt": cue_text(await transcribed(client, continuous, response_format="srt")),
        "vtt": cue_text(await transcribed(client, continuous, response_format="vtt")),
        "verbose_json": verbose.text,
        "segments": "".join(segment.text for segment in verbose.segments),
        "words": " ".join(word.word for word in verbose.words),
        "done": events[-1].text,
        "deltas": "".join(event.delta for event in events[:-1]),
    }
    assert {name: words(text) for name, text in texts.items()} == dict.fromkeys(texts, told)
    assert len(events) > 3  # it came while it was heard
    times = [time for word in verbose.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[-1] <= verbose.duration


async def test_two_recordings_at_once_keep_their_words(client: openai.AsyncOpenAI, two_cities: Path) -> None:
    beckett = two_cities.with_name("beckett.wav")
    one, other = await asyncio.gather(transcribed(client, two_cities), transcribed(client, beckett))
    assert "best of times" in one.text
    assert "no matter" in other.text.lower()
    assert "times" not in other.text


async def test_nothing_is_lost_or_doubled_in_ten_repetitions(
    client: openai.AsyncOpenAI, two_cities: Path, tmp_path: Path
) -> None:
    sentence = speech(two_cities.with_name("beckett.wav"))
    again = np.tile(np.pad(sentence, (0, SAMPLE_RATE // 10)), 10)
    answer = await transcribed(client, write(tmp_path / "again.wav", again))
    assert " ".join(words(answer.text)).count("ever tried ever failed") == 10
    assert answer.usage.seconds == pytest.approx(len(again) / SAMPLE_RATE, abs=0.01)


async def test_a_prompt_costs_no_words(client: openai.AsyncOpenAI, two_cities: Path) -> None:
    for prompt in ("", "A novel by Charles Dickens, read aloud."):
        answer = await transcribed(client, two_cities, prompt=prompt)
        assert answer.text.startswith("It was the best of times")
        assert "Dickens" not in answer.text


async def test_the_language_is_found_and_named(client: openai.AsyncOpenAI, two_cities: Path) -> None:
    answer = await client.audio.transcriptions.create(
        file=two_cities, model="whisper-1", response_format="verbose_json"
    )
    assert answer.language == "english"
    assert answer.segments


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the method, in OpenAI's client
async def test_a_translation_of_english_is_english(client: openai.AsyncOpenAI, two_cities: Path) -> None:
    answer = await client.audio.translations.create(file=two_cities, model="whisper-1")
    assert "age of wisdom" in answer.text


@pytest.mark.parametrize(
    "field",
    ["seed", "top_p", "repetition_penalty", "max_completion_tokens", "use_beam_search", "to_language"],
)
async def test_what_only_vllm_knows_is_refused_by_name(
    client: openai.AsyncOpenAI, two_cities: Path, field: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await transcribed(client, two_cities, extra_body={field: "1"})
    assert refused.value.param == field


async def test_other_endpoints_are_not_there(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.chat.completions.create(
            model="whisper-1", messages=[{"role": "user", "content": "Hello"}]
        )
    with pytest.raises(openai.NotFoundError):
        await client.completions.create(model="whisper-1", prompt="Hello")
