"""The contract, case by case: what is sent and what must come back, whichever client asks.

Values are written as OpenAI's client takes them. An answer is compared as plain data: `str` for a raw body,
`dict` for an object, `list` for the events of a stream. The audio is 40 s of noise with pauses: two chunks.
In each the engine hears "good café", in German.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from stentor.types import EngineRequest, Segment, TokenLogprob, Word

TEXT = "good café good café"
AUDIO_S = 40.0

Answer: TypeAlias = str | dict[str, Any] | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that names what it is about."""

    status: int
    code: str
    param: str | None = None


@dataclass(frozen=True)
class Case:
    """One row of docs/conformance.md.

    Attributes:
        topic: The field or format it is about.
        sends: The request's fields beside `file` and `model`.
        then: What comes back, in words for the page.
        check: Raises where the answer is another, or the refusal expected.
        own: Fields that OpenAI's API does not have.
    """

    topic: str
    sends: Mapping[str, Any]
    then: str
    check: Callable[[Any], None] | Refusal
    endpoint: Literal["transcriptions", "translations"] = "transcriptions"
    own: Mapping[str, Any] = field(default_factory=dict)
    audio: Literal["speech", "garbage"] = "speech"

    @property
    def name(self) -> str:
        told = " ".join(f"{key}={value}" for key, value in {**self.sends, **self.own}.items())
        return f"{self.endpoint}: {told or 'nothing more'}" + (
            " (garbage)" if self.audio == "garbage" else ""
        )


def spoken(request: EngineRequest) -> list[Segment]:
    """What the engine hears in each chunk: two words, the second of which ends in half a character."""
    tokens = (TokenLogprob(b" good", -0.1), TokenLogprob(b" caf\xc3", -0.2), TokenLogprob(b"\xa9", -0.3))
    words = (Word(" good", 0.0, 0.5, 0.9), Word(" café", 0.5, 1.0, 0.8))
    options = request.options
    return [
        Segment(
            " good café",
            0.0,
            1.0,
            tokens=(1, 2, 3),
            words=words if options.words else (),
            logprobs=tokens if options.logprobs else (),
        )
    ]


def is_json(answer: dict[str, Any]) -> None:
    assert answer["text"] == TEXT
    assert answer["languages"] == [{"code": "de"}]
    assert answer["usage"] == {"type": "duration", "seconds": AUDIO_S}


def is_nothing(answer: dict[str, Any]) -> None:
    assert answer["text"] == ""
    assert answer["languages"] == []
    assert answer["usage"] == {"type": "duration", "seconds": AUDIO_S}


def has_logprobs(answer: dict[str, Any]) -> None:
    is_json(answer)
    # OpenAI's client for Python makes floats of the bytes, after its types.
    told = bytes(int(byte) for token in answer["logprobs"] for byte in token["bytes"])
    assert told.decode() == f" {TEXT}"
    assert all(token["logprob"] < 0 for token in answer["logprobs"])


def is_text(answer: str) -> None:
    assert answer == TEXT + "\n"


def is_srt(answer: str) -> None:
    cues = answer.strip().split("\n\n")
    assert [cue.splitlines()[0] for cue in cues] == ["1", "2"]
    for cue in cues:
        assert re.fullmatch(r"\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}", cue.splitlines()[1])
    assert " ".join(cue.splitlines()[2] for cue in cues) == TEXT


def is_vtt(answer: str) -> None:
    head, *cues = answer.strip().split("\n\n")
    assert head == "WEBVTT"
    for cue in cues:
        assert re.fullmatch(r"(\d\d:)?\d\d:\d\d\.\d{3} --> (\d\d:)?\d\d:\d\d\.\d{3}", cue.splitlines()[0])
    assert " ".join(cue.splitlines()[1] for cue in cues) == TEXT


def is_narrow_srt(answer: str) -> None:
    cues = [cue.splitlines()[2:] for cue in answer.strip().split("\n\n")]
    assert cues == [["good", "café"]] * 2


def has_segments(answer: dict[str, Any]) -> None:
    _is_verbose(answer)
    assert "words" not in answer
    assert [segment["id"] for segment in answer["segments"]] == [0, 1]
    assert "".join(segment["text"] for segment in answer["segments"]).strip() == TEXT
    for segment in answer["segments"]:
        assert set(segment) == {
            *("id", "seek", "start", "end", "text", "tokens"),
            *("temperature", "avg_logprob", "compression_ratio", "no_speech_prob"),
        }
        assert segment["seek"] == int(segment["start"] * 100)


def has_words(answer: dict[str, Any]) -> None:
    _is_verbose(answer)
    assert "segments" not in answer
    _has_words(answer)


def has_segments_and_words(answer: dict[str, Any]) -> None:
    _is_verbose(answer)
    _has_words(answer)
    assert [segment["id"] for segment in answer["segments"]] == [0, 1]


def is_stream(events: list[dict[str, Any]]) -> None:
    *deltas, done = events
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert done["type"] == "transcript.text.done"
    assert "".join(event["delta"] for event in deltas) == done["text"] == TEXT
    usage = done["usage"]
    assert usage["type"] == "tokens"
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def is_stream_with_logprobs(events: list[dict[str, Any]]) -> None:
    is_stream(events)
    *deltas, done = events
    assert [token for event in deltas for token in event["logprobs"]] == done["logprobs"]
    assert len(done["logprobs"]) == 6


def is_timed_stream(events: list[dict[str, Any]]) -> None:
    deltas = [event for event in events if event["type"] == "transcript.text.delta"]
    segments = [event for event in events if event["type"] == "transcript.text.segment"]
    is_stream([*deltas, events[-1]])
    assert [segment["id"] for segment in segments] == ["0", "1"]
    assert "".join(segment["text"] for segment in segments).strip() == TEXT
    times = [segment[edge] for segment in segments for edge in ("start", "end")]
    assert times == sorted(times)
    assert {segment["speaker"] for segment in segments} == {""}
    assert not any("words" in segment for segment in segments)
    told = {key: events[-1][key] for key in ("task", "language", "duration")}
    assert told == {"task": "transcribe", "language": "german", "duration": AUDIO_S}


def is_stream_of_words(events: list[dict[str, Any]]) -> None:
    segments = [event for event in events if event["type"] == "transcript.text.segment"]
    _has_words({"words": [word for segment in segments for word in segment["words"]]})


def is_english(answer: dict[str, Any]) -> None:
    assert answer["task"] == "translate"
    assert answer["language"] == "english"
    assert answer["text"] == TEXT
    assert answer["duration"] == AUDIO_S


def is_translation(answer: dict[str, Any]) -> None:
    assert answer["text"] == TEXT


def _is_verbose(answer: dict[str, Any]) -> None:
    assert answer["task"] == "transcribe"
    assert answer["language"] == "german"
    assert answer["duration"] == AUDIO_S
    assert answer["text"] == TEXT
    assert answer["usage"] == {"type": "duration", "seconds": AUDIO_S}


def _has_words(answer: dict[str, Any]) -> None:
    words = answer["words"]
    assert " ".join(word["word"] for word in words) == TEXT
    times = [word[edge] for word in words for edge in ("start", "end")]
    assert times == sorted(times)
    assert times[-1] <= AUDIO_S


def _invalid(param: str) -> Refusal:
    return Refusal(400, "invalid_value", param)


VAD = {"type": "server_vad", "threshold": 0.000001, "prefix_padding_ms": 100, "silence_duration_ms": 5000}
"""Takes everything for speech, so that the words are the same."""

CASES = (
    Case("`file`, `model`", {}, "the text, its language, the seconds", is_json),
    Case("`model`", {"model": "fake"}, "by the served name as by `whisper-1`", is_json),
    Case(
        "`model`", {"model": "gpt-4o-mini-transcribe"}, "by the names that OpenAI's clients ask for", is_json
    ),
    Case("`model`", {"model": "none"}, "404 `model_not_found`", Refusal(404, "model_not_found", "model")),
    Case(
        "`file`",
        {},
        "400 `invalid_audio` with the reason",
        Refusal(400, "invalid_audio", "file"),
        audio="garbage",
    ),
    Case("`language`", {"language": "de"}, "heard in it", is_json),
    Case("`language`", {"language": "GERMAN"}, "by its English name, in any case", is_json),
    Case("`language`", {"language": "tlh"}, "400 naming it", _invalid("language")),
    Case("`languages`", {"languages": ["de", "fr"]}, "the candidate that is spoken", is_json),
    Case("`languages`", {"languages": ["de", "tlh"]}, "400 naming it", _invalid("languages")),
    Case(
        "`prompt`", {"prompt": "<|endoftext|> Stentor, " * 100}, "of any length; not in the answer", is_json
    ),
    Case("`keywords`", {"keywords": ["Stentor", "Juno"]}, "the words are likelier", is_json),
    Case("`temperature`", {"temperature": 0.4}, "used as it is", is_json),
    Case("`temperature`", {"temperature": 1.5}, "400 naming it", _invalid("temperature")),
    Case("`response_format`", {"response_format": "json"}, "an object", is_json),
    Case("`response_format`", {"response_format": "text"}, "a plain body", is_text),
    Case("`response_format`", {"response_format": "srt"}, "a plain body", is_srt),
    Case("`response_format`", {"response_format": "vtt"}, "a plain body", is_vtt),
    Case("`response_format`", {"response_format": "verbose_json"}, "segments with every field", has_segments),
    Case(
        "`response_format`",
        {"response_format": "diarized_json"},
        "400 naming it",
        _invalid("response_format"),
    ),
    Case("`response_format`", {"response_format": "yaml"}, "400 naming it", _invalid("response_format")),
    Case(
        "`timestamp_granularities`",
        {"response_format": "verbose_json", "timestamp_granularities": ["segment"]},
        "segments",
        has_segments,
    ),
    Case(
        "`timestamp_granularities`",
        {"response_format": "verbose_json", "timestamp_granularities": ["word"]},
        "words, in order, in the file's time",
        has_words,
    ),
    Case(
        "`timestamp_granularities`",
        {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]},
        "both",
        has_segments_and_words,
    ),
    Case(
        "`timestamp_granularities`",
        {"response_format": "json", "timestamp_granularities": ["word"]},
        "400 naming it",
        _invalid("timestamp_granularities"),
    ),
    Case("`include`", {"include": ["logprobs"]}, "tokens with bytes and log-probabilities", has_logprobs),
    Case(
        "`include`",
        {"include": ["logprobs"], "response_format": "verbose_json"},
        "400 naming it",
        _invalid("include"),
    ),
    Case("`chunking_strategy`", {"chunking_strategy": "auto"}, "noise is left out", is_nothing),
    Case("`chunking_strategy`", {"chunking_strategy": VAD}, "with its parameters, as an object", is_json),
    Case(
        "`chunking_strategy`",
        {"chunking_strategy": {"type": "client_vad"}},
        "400 naming it",
        _invalid("chunking_strategy"),
    ),
    Case(
        "`known_speaker_names`",
        {"known_speaker_names": ["Ann"]},
        "400 naming it",
        _invalid("known_speaker_names"),
    ),
    Case("`stream`", {"stream": True}, "deltas, one done, `[DONE]`", is_stream),
    Case("`stream`", {"stream": True, "response_format": "text"}, "the same", is_stream),
    Case(
        "`stream`",
        {"stream": True, "include": ["logprobs"]},
        "with log-probabilities",
        is_stream_with_logprobs,
    ),
    Case("`stream`", {"stream": False}, "an object", is_json),
    Case("`stream`", {"stream": True, "response_format": "srt"}, "400 naming it", _invalid("stream")),
    Case(
        "`stream`",
        {"stream": True, "response_format": "verbose_json"},
        "a segment with its times after the delta that has its text",
        is_timed_stream,
    ),
    Case(
        "`stream`",
        {"stream": True, "response_format": "verbose_json", "timestamp_granularities": ["word"]},
        "and its words",
        is_stream_of_words,
    ),
    Case("any other", {}, "400 naming it", _invalid("speed"), own={"speed": "2"}),
    Case(
        "`max_line_width`, `max_line_count`",
        {"response_format": "srt"},
        "cues no larger than that",
        is_narrow_srt,
        own={"max_line_width": 5, "max_line_count": 2},
    ),
    Case("`response_format`", {"response_format": "json"}, "an object", is_translation, "translations"),
    Case("`response_format`", {"response_format": "text"}, "a plain body", is_text, "translations"),
    Case("`response_format`", {"response_format": "srt"}, "a plain body", is_srt, "translations"),
    Case("`response_format`", {"response_format": "vtt"}, "a plain body", is_vtt, "translations"),
    Case(
        "`response_format`",
        {"response_format": "verbose_json"},
        "language is English",
        is_english,
        "translations",
    ),
    Case(
        "`prompt`, `temperature`",
        {"prompt": "Hello.", "temperature": 0.2},
        "as above",
        is_translation,
        "translations",
    ),
    Case("`stream`", {}, "as above", is_stream, "translations", own={"stream": "true"}),
)
