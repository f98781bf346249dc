"""An engine that computes nothing: scripted, and it remembers what it was asked. For tests and benches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.engine.scheduler import Scheduler, Ticket
from stentor.types import DecodeOptions, EngineOutput, EngineRequest, LanguageGuess, Segment

Script = Callable[[EngineRequest], Sequence[Segment]]


def numbered(request: EngineRequest) -> Sequence[Segment]:
    """The default script: one segment that names its chunk and spans it."""
    return (Segment(f" chunk {request.chunk.index}", 0.0, request.chunk.duration_s),)


class FakeEngine:
    """A real queue with scripted answers.

    Computing stands still while `gate` is cleared. `begun` (asked for), `started` (got a slot), `finished`
    and `aborted` list engine request ids in the order of events; `options` has what each asked for;
    `until` waits for one. A script that raises kills the engine, as a runtime's fault would.

    Args:
        script: What each chunk says; called in an engine thread.
        slots: Chunks computed at once.
        language: What the probe hears.
        languages: What the model knows.
        model: What it is called.
        words: Whether it says that it knows when words are spoken.
        logprobs: Whether it says that it knows how likely each token was.
    """

    def __init__(
        self,
        script: Script = numbered,
        *,
        slots: int = 2,
        language: str = "en",
        languages: tuple[str, ...] = ("en", "de", "fr", "ja"),
        model: str = "fake",
        words: bool = True,
        logprobs: bool = True,
    ) -> None:
        self._script = script
        self._language = language
        self._info = EngineInfo(
            "fake", model, languages, slots, translates=True, words=words, logprobs=logprobs
        )
        self._scheduler = Scheduler(slots, "stentor-engine")
        self.gate = asyncio.Event()
        self.gate.set()
        self._gate_closes_at = -1
        self.begun: list[str] = []
        self.started: list[str] = []
        self.finished: list[str] = []
        self.aborted: list[str] = []
        self.options: dict[str, DecodeOptions] = {}
        self._changed = asyncio.Event()

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Answer with the script; see `Engine.generate`."""
        async with self._computing(request) as ticket:
            segments = await ticket.compute(self._script, request)
        for segment in segments[:-1]:
            yield EngineOutput((segment,), segment.end_s)
        yield EngineOutput(tuple(segments[-1:]), request.chunk.duration_s)

    async def detect_language(self, request: EngineRequest) -> LanguageGuess:
        """Answer with the language given; see `Engine.detect_language`."""
        async with self._computing(request):
            return LanguageGuess(self._language, 0.9)

    async def abort(self, request_ids: Collection[str]) -> None:
        self._record(self.aborted, *request_ids)
        self._scheduler.abort(request_ids)

    def health(self) -> EngineHealth:
        return self._scheduler.health()

    async def close(self) -> None:
        await self._scheduler.close()

    async def until(self, condition: Callable[[FakeEngine], bool]) -> None:
        """Wait until the engine's record satisfies a condition."""
        while not condition(self):
            self._changed.clear()
            await self._changed.wait()

    def close_gate_after(self, calls: int) -> None:
        """Clear the gate once so many more calls have finished."""
        self._gate_closes_at = len(self.finished) + calls

    @asynccontextmanager
    async def _computing(self, request: EngineRequest) -> AsyncIterator[Ticket]:
        self.options[request.id] = request.options
        self._record(self.begun, request.id)
        async with self._scheduler.ticket(request) as ticket, ticket.slot():
            self._record(self.started, request.id)
            opened = asyncio.ensure_future(self.gate.wait())
            try:
                await ticket.outcome(opened)
            finally:
                opened.cancel()
            yield ticket
        self._record(self.finished, request.id)
        if len(self.finished) == self._gate_closes_at:
            self.gate.clear()

    def _record(self, events: list[str], *request_ids: str) -> None:
        events.extend(request_ids)
        self._changed.set()
