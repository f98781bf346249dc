"""What a request asks of an engine. Whoever leaves aborts what is not finished: here is the place for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType

import structlog

from stentor.audio.vad import speech_s
from stentor.engine.base import Engine
from stentor.observe.metrics import Metrics
from stentor.observe.tracing import begin
from stentor.preprocess import PreprocessPool
from stentor.structured import to_its_end
from stentor.types import (
    SAMPLE_RATE,
    Chunk,
    DecodeOptions,
    EngineOutput,
    EngineRequest,
    LanguageGuess,
    Segment,
)

log = structlog.get_logger()

ABORT_TIMEOUT_S = 5.0
"""An abort that takes longer is given up: whoever left must not hang on an engine that does not answer."""


@dataclass(slots=True)
class Hearing:
    """A chunk on its way: how it is heard, and what has been heard; None says that it was all.

    Where `options` have no language, the chunk is asked for its own first, and then they have.
    """

    chunk: Chunk
    options: DecodeOptions
    outputs: asyncio.Queue[EngineOutput | None] = field(default_factory=asyncio.Queue)

    @property
    def language(self) -> str | None:
        """In which language; None until the chunk has been asked."""
        return self.options.language


class EngineCalls:
    """The engine requests of one request: what has begun and is not finished is aborted on the way out."""

    def __init__(self, engine: Engine, request_id: str, metrics: Metrics, pool: PreprocessPool) -> None:
        self._engine = engine
        self._pool = pool
        self._metrics = metrics
        self._request_id = request_id
        self._unfinished: dict[str, str] = {}  # which stage each engine request is

    async def __aenter__(self) -> EngineCalls:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if not self._unfinished:
            return
        abort = asyncio.ensure_future(self._engine.abort(list(self._unfinished)))
        for stage in self._unfinished.values():
            self._metrics.aborted(stage)
        try:
            await to_its_end(abort, timeout_s=ABORT_TIMEOUT_S)
        except TimeoutError:
            log.warning("abort timed out", request_id=self._request_id, engine_requests=len(self._unfinished))

    async def detect_language(self, chunk: Chunk, options: DecodeOptions) -> LanguageGuess:
        """Ask the engine which language a chunk is in."""
        engine_id = f"{self._request_id}-lang"
        probe = self._engine_request(
            f"{engine_id}-{chunk.index}" if chunk.index else engine_id, chunk, options
        )
        with self._begun("probe", probe):
            return await self._engine.detect_language(probe)

    async def speech_s(self, chunk: Chunk, from_s: float = 0.0) -> float:
        """How many seconds of speech a voice activity detector hears in a chunk, from there on."""
        return await self._pool.run(partial(speech_s, chunk.samples[round(from_s * SAMPLE_RATE) :]))

    async def generate(self, hearing: Hearing) -> list[Segment]:
        """Let the engine hear a chunk, and return all that it says."""
        chunk, heard = hearing.chunk, hearing.outputs
        if hearing.language is None:
            guess = await self.detect_language(chunk, hearing.options)
            hearing.options = replace(hearing.options, language=guess.language)
        segments: list[Segment] = []
        alone = chunk.index == 0 and chunk.last
        engine_id = self._request_id if alone else f"{self._request_id}-{chunk.index}"
        options = hearing.options
        if chunk.before_samples or chunk.after_samples:
            options = replace(options, words=True)  # two texts are to be laid beside each other
        request = self._engine_request(engine_id, chunk, options)
        with self._begun("chunk", request):
            async with aclosing(self._engine.generate(request)) as outputs:
                async for output in outputs:
                    heard.put_nowait(output)
                    segments += output.segments
        heard.put_nowait(None)
        return segments

    def _engine_request(self, engine_id: str, chunk: Chunk, options: DecodeOptions) -> EngineRequest:
        listen = partial(self.speech_s, chunk)
        return EngineRequest(engine_id, self._request_id, chunk, options, speech_s=listen)

    @contextmanager
    def _begun(self, stage: str, request: EngineRequest) -> Iterator[None]:
        """Keep the books of an engine request: unfinished, or how it went."""
        chunk, report = request.chunk, request.report
        self._unfinished[request.id] = stage
        began_s = time.perf_counter()
        with begin(stage, index=chunk.index, start_s=chunk.start_s, audio_s=chunk.duration_s) as span:
            try:
                yield
                self._metrics.answered(stage, time.perf_counter() - began_s)
            except asyncio.CancelledError:
                raise  # left unfinished: the exit aborts it
            except BaseException:
                del self._unfinished[request.id]
                raise
            finally:
                self._metrics.engine(stage, report)
                span.note(queued_s=report.queued_s, computed_s=report.computed_s)
        del self._unfinished[request.id]
