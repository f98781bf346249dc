"""Every further field of OpenAI's contract, sent by OpenAI's own client."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from conformance.cases import spoken
from stentor.engine.fake import FakeEngine
from support.audio import bursts, write
from support.server import Served, serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(FakeEngine(spoken)) as served:
        yield served


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    return write(tmp_path / "audio.flac", bursts(40))


async def test_words_are_in_the_files_own_time(client: openai.AsyncOpenAI, audio: Path) -> None:
    answer = await client.audio.transcriptions.create(
        file=audio, model="whisper-1", response_format="verbose_json", timestamp_granularities=["word"]
    )
    assert answer.segments is None
    assert answer.words is not None
    assert [word.word for word in answer.words] == ["good", "café"] * 2
    starts = [word.start for word in answer.words]
    assert starts == sorted(starts)
    assert starts[2] > 20
    assert " ".join(word.word for word in answer.words) == answer.text


async def test_words_and_segments_together(client: openai.AsyncOpenAI, audio: Path) -> None:
    answer = await client.audio.transcriptions.create(
        file=audio,
        model="whisper-1",
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert answer.segments is not None
    assert answer.words is not None
    assert len(answer.segments) == 2


async def test_log_probabilities_of_whole_answers(client: openai.AsyncOpenAI, audio: Path) -> None:
    answer = await client.audio.transcriptions.create(file=audio, model="whisper-1", include=["logprobs"])
    assert answer.logprobs is not None
    assert [entry.logprob for entry in answer.logprobs] == [-0.1, -0.2, -0.3] * 2
    written = b"".join(bytes(int(byte) for byte in entry.bytes or []) for entry in answer.logprobs)
    assert written.decode().strip() == answer.text


async def test_log_probabilities_of_streams(client: openai.AsyncOpenAI, audio: Path) -> None:
    stream = await client.audio.transcriptions.create(
        file=audio, model="whisper-1", include=["logprobs"], stream=True
    )
    deltas, done = [], None
    async for event in stream:
        if event.type == "transcript.text.delta":
            deltas += event.logprobs or []
        elif event.type == "transcript.text.done":
            done = event
    assert done is not None
    assert done.logprobs is not None
    assert [entry.logprob for entry in deltas] == [entry.logprob for entry in done.logprobs]
    assert all(math.isfinite(entry.logprob or 0) for entry in done.logprobs)


async def test_without_include_there_are_none(client: openai.AsyncOpenAI, audio: Path) -> None:
    answer = await client.audio.transcriptions.create(file=audio, model="whisper-1")
    assert answer.logprobs is None


async def test_keywords_and_candidates_reach_the_engine(
    served: Served, client: openai.AsyncOpenAI, audio: Path
) -> None:
    answer = await client.audio.transcriptions.create(
        file=audio,
        model="whisper-1",
        extra_body={"keywords": ["Stentor", "Troy"], "languages": ["English", "de", "de"]},
    )
    options = next(iter(served.engine.options.values()))
    assert options.keywords == ("Stentor", "Troy")
    assert options.languages == ("en", "de")
    assert answer.to_dict()["languages"] == [{"code": "en"}]


async def test_condition_hears_in_order_and_code_switching_each_chunk_for_itself(
    served: Served, client: openai.AsyncOpenAI, tmp_path: Path
) -> None:
    audio = write(tmp_path / "long.flac", bursts(70))
    for field in ("condition", "code_switching"):
        await client.audio.transcriptions.create(file=audio, model="whisper-1", extra_body={field: True})
    said = [len(options.previous) for name, options in served.engine.options.items() if "lang" not in name]
    assert said == [0, 1, 2, 0, 0, 0]
    assert sum("lang" in name for name in list(served.engine.options)[-6:]) == 3


async def test_one_candidate_is_the_language(served: Served, client: openai.AsyncOpenAI, audio: Path) -> None:
    await client.audio.transcriptions.create(file=audio, model="whisper-1", extra_body={"languages": ["fr"]})
    assert {options.language for options in served.engine.options.values()} == {"fr"}


async def test_limits_make_more_cues_and_lines_at_the_words_times(
    served: Served, client: openai.AsyncOpenAI, tmp_path: Path
) -> None:
    audio = write(tmp_path / "short.flac", bursts(5))
    written = await client.audio.transcriptions.create(
        file=audio,
        model="whisper-1",
        response_format="vtt",
        extra_body={"max_line_width": 5, "max_line_count": 1, "max_cue_s": 7},
    )
    assert str(written) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\ngood\n\n00:00:00.500 --> 00:00:01.000\ncafé\n\n"
    )
    assert {options.words for options in served.engine.options.values()} == {True}


async def test_subtitles_without_limits_ask_for_no_words(
    served: Served, client: openai.AsyncOpenAI, audio: Path
) -> None:
    await client.audio.transcriptions.create(file=audio, model="whisper-1", response_format="srt")
    assert {options.words for options in served.engine.options.values()} == {False}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "diarized_json"}, "response_format"),
        ({"extra_body": {"known_speaker_names": ["Ann"]}}, "known_speaker_names"),
        ({"extra_body": {"languages": ["en", "klingon"]}}, "languages"),
        ({"extra_body": {"languages": ["sw", "en"]}}, "languages"),
        ({"language": "en", "extra_body": {"languages": ["en", "de"]}}, "languages"),
        ({"extra_body": {"condition": "maybe"}}, "condition"),
        ({"language": "en", "extra_body": {"code_switching": True}}, "code_switching"),
        ({"extra_body": {"condition": True, "code_switching": True}}, "code_switching"),
        ({"include": ["logprobs"], "response_format": "text"}, "include"),
        ({"include": ["tokens"]}, "include"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities"),
        (
            {"timestamp_granularities": ["letter"], "response_format": "verbose_json"},
            "timestamp_granularities",
        ),
        ({"temperature": 1.5}, "temperature"),
        ({"extra_body": {"max_line_width": 42}}, "max_line_width"),
        ({"response_format": "verbose_json", "extra_body": {"max_cue_s": 7}}, "max_cue_s"),
        ({"response_format": "srt", "extra_body": {"max_line_count": 2}}, "max_line_count"),
        ({"response_format": "srt", "extra_body": {"max_line_width": 0}}, "max_line_width"),
        (
            {"response_format": "vtt", "extra_body": {"max_line_width": 9, "max_line_count": 0}},
            "max_line_count",
        ),
        ({"response_format": "vtt", "extra_body": {"max_cue_s": 0.1}}, "max_cue_s"),
        ({"response_format": "vtt", "extra_body": {"max_cue_s": "inf"}}, "max_cue_s"),
        ({"response_format": "vtt", "extra_body": {"max_cue_s": "nan"}}, "max_cue_s"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    served: Served, client: openai.AsyncOpenAI, audio: Path, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        await client.audio.transcriptions.create(file=audio, model="whisper-1", **fields)
    assert refusal.value.param == param
    assert served.engine.begun == []
