"""The nouns that every room shares: frozen, typed, without behaviour beyond arithmetic on themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
"""Hz. Every sample inside Stentor is 16 kHz mono float32, the rate Whisper was trained on."""

MAX_CHUNK_S = 30
"""Seconds an engine sees at once. Source: openai/whisper audio.py, CHUNK_LENGTH."""

Samples: TypeAlias = NDArray[np.float32]
"""float32 (n_samples,), mono, 16 kHz, nominally [-1, 1], always finite."""

Task: TypeAlias = Literal["transcribe", "translate"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a chunk that was also one stretch in the file: where it begins in each."""

    chunk_samples: int
    file_samples: int


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Chunk:
    """What an engine sees at once: at most `MAX_CHUNK_S` of audio and its place in the file.

    Compared and hashed by identity, so that an engine may key what it computed for a chunk on the
    chunk itself and lose it when the chunk goes. `last` says that nothing follows. Where silence was left
    out, `pieces` tell what the chunk was put together from, in order, the first at its beginning.
    """

    index: int
    start_samples: int
    samples: Samples
    last: bool = False
    pieces: tuple[Piece, ...] = ()

    @property
    def start_s(self) -> float:
        """Where the chunk begins in the file's own timeline."""
        return self.start_samples / SAMPLE_RATE

    @property
    def duration_s(self) -> float:
        return len(self.samples) / SAMPLE_RATE

    @property
    def end_s(self) -> float:
        """Where the chunk ends in the file's own timeline."""
        return self.file_s(self.duration_s, ending=True)

    def file_s(self, chunk_s: float, *, ending: bool = False) -> float:
        """A time in the chunk as a time in the file.

        Where two pieces meet, what ends there ended before the silence that was left out, and what begins
        there began after it.
        """
        if not self.pieces:
            return self.start_s + chunk_s
        at = round(chunk_s * SAMPLE_RATE)
        piece = self.pieces[0]
        for following in self.pieces[1:]:
            if following.chunk_samples > at or (ending and following.chunk_samples == at):
                break
            piece = following
        return chunk_s + (piece.file_samples - piece.chunk_samples) / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Word:
    """A word and when it is spoken."""

    text: str
    start_s: float
    end_s: float
    probability: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of text with its times and what the model thought of it.

    `text` keeps the leading space that Whisper's tokens carry, so that segments joined with nothing
    between them are the transcript. Times count from the chunk's start when an engine made the segment,
    from the file's start in a `Transcript`.
    """

    text: str
    start_s: float
    end_s: float
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 1.0
    no_speech_prob: float = 0.0
    words: tuple[Word, ...] = ()

    def placed(self, chunk: Chunk) -> Segment:
        """The same segment in the timeline of the file that its chunk is from."""
        words = tuple(
            replace(
                word,
                start_s=chunk.file_s(word.start_s),
                end_s=chunk.file_s(word.end_s, ending=True),
            )
            for word in self.words
        )
        return replace(
            self,
            start_s=chunk.file_s(self.start_s),
            end_s=chunk.file_s(self.end_s, ending=True),
            words=words,
        )


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How an engine shall listen. `language` is a code; None means not known yet."""

    language: str | None = None
    task: Task = "transcribe"
    prompt: str | None = None
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One chunk on its way through an engine.

    `id` is what `abort` takes; `request_id` names the call it belongs to, between which an engine is fair.
    """

    id: str
    request_id: str
    chunk: Chunk
    options: DecodeOptions


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """Segments that have become final, in the chunk's own timeline, since the output before."""

    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class LanguageGuess:
    """What a language probe heard: a code and its probability in [0, 1]."""

    language: str
    probability: float


@dataclass(frozen=True, slots=True)
class Part:
    """The next piece of a transcript in file order: what one chunk said, in the file's own timeline.

    `end_s` is how far into the audio the transcript has come, also where nothing was said.
    """

    segments: tuple[Segment, ...]
    end_s: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The whole answer. `text` is the segments' texts joined, without outer white space."""

    text: str
    language: str
    duration_s: float
    task: Task
    segments: tuple[Segment, ...]
