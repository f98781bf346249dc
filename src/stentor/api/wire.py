"""OpenAI's shapes on the wire, and how a transcript becomes each of them.

Source: the types of the `openai` package 3.57 and what its client was seen to send and read.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel

from stentor.text.subtitles import to_srt, to_vtt
from stentor.types import Segment, Transcript
from stentor.whisper.languages import language_name

FRAMES_PER_S = 100
"""`seek` counts frames of 10 ms, as openai/whisper transcribe.py does."""

POSITIONS_PER_S = 50
"""Whisper's encoder makes a position of 20 ms of audio. Source: openai/whisper TOKENS_PER_SECOND."""


class ResponseFormat(StrEnum):
    """What a transcript can be asked for as."""

    JSON = "json"
    TEXT = "text"
    SRT = "srt"
    VTT = "vtt"
    VERBOSE_JSON = "verbose_json"


class DurationUsage(BaseModel):
    """What a request is billed by, where anybody bills."""

    type: Literal["duration"] = "duration"
    seconds: float


class TranscriptionJson(BaseModel):
    """`response_format=json`."""

    text: str
    usage: DurationUsage


class SegmentJson(BaseModel):
    """A segment of `verbose_json`; every field is required by the client's types."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class VerboseJson(BaseModel):
    """`response_format=verbose_json`."""

    task: str
    language: str
    duration: float
    text: str
    segments: list[SegmentJson]
    usage: DurationUsage


class TokenUsage(BaseModel):
    """What a streamed answer is billed by: positions of the encoder in, tokens of text out."""

    type: Literal["tokens"] = "tokens"
    input_tokens: int
    output_tokens: int
    total_tokens: int


class DeltaEvent(BaseModel):
    """More text."""

    type: Literal["transcript.text.delta"] = "transcript.text.delta"
    delta: str


class DoneEvent(BaseModel):
    """The whole text, once, at the end."""

    type: Literal["transcript.text.done"] = "transcript.text.done"
    text: str
    usage: TokenUsage


class ErrorDetail(BaseModel):
    """What went wrong, for people (`message`) and programs (the rest)."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """Every answer that is not a success."""

    error: ErrorDetail


class ModelCard(BaseModel):
    """One entry of `GET /v1/models`."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "stentor"


class ModelList(BaseModel):
    """`GET /v1/models`."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


def token_usage(transcript: Transcript) -> TokenUsage:
    """Count what went into the model and what came out."""
    heard = round(transcript.duration_s * POSITIONS_PER_S)
    written = sum(len(segment.tokens) for segment in transcript.segments)
    return TokenUsage(input_tokens=heard, output_tokens=written, total_tokens=heard + written)


def render(transcript: Transcript, response_format: ResponseFormat) -> tuple[str, str]:
    """A transcript as a response body and its media type."""
    body, media_type = _RENDERERS[response_format]
    return body(transcript), media_type


def _json(transcript: Transcript) -> str:
    return TranscriptionJson(text=transcript.text, usage=_usage(transcript)).model_dump_json()


def _text(transcript: Transcript) -> str:
    return transcript.text + "\n"


def _verbose_json(transcript: Transcript) -> str:
    return VerboseJson(
        task=transcript.task,
        language="english" if transcript.task == "translate" else language_name(transcript.language),
        duration=round(transcript.duration_s, 3),
        text=transcript.text,
        segments=[_segment(index, segment) for index, segment in enumerate(transcript.segments)],
        usage=_usage(transcript),
    ).model_dump_json()


def _segment(index: int, segment: Segment) -> SegmentJson:
    return SegmentJson(
        id=index,
        seek=int(segment.start_s * FRAMES_PER_S),
        start=round(segment.start_s, 2),
        end=round(segment.end_s, 2),
        text=segment.text,
        tokens=list(segment.tokens),
        temperature=segment.temperature,
        avg_logprob=segment.avg_logprob,
        compression_ratio=segment.compression_ratio,
        no_speech_prob=segment.no_speech_prob,
    )


def _usage(transcript: Transcript) -> DurationUsage:
    return DurationUsage(seconds=round(transcript.duration_s, 3))


_RENDERERS: dict[ResponseFormat, tuple[Callable[[Transcript], str], str]] = {
    ResponseFormat.JSON: (_json, "application/json"),
    ResponseFormat.TEXT: (_text, "text/plain; charset=utf-8"),
    ResponseFormat.SRT: (lambda t: to_srt(t.segments), "application/x-subrip; charset=utf-8"),
    ResponseFormat.VTT: (lambda t: to_vtt(t.segments), "text/vtt; charset=utf-8"),
    ResponseFormat.VERBOSE_JSON: (_verbose_json, "application/json"),
}
