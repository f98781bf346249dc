"""The nouns that every room shares: frozen, typed, without behaviour beyond arithmetic on themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
"""Hz. Every sample inside Stentor is 16 kHz mono float32, the rate Whisper was trained on."""

MAX_CHUNK_S = 30
"""Seconds an engine sees at once. Source: openai/whisper audio.py, CHUNK_LENGTH."""

SEAM_S = 0.3
"""Seconds of pause that stay on either side of a place where silence was left out of a chunk."""

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
    out, `pieces` tell what the chunk was put together from, in order, the first at its beginning. Where no
    quiet place was found to cut, the chunk before ends with the first `before_samples` of this one, and the
    next one begins with the last `after_samples`.
    """

    index: int
    start_samples: int
    samples: Samples
    last: bool = False
    pieces: tuple[Piece, ...] = ()
    before_samples: int = 0
    after_samples: int = 0

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
        there began after it; so it is within `SEAM_S` of the place, as an engine may put either anywhere
        into the pause that it hears.
        """
        if not self.pieces:
            return self.start_s + chunk_s
        at, slack = round(chunk_s * SAMPLE_RATE), round(SEAM_S * SAMPLE_RATE)
        piece = self.pieces[0]
        for following in self.pieces[1:]:
            seam = following.chunk_samples
            if ending and at <= seam + slack:
                at = min(at, seam)
                break
            if not ending and at < seam - slack:
                break
            piece = following
        return (max(at, piece.chunk_samples) - piece.chunk_samples + piece.file_samples) / SAMPLE_RATE

    def file_span(self, start_s: float, end_s: float) -> tuple[float, float]:
        """A span of the chunk as a span of the file."""
        start, end = self.file_s(start_s), self.file_s(end_s, ending=True)
        # What lies wholly in the pause at a seam would begin after it and end before it.
        return start, end if end >= start else start + (end_s - start_s)


@dataclass(frozen=True, slots=True)
class Word:
    """A word, when it is spoken, and how many of its segment's tokens it is made of."""

    text: str
    start_s: float
    end_s: float
    probability: float
    n_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token as the bytes it stands for, which need not be whole characters, and its log-probability."""

    text: bytes
    logprob: float


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
    logprobs: tuple[TokenLogprob, ...] = ()

    def placed(self, chunk: Chunk) -> Segment:
        """The same segment in the timeline of the file that its chunk is from."""
        start_s, end_s = chunk.file_span(self.start_s, self.end_s)
        words = []
        for word in self.words:
            word_start_s, word_end_s = chunk.file_span(word.start_s, word.end_s)
            words.append(replace(word, start_s=word_start_s, end_s=word_end_s))
        return replace(self, start_s=start_s, end_s=end_s, words=tuple(words))


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How an engine shall listen.

    `language` is a code; None means not known yet, and then `languages` are the only candidates, or all that
    the model knows where there are none. `keywords` are words that are likely to come up. `previous` is what
    was said before the chunk, where that is known: each segment in the timeline of its own chunk. At a
    `temperature` of 0 the likeliest words are taken, and where they do not convince, the window is heard
    again at rising temperatures. `words` asks for the words of each segment with their times, `logprobs` for
    the log-probability of each token.
    """

    language: str | None = None
    task: Task = "transcribe"
    prompt: str | None = None
    temperature: float = 0.0
    languages: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    previous: tuple[Segment, ...] = ()
    words: bool = False
    logprobs: bool = False


@dataclass(slots=True)
class EngineReport:
    """What an engine tells about its work on a chunk, beside the text.

    Attributes:
        queued_s: Wall time spent waiting for slots.
        computed_s: Wall time in which it held them.
        fallbacks: Why windows were heard again at a higher temperature, once for each time; a closed list
            of words, as they become a label of a metric.
    """

    queued_s: float = 0.0
    computed_s: float = 0.0
    fallbacks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class EngineRequest:
    """One chunk on its way through an engine.

    `id` is what `abort` takes; `request_id` names the call it belongs to, between which an engine is fair;
    `report` is filled in by the engine as it goes, and `options` with what it has heard of the chunk so far,
    as said before the rest. `speech_s` asks how many seconds of speech somebody else than the model hears
    from so many seconds of the chunk on; None where nobody listens.
    """

    id: str
    request_id: str
    chunk: Chunk
    options: DecodeOptions
    report: EngineReport = field(default_factory=EngineReport)
    speech_s: Callable[[float], Awaitable[float]] | None = None


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """Segments that have become final, in the chunk's own timeline, since the output before.

    `end_s` is how far into the chunk nothing changes any more: its duration, in the last output.
    """

    segments: tuple[Segment, ...]
    end_s: float


@dataclass(frozen=True, slots=True)
class LanguageGuess:
    """What a language probe heard: a code and its probability in [0, 1]."""

    language: str
    probability: float


@dataclass(frozen=True, slots=True)
class Part:
    """The next piece of a transcript in file order: what became final, in the file's own timeline.

    `end_s` is how far into the audio the transcript has come, also where nothing was said.
    """

    segments: tuple[Segment, ...]
    end_s: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The whole answer. `text` is the segments' texts joined, without outer white space.

    `language` is the one that most was said in, `languages` are all that something was said in, by how much.
    """

    text: str
    language: str
    duration_s: float
    task: Task
    segments: tuple[Segment, ...]
    languages: tuple[str, ...] = ()
