"""OpenAI's own client is the judge of what we send and refuse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from stentor.engine.fake import FakeEngine
from stentor.types import EngineRequest, Segment
from support.audio import bursts, noise, write
from support.server import Served, serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(FakeEngine(language="de"), max_audio_s=600, max_upload_bytes=30_000_000) as served:
        yield served


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    return write(tmp_path / "audio.flac", bursts(70))


async def test_json(client: openai.AsyncOpenAI, audio: Path) -> None:
    answer = await client.audio.transcriptions.create(file=audio, model="whisper-1")
    assert answer.text == "chunk 0 chunk 1 chunk 2"
    assert answer.usage is not None
    assert answer.usage.type == "duration"
    assert answer.usage.seconds == pytest.approx(70)


async def test_text_is_a_plain_body(client: openai.AsyncOpenAI, audio: Path) -> None:
    answer = await client.audio.transcriptions.create(file=audio, model="whisper-1", response_format="text")
    assert answer == "chunk 0 chunk 1 chunk 2\n"


async def test_verbose_json_has_every_required_field(client: openai.AsyncOpenAI, audio: Path) -> None:
    answer = await client.audio.transcriptions.create(
        file=audio, model="whisper-1", response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert isinstance(answer.duration, float)
    assert answer.language == "german"
    assert answer.segments is not None
    assert [segment.id for segment in answer.segments] == [0, 1, 2]
    assert "".join(segment.text for segment in answer.segments).strip() == answer.text
    for segment in answer.segments:
        assert segment.seek == int(segment.start * 100)
        assert isinstance(segment.no_speech_prob, float)
    assert answer.segments[-1].end == pytest.approx(70, abs=0.01)


@pytest.mark.parametrize(
    ("response_format", "start"), [("srt", "1\n00:00:00,000 -->"), ("vtt", "WEBVTT\n\n")]
)
async def test_subtitles_are_plain_bodies(
    client: openai.AsyncOpenAI, audio: Path, response_format: str, start: str
) -> None:
    answer = await client.audio.transcriptions.create(
        file=audio,
        model="whisper-1",
        response_format=response_format,  # type: ignore[call-overload]
    )
    assert isinstance(answer, str)
    assert answer.startswith(start)
    assert answer.count("chunk") == 3


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the method, in OpenAI's client
async def test_translations(client: openai.AsyncOpenAI, served: Served, audio: Path) -> None:
    answer = await client.audio.translations.create(file=audio, model="whisper-1", prompt="Names: Dickens.")
    assert answer.text == "chunk 0 chunk 1 chunk 2"
    engine = served.engine
    options = engine.options[engine.begun[-1]]
    assert (options.task, options.language, options.prompt) == ("translate", "de", "Names: Dickens.")
    verbose = await client.audio.translations.create(
        file=audio, model="whisper-1", response_format="verbose_json"
    )
    assert verbose.language == "english"


async def test_options_reach_the_engine(client: openai.AsyncOpenAI, served: Served, audio: Path) -> None:
    await client.audio.transcriptions.create(
        file=audio, model="fake", language="French", temperature=0.4, prompt="Bonjour"
    )
    engine = served.engine
    options = engine.options[engine.begun[-1]]
    assert (options.task, options.language) == ("transcribe", "fr")
    assert (options.temperature, options.prompt) == (0.4, "Bonjour")


async def test_a_stream_is_deltas_and_one_done(client: openai.AsyncOpenAI, audio: Path) -> None:
    stream = await client.audio.transcriptions.create(file=audio, model="whisper-1", stream=True)
    events = [event async for event in stream]
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    done = events[-1]
    assert [event.type for event in events] == ["transcript.text.delta"] * 3 + ["transcript.text.done"]
    assert done.type == "transcript.text.done"
    assert deltas == ["chunk 0", " chunk 1", " chunk 2"]
    assert "".join(deltas) == done.text == "chunk 0 chunk 1 chunk 2"
    assert done.usage is not None
    assert done.usage.input_tokens == 3500


async def test_a_stream_of_silence_is_one_empty_done(client: openai.AsyncOpenAI, tmp_path: Path) -> None:
    audio = write(tmp_path / "silence.wav", noise(3, level=0))
    stream = await client.audio.transcriptions.create(file=audio, model="whisper-1", stream=True)
    assert [(event.type, getattr(event, "text", None)) async for event in stream] == [
        ("transcript.text.done", "")
    ]


async def test_bad_audio_is_400_also_for_a_stream(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.audio.transcriptions.create(file=b"no audio" * 99, model="whisper-1", stream=True)
    assert refused.value.code == "invalid_audio"


async def test_an_error_in_mid_stream_reaches_the_client(tmp_path: Path) -> None:
    def script(request: EngineRequest) -> list[Segment]:
        if request.chunk.index == 1:
            raise RuntimeError("worker lost")
        return [Segment(" one", 0, 1)]

    audio = write(tmp_path / "audio.flac", bursts(70))
    async with (
        serving(FakeEngine(script, slots=1)) as served,
        openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client,
    ):
        stream = await client.audio.transcriptions.create(
            file=audio, model="fake", language="en", stream=True
        )
        assert (await anext(aiter(stream))).type == "transcript.text.delta"
        with pytest.raises(openai.APIError, match="worker lost"):
            await anext(aiter(stream))


async def test_a_stream_of_subtitles_is_refused(client: openai.AsyncOpenAI, audio: Path) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.audio.transcriptions.create(
            file=audio,
            model="whisper-1",
            stream=True,
            response_format="srt",
        )
    assert refused.value.param == "stream"


@pytest.mark.parametrize(
    "strategy", ["auto", {"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 300}]
)
async def test_voice_activity_detection_leaves_noise_out(
    client: openai.AsyncOpenAI, audio: Path, strategy: Any
) -> None:
    answer = await client.audio.transcriptions.create(
        file=audio, model="whisper-1", chunking_strategy=strategy
    )
    assert answer.text == ""
    assert answer.usage is not None
    assert answer.usage.type == "duration"
    assert answer.usage.seconds == pytest.approx(70)


async def test_bare_bytes_are_sniffed(client: openai.AsyncOpenAI, audio: Path) -> None:
    content = await asyncio.to_thread(audio.read_bytes)
    answer = await client.audio.transcriptions.create(file=content, model="whisper-1")
    assert answer.text.startswith("chunk 0")


async def test_models(client: openai.AsyncOpenAI) -> None:
    names = ["fake", "whisper-1", "gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe"]
    assert [model.id async for model in client.models.list()] == names
    assert (await client.models.retrieve("whisper-1")).id == "whisper-1"
    with pytest.raises(openai.NotFoundError) as refused:
        await client.models.retrieve("gpt-9")
    assert refused.value.code == "model_not_found"


async def test_a_model_of_the_hub_is_found_by_its_name() -> None:
    async with (
        serving(FakeEngine(), served_model_names="Systran/faster-whisper-base") as served,
        openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client,
    ):
        card = await client.models.retrieve("Systran/faster-whisper-base")
        assert card.id == "Systran/faster-whisper-base"
        with pytest.raises(openai.NotFoundError) as refused:
            await client.models.retrieve("Systran/faster-whisper-tiny")
    assert refused.value.code == "model_not_found"


async def test_an_unknown_model_is_404(client: openai.AsyncOpenAI, audio: Path) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await client.audio.transcriptions.create(file=audio, model="gpt-9")
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert refused.value.request_id


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("language", "klingon"),
        ("language", "fi"),  # a language, but not one of this model's
        ("response_format", "xml"),
        ("temperature", 1.5),
        ("timestamp_granularities", ["word"]),
        ("timestamp_granularities", ["segment"]),  # needs verbose_json
        ("chunking_strategy", "loud"),
        ("chunking_strategy", {"type": "server_vad", "threshold": 7}),
    ],
)
async def test_what_is_not_honoured_is_refused_by_name(
    client: openai.AsyncOpenAI, served: Served, audio: Path, param: str, value: object
) -> None:
    arguments = {"file": audio, "model": "whisper-1", param: value}
    with pytest.raises(openai.BadRequestError) as refused:
        await client.audio.transcriptions.create(**arguments)  # type: ignore[call-overload]
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"
    assert refused.value.code == "invalid_value"
    engine = served.engine
    assert engine.begun == []


async def test_bad_audio_is_400_with_the_reason(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.audio.transcriptions.create(file=b"no audio at all" * 100, model="whisper-1")
    assert (refused.value.code, refused.value.param) == ("invalid_audio", "file")


async def test_too_long_audio_is_400_naming_the_limit(client: openai.AsyncOpenAI, tmp_path: Path) -> None:
    audio = write(tmp_path / "long.wav", noise(601))
    with pytest.raises(openai.BadRequestError, match="10 min") as refused:
        await client.audio.transcriptions.create(file=audio, model="whisper-1")
    assert refused.value.code == "audio_too_long"


async def test_an_oversize_body_is_413(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        await client.audio.transcriptions.create(file=bytes(31_000_000), model="whisper-1")
    assert (refused.value.status_code, refused.value.code) == (413, "request_too_large")


async def test_silence_is_an_empty_text_and_200(client: openai.AsyncOpenAI, tmp_path: Path) -> None:
    audio = write(tmp_path / "silence.wav", noise(3, level=0))
    assert (await client.audio.transcriptions.create(file=audio, model="whisper-1")).text == ""


async def test_a_dead_engine_is_503_and_red(client: openai.AsyncOpenAI, served: Served, audio: Path) -> None:
    engine = served.services.engine
    await engine.close()
    with pytest.raises(openai.InternalServerError) as refused:
        await client.audio.transcriptions.create(file=audio, model="whisper-1")
    assert (refused.value.status_code, refused.value.code) == (503, "engine_error")
