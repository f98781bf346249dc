"""What passes between the engine and vLLM: what is asked in one pass of a model, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from stentor.engine.scheduler import Ticket
from stentor.types import DecodeOptions, EngineOutput, LanguageGuess, Samples


@dataclass(frozen=True, slots=True)
class Ask:
    """One pass.

    Attributes:
        prompt: What `Runtime.render` made, with the tokens to begin with.
        max_tokens: How many may be written.
        temperature: 0 takes the likeliest.
        seed: Of the draws at a temperature.
        logprobs_of: Tokens whose log-probabilities are told at each step, beside that of the one chosen.
        prompt_logprobs: How many of the likeliest tokens are told at each place of the prompt; None for none.
        timestamps: Whether the timestamp grammar holds.
        words_before: Of that grammar; see `timestamps.room`.
    """

    prompt: Any
    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    logprobs_of: Sequence[int] = ()
    prompt_logprobs: int | None = None
    timestamps: bool = False
    words_before: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a pass came to.

    `logprobs` has, for each token, its log-probability and those asked for; `prompt_logprobs` the same for
    each token of the prompt, empty for the first. They are the model's, without grammar and temperature.
    """

    tokens: Sequence[int]
    text: str
    logprobs: Sequence[Mapping[int, float]]
    prompt_logprobs: Sequence[Mapping[int, float]] = ()
    aborted: bool = False


Asked: TypeAlias = Callable[[Ticket, Callable[[], Awaitable[Ask]]], Awaitable[Answer]]
"""Waits for a slot, prepares what is asked, and asks it."""


class Ear(Protocol):
    """How chunks are heard with one family of models."""

    @property
    def languages(self) -> tuple[str, ...]: ...

    def hear(self, ticket: Ticket) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe a chunk; see `Engine.generate`."""
        ...

    async def language(self, ticket: Ticket) -> LanguageGuess:
        """Say which language a chunk is in."""
        ...


class SpeechModel(Protocol):
    """A model that vLLM knows how to ask for a transcript."""

    @property
    def languages(self) -> tuple[str, ...]: ...

    def prompt(self, samples: Samples, options: DecodeOptions) -> Any:
        """What `Runtime.render` takes; blocks.

        Raises:
            ValueError: The model cannot do what the options ask for.
        """
        ...

    def text_of(self, written: str) -> str:
        """What was said, without the marks that the model writes around it."""
        ...


class Runtime(Protocol):
    """vLLM with one model."""

    @property
    def slots(self) -> int:
        """Passes that it advances at once."""
        ...

    @property
    def reserved(self) -> int:
        """How many of these are for first chunks alone."""
        ...

    @property
    def failure(self) -> str | None:
        """Why it is dead; from memory."""
        ...

    @property
    def speech(self) -> SpeechModel:
        """Its model, where it is not Whisper."""
        ...

    def watch(self, on_failure: Callable[[], None]) -> None:
        """Call back in this event loop when it dies; the first call counts."""
        ...

    async def render(self, prompt: Any) -> Any:
        """Compute a prompt's features, in another thread."""
        ...

    async def answer(self, request_id: str, ask: Ask, *, urgent: bool) -> Answer:
        """Run one pass; a cancel aborts it.

        Args:
            request_id: What `abort` knows it by.
            ask: The pass.
            urgent: Whether it goes before those that are not.

        Raises:
            EngineError: vLLM refuses the pass, or is dead.
        """
        ...

    async def abort(self, request_ids: Collection[str]) -> None:
        """Stop the passes of these engine requests; silent on unknown ids."""
        ...

    async def close(self) -> None:
        """End its processes. Idempotent."""
        ...
