"""What an engine is: five verbs. Tokens, prompts and batches are its own affair."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Protocol

from stentor.types import EngineOutput, EngineRequest, LanguageGuess


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine is for as long as it lives.

    `languages` are the codes its model knows; `slots` how many chunks it advances at once, by which the
    road sizes a request's window. Without `words` it does not know when a word is spoken: asked for words, it
    spreads them over their segment or gives none, which will do for laying two texts beside each other, and
    for no caller. `digest` is the SHA-256 of its weights; "" where the runtime reads them by itself.
    """

    engine: str
    model: str
    languages: tuple[str, ...]
    slots: int
    translates: bool
    words: bool = True
    logprobs: bool = True
    digest: str = ""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """How an engine is now. `reason` says why it is dead."""

    alive: bool
    running: int
    queued: int
    reason: str | None = None


class Engine(Protocol):
    """Audio chunks in, text with times out.

    An engine batches or queues across requests and is fair between their `request_id`s. It belongs to one
    event loop.
    """

    @property
    def info(self) -> EngineInfo: ...

    def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe one chunk; yields segments as they become final. Whoever iterates closes it.

        There is an output at least, and the last one reaches to the chunk's end.

        Raises:
            EngineAborted: Somebody aborted `request.id`.
            EngineError: The engine is dead or has died over it.
        """
        ...

    async def detect_language(self, request: EngineRequest) -> LanguageGuess:
        """Say which language the chunk is in; an engine keeps what it computed for the chunk's `generate`.

        Raises:
            EngineAborted: Somebody aborted `request.id`.
            EngineError: The engine is dead or has died over it.
        """
        ...

    async def abort(self, request_ids: Collection[str]) -> None:
        """Stop these engine requests: the queued never start, the running end at their next step.

        Idempotent, bounded in time, silent on unknown ids.
        """
        ...

    def health(self) -> EngineHealth:
        """Answer from memory, at once."""
        ...

    async def close(self) -> None:
        """Abort everything and free all threads. Idempotent."""
        ...
