"""What goes over the wire between a server and an engine's replicas."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.types import (
    SAMPLE_RATE,
    Chunk,
    DecodeOptions,
    EngineOutput,
    EngineReport,
    EngineRequest,
    LanguageGuess,
    Segment,
)

Verb: TypeAlias = Literal["generate", "detect_language"]
"""What is called on a replica: methods of `EngineReplica`."""


class ReplicaLost(Exception):
    """The replica that had a call is gone, or none took it: the call may be made again."""


@dataclass(frozen=True, slots=True)
class Call:
    """An engine request as it travels. Its samples go through the object store, not through a pipe.

    `id` and `request_id` are the server's own with its name before them, as the caller chooses parts of them
    and two servers may be given the same. `key` names the chunk, which loses its identity on the way, from
    its probe to its `generate`. `listen` says that somebody else than the model may be asked for speech.
    """

    id: str
    request_id: str
    chunk: Chunk
    options: DecodeOptions
    key: str
    listen: bool

    @classmethod
    def of(cls, request: EngineRequest, server: str, key: str, heard_samples: int) -> Call:
        """What is left of an engine request when so much of its chunk has been heard."""
        chunk = request.chunk
        if heard_samples:
            start_samples = chunk.start_samples + heard_samples
            chunk = Chunk(chunk.index, start_samples, chunk.samples[heard_samples:], chunk.last)
        listen = request.speech_s is not None
        return cls(
            f"{server}/{request.id}", f"{server}/{request.request_id}", chunk, request.options, key, listen
        )


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """How a replica is."""

    replica_id: str
    info: EngineInfo
    health: EngineHealth


@dataclass(frozen=True, slots=True)
class News:
    """What a replica tells of a call: first that it has it, then outputs or the guess, last that it ended.

    `report` is the engine's so far.
    """

    state: ReplicaState
    report: EngineReport
    output: EngineOutput | None = None
    guess: LanguageGuess | None = None


class Stream(Protocol):
    """The news of one call."""

    def __anext__(self) -> Awaitable[News]:
        """The next one, at once or when there is one.

        Raises:
            StopAsyncIteration: The call has ended well.
            ReplicaLost: The replica is gone, or its engine is dead.
            EngineAborted: Somebody aborted the call there.
        """
        ...

    def cancel(self) -> None:
        """Let the replica stop, wherever the call is. Idempotent, silent after the end, does not wait."""
        ...


class Replicas(Protocol):
    """An engine's replicas, as a server sees them."""

    def call(self, verb: Verb, call: Call, replica_id: str | None) -> Stream:
        """Call a replica: the one named if it is there, else any."""
        ...

    async def survey(
        self, server: str, waiting_audio_s: float, aborted: Collection[str]
    ) -> Sequence[ReplicaState]:
        """Ask all replicas how they are; those that are gone do not answer.

        Args:
            server: Who asks.
            waiting_audio_s: Audio that waits there.
            aborted: Calls to abort on the way.

        Raises:
            ReplicaLost: It took too long.
        """
        ...


def later(output: EngineOutput, heard_samples: int) -> EngineOutput:
    """The output for the rest of a chunk in the timeline of the whole."""
    if not heard_samples:
        return output
    return EngineOutput(
        tuple(_later(segment, heard_samples) for segment in output.segments),
        _moved(output.end_s, heard_samples),
    )


def _later(segment: Segment, samples: int) -> Segment:
    words = [
        replace(word, start_s=_moved(word.start_s, samples), end_s=_moved(word.end_s, samples))
        for word in segment.words
    ]
    start_s, end_s = _moved(segment.start_s, samples), _moved(segment.end_s, samples)
    return replace(segment, start_s=start_s, end_s=end_s, words=tuple(words))


def _moved(time_s: float, samples: int) -> float:
    """To the sample, so that the end of a rest is the end of its chunk and not a rounding error behind it."""
    return (round(time_s * SAMPLE_RATE) + samples) / SAMPLE_RATE
