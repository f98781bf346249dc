"""The fields of a transcription request: what each may be, and a refusal by name of what we cannot honour."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stentor.api.wire import ResponseFormat
from stentor.audio.vad import VadOptions
from stentor.errors import InvalidValue
from stentor.text.cues import MIN_LIMIT_S, NO_LIMITS, CueLimits
from stentor.types import DecodeOptions, Task
from stentor.whisper.languages import language_code

LIST_FIELDS = frozenset({"timestamp_granularities", "include", "languages", "keywords"})
"""Fields that may come more than once. OpenAI's client adds brackets to their names; people often do not."""

CUE_FIELDS = ("max_line_width", "max_line_count", "max_cue_s")
"""Fields of our own: how large a cue may be."""

DIARISATION_FIELDS = frozenset({"known_speaker_names", "known_speaker_references"})
"""OpenAI's fields about who speaks."""

NO_DIARISATION = "this server does not tell speakers apart"


class ServerVad(BaseModel):
    """`chunking_strategy` as an object: what counts as speech and as a pause."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["server_vad"]
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Field(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[int, Field(ge=100, le=10_000)] = 500


class TranscriptionForm(BaseModel):
    """The fields of both endpoints besides `file`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[str | None, Field(description="A served model's name; the only one by default.")] = None
    language: Annotated[
        str | None, Field(description="ISO-639-1 code or English name; detected when absent.")
    ] = None
    languages: Annotated[
        tuple[str, ...], Field(description="Candidates, of which the one that is spoken is chosen.")
    ] = ()
    prompt: Annotated[str | None, Field(description="Text before the audio: style, names, spelling.")] = None
    keywords: Annotated[tuple[str, ...], Field(description="Words that are likely to come up.")] = ()
    response_format: ResponseFormat = ResponseFormat.JSON
    temperature: Annotated[
        float,
        Field(
            ge=0, le=1, description="0 takes the likeliest words, and more chance where they do not convince."
        ),
    ] = 0.0
    timestamp_granularities: Annotated[
        tuple[Literal["word", "segment"], ...],
        Field(description="With verbose_json only: what has times in it; segments by default."),
    ] = ()
    include: Annotated[
        tuple[Literal["logprobs"], ...],
        Field(description="With json only: logprobs for the log-probability of each token."),
    ] = ()
    chunking_strategy: Annotated[
        Literal["auto"] | ServerVad | None,
        Field(description="auto, or server_vad with its parameters: leave out what is not speech."),
    ] = None
    condition: Annotated[
        bool,
        Field(description="Hear the audio in order, each chunk with what was said before it: slower."),
    ] = False
    code_switching: Annotated[
        bool, Field(description="Detect the language of each chunk, not one for the whole audio.")
    ] = False
    max_line_width: Annotated[
        int | None, Field(ge=1, description="With srt or vtt only: columns in a line; 42 by convention.")
    ] = None
    max_line_count: Annotated[
        int | None, Field(ge=1, description="With max_line_width only: lines in a cue; 2 by convention.")
    ] = None
    max_cue_s: Annotated[
        float | None,
        Field(
            ge=MIN_LIMIT_S,
            allow_inf_nan=False,
            description="With srt or vtt only: seconds that a cue is shown; 7 by convention.",
        ),
    ] = None
    stream: Annotated[
        bool, Field(description="Send the text as server-sent events while it becomes final.")
    ] = False

    @field_validator("language")
    @classmethod
    def _language(cls, value: str | None) -> str | None:
        return language_code(value) if value and value.strip() else None

    @field_validator("languages")
    @classmethod
    def _languages(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(language_code(value, param="languages") for value in values))

    @field_validator("response_format", mode="before")
    @classmethod
    def _no_diarisation(cls, value: object) -> object:
        if value == "diarized_json":
            raise InvalidValue(f"{NO_DIARISATION}; verbose_json has times", param="response_format")
        return value

    @model_validator(mode="after")
    def _one_way_to_say_the_language(self) -> TranscriptionForm:
        if self.language and self.languages:
            raise InvalidValue("give either language or languages, its candidates", param="languages")
        return self

    @model_validator(mode="after")
    def _logprobs_need_json(self) -> TranscriptionForm:
        if self.include and self.response_format is not ResponseFormat.JSON:
            raise InvalidValue("include=logprobs needs response_format=json", param="include")
        return self

    @model_validator(mode="after")
    def _streams_are_no_subtitles(self) -> TranscriptionForm:
        if self.stream and self.response_format.has_cues:
            raise InvalidValue(
                f"stream goes with json, text or verbose_json, not {self.response_format}", param="stream"
            )
        return self

    @model_validator(mode="after")
    def _granularities_need_verbose_json(self) -> TranscriptionForm:
        if self.timestamp_granularities and self.response_format is not ResponseFormat.VERBOSE_JSON:
            raise InvalidValue(
                "timestamp_granularities needs response_format=verbose_json", param="timestamp_granularities"
            )
        return self

    @model_validator(mode="after")
    def _limits_need_cues(self) -> TranscriptionForm:
        if self.cue_limits != NO_LIMITS and not self.response_format.has_cues:
            given = next(name for name in CUE_FIELDS if getattr(self, name) is not None)
            raise InvalidValue(f"{given} needs response_format=srt or vtt", param=given)
        return self

    @field_validator("chunking_strategy", mode="before")
    @classmethod
    def _json_object(cls, value: object) -> object:
        if isinstance(value, str) and value.lstrip().startswith("{"):
            return json.loads(value)
        return value

    @property
    def cue_limits(self) -> CueLimits:
        """How large a cue may be."""
        return CueLimits(self.max_line_width, self.max_line_count, self.max_cue_s)

    @property
    def vad(self) -> VadOptions | None:
        """What voice activity detection is asked for."""
        strategy = self.chunking_strategy
        if strategy is None:
            return None
        if strategy == "auto":
            return VadOptions()
        return VadOptions(strategy.threshold, strategy.prefix_padding_ms, strategy.silence_duration_ms)

    def options(self, task: Task) -> DecodeOptions:
        """How the engine shall listen."""
        return DecodeOptions(
            language=self.language,
            task=task,
            prompt=self.prompt,
            temperature=self.temperature,
            languages=self.languages,
            keywords=self.keywords,
            words="word" in self.timestamp_granularities or self.cue_limits != NO_LIMITS,
            logprobs="logprobs" in self.include,
        )


def parse_form(fields: Iterable[tuple[str, str]]) -> TranscriptionForm:
    """Read a form's fields.

    Raises:
        InvalidValue: A field is unknown, comes twice, or has a value we cannot honour; `param` names it.
    """
    values: dict[str, str | list[str] | dict[str, str]] = {}
    for raw_name, value in fields:
        name, _, key = raw_name.partition("[")
        if name in DIARISATION_FIELDS:
            raise InvalidValue(NO_DIARISATION, param=name)
        known = values.get(name)
        if key == "]" or (name in LIST_FIELDS and not key):  # include[]=…, and include=… as people write it
            values[name] = [*known, value] if isinstance(known, list) else [value]
        elif key.endswith("]"):  # chunking_strategy[type]=…, as OpenAI's client writes an object
            values[name] = {**known, key[:-1]: value} if isinstance(known, dict) else {key[:-1]: value}
        elif known is not None:
            raise InvalidValue(f"the field {name} comes more than once", param=name)
        else:
            values[name] = value
    try:
        return TranscriptionForm.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        param = str(first["loc"][0]) if first["loc"] else None
        if first["type"] == "extra_forbidden":
            known = ", ".join(["file", *TranscriptionForm.model_fields])
            raise InvalidValue(f"unknown field {param!r}; known are {known}", param=param) from error
        raise InvalidValue(f"{param}: {first['msg']}", param=param) from error
