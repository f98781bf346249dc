"""OpenAI's shapes on the wire, and how a transcript becomes each of them.

Source: the types of the `openai` package 3.57 and what its client was seen to send and read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel

from stentor.text.cues import NO_LIMITS, CueLimits
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

    @property
    def has_cues(self) -> bool:
        """Whether it is subtitles."""
        return self in (ResponseFormat.SRT, ResponseFormat.VTT)


class DurationUsage(BaseModel):
    """What a request is billed by, where anybody bills."""

    type: Literal["duration"] = "duration"
    seconds: float


class LanguageJson(BaseModel):
    """A language that was heard."""

    code: str


class LogprobJson(BaseModel):
    """A token: its text as far as it is whole characters, its bytes, and its log-probability."""

    token: str
    bytes: list[int]
    logprob: float


class TranscriptionJson(BaseModel):
    """`response_format=json`. `languages` is empty where nothing was said, `logprobs` come when asked for."""

    text: str
    languages: list[LanguageJson]
    logprobs: list[LogprobJson] | None = None
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


class WordJson(BaseModel):
    """A word of `verbose_json`."""

    word: str
    start: float
    end: float


class VerboseJson(BaseModel):
    """`response_format=verbose_json`, with the granularities that were asked for."""

    task: str
    language: str
    duration: float
    text: str
    segments: list[SegmentJson] | None = None
    words: list[WordJson] | None = None
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
    logprobs: list[LogprobJson] | None = None


class DoneEvent(BaseModel):
    """The whole text, once, at the end."""

    type: Literal["transcript.text.done"] = "transcript.text.done"
    text: str
    languages: list[LanguageJson]
    logprobs: list[LogprobJson] | None = None
    usage: TokenUsage


class SegmentEvent(BaseModel):
    """A segment with its times in milliseconds' precision, and its words where they were asked for.

    It is the event of OpenAI's streams that tell speakers apart; here `speaker`, which its type requires, is
    empty.
    """

    type: Literal["transcript.text.segment"] = "transcript.text.segment"
    id: str
    start: float
    end: float
    speaker: str = ""
    text: str
    words: list[WordJson] | None = None


class TimedDoneEvent(DoneEvent):
    """The end of a stream with times: what `verbose_json` says of the whole comes with it."""

    task: str
    language: str
    duration: float


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


def render(
    transcript: Transcript,
    response_format: ResponseFormat,
    *,
    granularities: Collection[str] = ("segment",),
    logprobs: bool = False,
    limits: CueLimits = NO_LIMITS,
) -> tuple[str, str]:
    """A transcript as a response body and its media type.

    Args:
        transcript: What was said.
        response_format: As what.
        granularities: What has times in `verbose_json`: segments, words or both.
        logprobs: Whether `json` shall tell the log-probability of each token.
        limits: How large a cue of `srt` and `vtt` may be.
    """
    match response_format:
        case ResponseFormat.JSON:
            body = _json(transcript, logprobs=logprobs).model_dump_json(exclude_none=True)
            return body, "application/json"
        case ResponseFormat.VERBOSE_JSON:
            body = _verbose_json(transcript, granularities).model_dump_json(exclude_none=True)
            return body, "application/json"
        case ResponseFormat.TEXT:
            return transcript.text + "\n", "text/plain; charset=utf-8"
        case ResponseFormat.SRT:
            return to_srt(transcript.segments, limits), "application/x-subrip; charset=utf-8"
        case ResponseFormat.VTT:
            return to_vtt(transcript.segments, limits), "text/vtt; charset=utf-8"


def logprobs_of(segments: Iterable[Segment]) -> list[LogprobJson]:
    """The tokens of some segments, one after the other."""
    return [
        LogprobJson(
            token=token.text.decode(errors="replace"), bytes=list(token.text), logprob=round(token.logprob, 6)
        )
        for segment in segments
        for token in segment.logprobs
    ]


def segment_event(index: int, segment: Segment) -> SegmentEvent:
    """A segment of a stream with times."""
    return SegmentEvent(
        id=str(index),
        start=_to_ms(segment.start_s),
        end=_to_ms(segment.end_s),
        text=segment.text,
        words=[
            WordJson(word=word.text.strip(), start=_to_ms(word.start_s), end=_to_ms(word.end_s))
            for word in segment.words
        ]
        or None,
    )


def done_event(transcript: Transcript, *, logprobs: bool, timed: bool) -> DoneEvent:
    """The end of a stream."""
    told = DoneEvent(
        text=transcript.text,
        languages=languages_of(transcript),
        logprobs=logprobs_of(transcript.segments) if logprobs else None,
        usage=token_usage(transcript),
    )
    if not timed:
        return told
    return TimedDoneEvent(
        **dict(told),
        task=transcript.task,
        language=_language_name(transcript),
        duration=round(transcript.duration_s, 3),
    )


def languages_of(transcript: Transcript) -> list[LanguageJson]:
    """The languages that something was said in, the one that most was said in first."""
    return [LanguageJson(code=language) for language in transcript.languages]


def _json(transcript: Transcript, *, logprobs: bool) -> TranscriptionJson:
    return TranscriptionJson(
        text=transcript.text,
        languages=languages_of(transcript),
        logprobs=logprobs_of(transcript.segments) if logprobs else None,
        usage=_usage(transcript),
    )


def _verbose_json(transcript: Transcript, granularities: Collection[str]) -> VerboseJson:
    segments = [_segment(index, segment) for index, segment in enumerate(transcript.segments)]
    words = [
        WordJson(word=word.text.strip(), start=round(word.start_s, 2), end=round(word.end_s, 2))
        for segment in transcript.segments
        for word in segment.words
    ]
    return VerboseJson(
        task=transcript.task,
        language=_language_name(transcript),
        duration=round(transcript.duration_s, 3),
        text=transcript.text,
        segments=segments if "segment" in granularities else None,
        words=words if "word" in granularities else None,
        usage=_usage(transcript),
    )


def _language_name(transcript: Transcript) -> str:
    """What the text is written in, by its English name."""
    return "english" if transcript.task == "translate" else language_name(transcript.language)


def _to_ms(time_s: float) -> float:
    """A time to the millisecond, which is the same one that subtitles have."""
    return round(time_s * 1000) / 1000


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
