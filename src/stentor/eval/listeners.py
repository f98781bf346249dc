"""What makes transcripts: this program's road, a server of any make, or faster-whisper for comparison."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import av
import httpx

from stentor.audio.limits import ANY_LENGTH
from stentor.audio.vad import VadOptions
from stentor.bench.calls import TRANSCRIPTIONS_PATH
from stentor.bench.load import client_of
from stentor.bench.manifest import Utterance
from stentor.bench.peers import PeerModel, PeerSegment
from stentor.engine.base import Engine
from stentor.errors import InvalidValue, StentorError
from stentor.eval.alignment import Spoken
from stentor.eval.judge import Heard
from stentor.preprocess import PreprocessPool
from stentor.transcriber import AudioRequest, Transcriber
from stentor.types import DecodeOptions, Segment
from stentor.whisper.languages import language_code

TIMEOUT_S = 3600.0
"""For a server's answer: an hour of audio on a slow machine."""


class ListenerError(Exception):
    """A file was not transcribed; the message says why."""


class Listener(Protocol):
    """Something that transcribes, up to `at_once` files at a time."""

    at_once: int

    async def hear(self, utterance: Utterance) -> Heard:
        """Transcribe a file. Raises ListenerError."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """How to listen: whether the language is told, words are timed, and what is not speech left out.

    `condition` gives each chunk what was said before it, `code_switching` a language of its own: only here
    and on a Stentor's server.
    """

    tell_language: bool = True
    words: bool = False
    vad: bool = False
    condition: bool = False
    code_switching: bool = False
    options: DecodeOptions = field(default_factory=DecodeOptions)

    def language_of(self, utterance: Utterance) -> str | None:
        return language_code(utterance.language) if self.tell_language and utterance.language else None


class Here:
    """The road in this program.

    Args:
        engine: Hears the chunks; closed with the listener.
        ask: How to listen.
        workers: Preprocessing threads.
    """

    def __init__(self, engine: Engine, ask: Ask, *, workers: int) -> None:
        self.at_once = 2 * engine.info.slots
        self._ask = ask
        self._engine = engine
        self._pool = PreprocessPool(workers)
        self._transcriber = Transcriber(engine, self._pool, ANY_LENGTH)

    async def hear(self, utterance: Utterance) -> Heard:
        options = replace(self._ask.options, language=self._ask.language_of(utterance), words=self._ask.words)
        fd = os.open(utterance.path, os.O_RDONLY)
        try:
            request = AudioRequest(
                str(utterance.path),
                fd,
                options,
                vad=VadOptions() if self._ask.vad else None,
                condition=self._ask.condition,
                code_switching=self._ask.code_switching,
            )
            transcript = await self._transcriber.transcribe(request)
        except StentorError as error:
            raise ListenerError(error.message) from error
        finally:
            os.close(fd)
        words = _words(transcript.segments) if self._ask.words else _pieces(transcript.segments)
        return Heard(transcript.text, transcript.language, words, self._ask.words)

    async def close(self) -> None:
        await self._engine.close()
        self._pool.close()


class Server:
    """Any server that speaks OpenAI's verbose_json.

    Args:
        url: Where it is.
        model: Its name there.
        ask: How to listen.
        api_key: Sent as a bearer token.
        at_once: Requests in flight.
    """

    def __init__(
        self, url: str, model: str, ask: Ask, *, api_key: str | None = None, at_once: int = 8
    ) -> None:
        self.at_once = at_once
        self._model = model
        self._ask = ask
        self._client = client_of(url, api_key, connections=at_once, timeout_s=TIMEOUT_S)

    async def hear(self, utterance: Utterance) -> Heard:
        granularities = ["segment", "word"] if self._ask.words else ["segment"]
        fields: dict[str, Any] = {
            "model": self._model,
            "response_format": "verbose_json",
            "timestamp_granularities[]": granularities,
        }
        if language := self._ask.language_of(utterance):
            fields["language"] = language
        if self._ask.options.prompt:
            fields["prompt"] = self._ask.options.prompt
        if self._ask.options.keywords:
            fields["keywords[]"] = self._ask.options.keywords
        if self._ask.vad:
            fields["chunking_strategy"] = "auto"
        if self._ask.condition:
            fields["condition"] = "true"
        if self._ask.code_switching:
            fields["code_switching"] = "true"
        with utterance.path.open("rb") as audio:
            try:
                response = await self._client.post(
                    TRANSCRIPTIONS_PATH, data=fields, files={"file": (utterance.path.name, audio)}
                )
                body = response.raise_for_status().json()
            except httpx.HTTPStatusError as error:
                raise ListenerError(f"{error.response.status_code}: {error.response.text[:200]}") from error
            except (httpx.HTTPError, ValueError) as error:
                raise ListenerError(f"{type(error).__name__}: {error}") from error
        return self._read(body)

    def _read(self, body: Any) -> Heard:
        try:
            timed = self._ask.words and bool(body.get("words"))
            words = (
                tuple(Spoken(word["word"], word["start"], word["end"]) for word in body["words"])
                if timed
                else spread(
                    Spoken(segment["text"], segment["start"], segment["end"])
                    for segment in body.get("segments") or ()
                )
            )
            return Heard(body["text"], _code(body.get("language")), words, timed)
        except (KeyError, TypeError, AttributeError) as error:
            raise ListenerError(f"the answer is no verbose_json: {error!r}") from error

    async def close(self) -> None:
        await self._client.aclose()


class Peer:
    """faster-whisper's plain WhisperModel, one file after the other.

    Args:
        model: Loaded.
        ask: How to listen.
        beam_size: As its `transcribe` takes it.
    """

    at_once = 1

    def __init__(self, model: PeerModel, ask: Ask, *, beam_size: int = 5) -> None:
        self._model = model
        self._ask = ask
        self._beam_size = beam_size

    async def hear(self, utterance: Utterance) -> Heard:
        return await asyncio.to_thread(self._hear, utterance)

    def _hear(self, utterance: Utterance) -> Heard:
        try:
            segments, info = self._model.transcribe(
                str(utterance.path),
                language=self._ask.language_of(utterance),
                beam_size=self._beam_size,
                vad_filter=self._ask.vad,
                word_timestamps=self._ask.words,
                initial_prompt=self._ask.options.prompt,
                hotwords=", ".join(self._ask.options.keywords) or None,
            )
            found = list(segments)  # the work is done in this loop
        except (av.FFmpegError, RuntimeError, ValueError, IndexError) as error:
            raise ListenerError(f"{type(error).__name__}: {error}") from error
        text = "".join(segment.text for segment in found).strip()
        return Heard(text, info.language, self._words(found), self._ask.words)

    def _words(self, segments: Sequence[PeerSegment]) -> tuple[Spoken, ...]:
        if not self._ask.words:
            return spread(Spoken(segment.text, segment.start, segment.end) for segment in segments)
        return tuple(
            Spoken(word.word, word.start, word.end) for segment in segments for word in segment.words or ()
        )

    async def close(self) -> None:
        pass


def spread(segments: Iterable[Spoken]) -> tuple[Spoken, ...]:
    """Words with guessed times: each takes as much of its segment as it has of the letters."""
    return tuple(word for segment in segments for word in _spread(segment))


def _spread(segment: Spoken) -> Iterator[Spoken]:
    words = segment.text.split()
    letter_s = (segment.end_s - segment.start_s) / max(1, sum(map(len, words)))
    at_s = segment.start_s
    for word in words:
        yield Spoken(word, at_s, at_s + len(word) * letter_s)
        at_s += len(word) * letter_s


def _words(segments: Iterable[Segment]) -> tuple[Spoken, ...]:
    return tuple(
        Spoken(word.text, word.start_s, word.end_s) for segment in segments for word in segment.words
    )


def _pieces(segments: Iterable[Segment]) -> tuple[Spoken, ...]:
    return spread(Spoken(segment.text, segment.start_s, segment.end_s) for segment in segments)


def _code(language: object) -> str | None:
    """A server's name for a language, as a code; None for what is no language."""
    try:
        return language_code(language) if isinstance(language, str) else None
    except InvalidValue:
        return None
