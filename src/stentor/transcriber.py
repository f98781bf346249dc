"""The road. Read it from top to bottom and you know the system.

    audio ──► blocks ──► chunks ──► engine requests ──► parts, in order ──► transcript
              └── steps of the pool ──┘ └── a window of them at once ──┘

It is pulled: the next chunk is decoded while earlier ones are with the engine, and only when the window has
room for it, so a request holds a few chunks however long its audio is. One task group owns all that a
request started; whoever leaves it, by error, cancel, deadline or shutdown, aborts what has begun with the
engine and is not finished. `EngineCalls` is the one place that does this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType

import structlog

from stentor.audio.chunker import is_silent
from stentor.audio.reader import AudioReport, ReaderLimits, read_chunks
from stentor.audio.vad import VadOptions, speech_s
from stentor.engine.base import Engine
from stentor.errors import AudioError, InvalidValue
from stentor.observe.metrics import Metrics
from stentor.observe.tracing import begin
from stentor.preprocess import PreprocessPool, Steps
from stentor.structured import task_group, to_its_end
from stentor.text.stitch import Stitcher
from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineOutput, EngineRequest, Part, Transcript
from stentor.whisper.languages import joins_without_spaces

log = structlog.get_logger()

ABORT_TIMEOUT_S = 5.0
"""An abort that takes longer is given up: whoever left must not hang on an engine that does not answer."""

LEAST_SPEECH_S = 1.0
"""A chunk with less speech tells its own language, but not that of the chunks after it."""

FALLBACK_LANGUAGE = "en"
"""What an audio without any sound is said to be in: an answer needs one, and nobody heard anything."""

OnPart = Callable[[Part], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AudioRequest:
    """One call: audio in an open, seekable file, and how to listen. The file stays the caller's.

    `vad` leaves out what is not speech; `report` is filled in while the audio is read.
    """

    request_id: str
    fd: int
    options: DecodeOptions
    vad: VadOptions | None = None
    report: AudioReport = field(default_factory=AudioReport)


@dataclass(frozen=True, slots=True)
class Hearing:
    """A chunk on its way: the language it is heard in, and what has been heard; None says that it was all."""

    chunk: Chunk
    options: DecodeOptions
    outputs: asyncio.Queue[EngineOutput | None] = field(default_factory=asyncio.Queue)


class Transcriber:
    """Audio in, transcript out, for many requests at once.

    Args:
        engine: Hears the chunks.
        pool: Runs the audio steps.
        limits: Bounds on what is decoded.
        metrics: Where the audio is counted; nowhere by default.
        window: Chunks a request may have under way; twice the engine's slots by default, so that no slot
            waits for the next chunk to be decoded.
    """

    def __init__(
        self,
        engine: Engine,
        pool: PreprocessPool,
        limits: ReaderLimits,
        *,
        metrics: Metrics | None = None,
        window: int | None = None,
    ) -> None:
        self.engine = engine
        self._pool = pool
        self._limits = limits
        self._metrics = metrics or Metrics()
        self._window = window or 2 * engine.info.slots

    async def transcribe(self, request: AudioRequest, on_part: OnPart | None = None) -> Transcript:
        """Transcribe one audio; `on_part` gets each piece in order as soon as it is final.

        Raises:
            AudioError: The audio cannot be read, or there is more of it than the limits allow.
            InvalidValue: The engine cannot do what the options ask for.
            EngineError: The engine cannot answer.
        """
        options = self._honoured(request.options)
        stitcher = Stitcher(words=options.words, timed=self.engine.info.words)
        async with (
            self._reading(request) as chunks,
            EngineCalls(self.engine, request.request_id, self._metrics, self._pool) as calls,
            task_group() as group,
        ):
            # Two more are outside the queue: the one awaited below and the one that waits to be put in.
            under_way: asyncio.Queue[Hearing | None] = asyncio.Queue(max(1, self._window - 2))
            group.create_task(self._advance(chunks, options, calls, group, under_way))
            while (hearing := await under_way.get()) is not None:
                options = hearing.options
                while (output := await hearing.outputs.get()) is not None:
                    part = stitcher.add(hearing.chunk, output, spaced=_spaced(options))
                    if on_part is not None:
                        await on_part(part)
        return stitcher.transcript(language=options.language or FALLBACK_LANGUAGE, task=options.task)

    async def _advance(
        self,
        chunks: Steps[Chunk],
        options: DecodeOptions,
        calls: EngineCalls,
        group: asyncio.TaskGroup,
        under_way: asyncio.Queue[Hearing | None],
    ) -> None:
        """Bring chunk after chunk on its way, as far as the window allows; None says that it was the last."""
        decoded_s = 0.0
        async for chunk in chunks:
            self._metrics.decoded(chunk.end_s - decoded_s)
            self._metrics.left_out(max(0.0, round(chunk.end_s - decoded_s - chunk.duration_s, 3)))
            decoded_s = chunk.end_s
            silent, heard_as = is_silent(chunk.samples), options
            if not silent and options.language is None:
                heard_as = replace(options, language=await calls.detect_language(chunk, options))
                # Music before the speech must not decide what language the file is in.
                if chunk.last or await calls.speech_s(chunk) >= LEAST_SPEECH_S:
                    options = heard_as
            hearing = Hearing(chunk, heard_as)
            if silent:
                hearing.outputs.put_nowait(EngineOutput((), chunk.duration_s))
                hearing.outputs.put_nowait(None)
            else:
                group.create_task(calls.generate(hearing))
            await under_way.put(hearing)
        await under_way.put(None)

    @asynccontextmanager
    async def _reading(self, request: AudioRequest) -> AsyncIterator[Steps[Chunk]]:
        """The request's audio, chunk by chunk, each a step of the pool; then what was found out about it."""
        report = request.report
        read = partial(read_chunks, request.fd, self._limits, vad=request.vad, report=report)
        try:
            async with self._pool.steps(read) as chunks:
                yield chunks
        except TimeoutError as error:
            raise AudioError(f"The audio cannot be decoded in reasonable time: {error}.") from error
        finally:
            self._metrics.read(report.format, report.damage)
            if report.damage:
                log.warning("damaged audio", request_id=request.request_id, damage=report.damage)

    def _honoured(self, options: DecodeOptions) -> DecodeOptions:
        """The options with what the engine leaves no choice about, or a refusal of what it cannot do."""
        info = self.engine.info
        if options.task == "translate" and not info.translates:
            raise InvalidValue(f"the model {info.model} cannot translate", param="model")
        if options.words and not info.words:
            raise InvalidValue(
                f"the engine {info.engine} knows the times of segments and not of words: leave out the word "
                "granularity and limits on cues",
                param="timestamp_granularities",
            )
        if options.logprobs and not info.logprobs:
            raise InvalidValue(f"the model {info.model} gives no log-probabilities here", param="include")
        wanted = (options.language,) if options.language else options.languages
        for language in wanted:
            if language not in info.languages:
                raise InvalidValue(
                    f"the model {info.model} does not know the language {language!r}; "
                    f"it knows {', '.join(info.languages)}",
                    param="language" if options.language else "languages",
                )
        only = wanted or info.languages
        return replace(options, language=only[0]) if len(only) == 1 else options


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

    async def detect_language(self, chunk: Chunk, options: DecodeOptions) -> str:
        """Ask the engine which language a chunk is in."""
        probe = self._engine_request(f"{self._request_id}-lang", chunk, options)
        with self._begun("probe", probe):
            return (await self._engine.detect_language(probe)).language

    async def speech_s(self, chunk: Chunk, from_s: float = 0.0) -> float:
        """How many seconds of speech a voice activity detector hears in a chunk, from there on."""
        return await self._pool.run(partial(speech_s, chunk.samples[round(from_s * SAMPLE_RATE) :]))

    async def generate(self, hearing: Hearing) -> None:
        """Let the engine hear a chunk."""
        chunk, heard = hearing.chunk, hearing.outputs
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
        heard.put_nowait(None)

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


def _spaced(options: DecodeOptions) -> bool:
    if options.task == "translate" or options.language is None:
        return True
    return not joins_without_spaces(options.language)
