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
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from stentor.audio.chunker import is_silent
from stentor.audio.reader import AudioReport, ReaderLimits, read_chunks
from stentor.audio.vad import VadOptions
from stentor.calls import EngineCalls, Hearing
from stentor.detection import in_one_language, in_their_own
from stentor.engine.base import Engine
from stentor.errors import AudioError, InvalidValue
from stentor.observe.metrics import Metrics
from stentor.preprocess import PreprocessPool, Steps
from stentor.structured import task_group
from stentor.text.context import said_after
from stentor.text.stitch import Stitcher
from stentor.types import Chunk, DecodeOptions, EngineOutput, Part, Segment, Transcript

log = structlog.get_logger()

OnPart = Callable[[Part], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AudioRequest:
    """One call: audio in an open, seekable file, and how to listen. The file stays the caller's.

    `vad` leaves out what is not speech. `condition` hears one chunk after the other, each with what was said
    before it, which takes longer and makes fewer errors. `code_switching` lets every chunk have a language of
    its own. `report` is filled in while the audio is read.
    """

    request_id: str
    fd: int
    options: DecodeOptions
    vad: VadOptions | None = None
    condition: bool = False
    code_switching: bool = False
    report: AudioReport = field(default_factory=AudioReport)


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
        options = self._honoured(request)
        stitcher = Stitcher(options.task, words=options.words, timed=self.engine.info.words)
        async with (
            self._reading(request) as chunks,
            EngineCalls(self.engine, request.request_id, self._metrics, self._pool) as calls,
            task_group() as group,
        ):
            if request.code_switching:
                hearings = in_their_own(chunks, options)
            else:
                hearings = in_one_language(chunks, options, calls, group)
            # Two more are outside the queue: the one awaited below and the one that waits to be put in.
            under_way: asyncio.Queue[Hearing | None] = asyncio.Queue(max(1, self._window - 2))
            group.create_task(self._advance(hearings, request, calls, group, under_way))
            while (hearing := await under_way.get()) is not None:
                while (output := await hearing.outputs.get()) is not None:
                    part = stitcher.add(hearing.chunk, output, hearing.language)
                    if on_part is not None:
                        await on_part(part)
        return stitcher.transcript()

    async def _advance(
        self,
        hearings: AsyncGenerator[Hearing, None],
        request: AudioRequest,
        calls: EngineCalls,
        group: asyncio.TaskGroup,
        under_way: asyncio.Queue[Hearing | None],
    ) -> None:
        """Bring chunk after chunk on its way, as far as the window allows; None says that it was the last."""
        decoded_s = 0.0
        said: tuple[Segment, ...] = ()
        async with aclosing(hearings):
            async for hearing in hearings:
                chunk, heard = hearing.chunk, None
                self._metrics.decoded(chunk.end_s - decoded_s)
                self._metrics.left_out(max(0.0, round(chunk.end_s - decoded_s - chunk.duration_s, 3)))
                decoded_s = chunk.end_s
                hearing.options = replace(hearing.options, previous=said)
                if is_silent(chunk.samples):
                    hearing.outputs.put_nowait(EngineOutput((), chunk.duration_s))
                    hearing.outputs.put_nowait(None)
                else:
                    heard = group.create_task(calls.generate(hearing))
                await under_way.put(hearing)
                if request.condition and heard is not None:
                    said = said_after(said, chunk, await heard)
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

    def _honoured(self, request: AudioRequest) -> DecodeOptions:
        """The options with what the engine leaves no choice about, or a refusal of what it cannot do."""
        options, info = request.options, self.engine.info
        if request.code_switching and (options.language or request.condition):
            other = "language" if options.language else "condition"
            raise InvalidValue(f"code_switching does not go with {other}", param="code_switching")
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
