"""Whisper on stentor-native: continuous batching on CPUs with AMX or AVX-512 BF16.

The network, the batch and the timestamp grammar are its C++ thread's (docs/decisions/0008-native.md). Here
are the windows, the fair queue before its slots, and one thread that waits for its events and passes them to
the event loop; the GIL is held for microseconds per event and never in a step.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.engine.scheduler import Scheduler, Ticket
from stentor.engine.windows import Decoded, hear, words_before
from stentor.errors import ModelError
from stentor.models import ModelFiles
from stentor.types import SAMPLE_RATE, Chunk, EngineOutput, EngineRequest, LanguageGuess
from stentor.whisper import rules
from stentor.whisper.alignment import Alignment, alignment_of_scores, frames_of
from stentor.whisper.features import LogMel
from stentor.whisper.tokenizer import WhisperTokenizer
from stentor.whisper.vocabulary import (
    MULTILINGUAL_VOCABULARY,
    barred_at_begin,
    barred_tokens,
    no_speech_token,
    read_config,
)

log = structlog.get_logger()

POLL_S = 1.0
"""How long the thread waits for events before it looks whether it is still wanted."""

RESERVED_EVERY = 8
"""One slot in so many, but never the only one, is left free for clips by the later chunks of long files."""

COMPUTE_TYPES = {None: True, "bfloat16": False, "int8": True}
"""Whether they mean operands in 8 bits where those are faster."""


class NativeEngine:
    """One Whisper model on stentor-native.

    Args:
        model: Its files, CTranslate2's or Hugging Face's.
        max_batch: Chunks computed at once.
        threads: Threads that compute; one per processor granted by default.
        beam_size: Transcripts of a window followed at once, of which the likeliest wins; 1 is greedy.
        compute_type: `int8`, the default: without AMX, the encoder's layers are in 8 bits, and all else, and
            all with AMX, in `bfloat16` (docs/decisions/0021-eight-bits.md).

    Raises:
        ModelError: stentor-native cannot run here, cannot load the model, or not so.
    """

    def __init__(
        self,
        model: ModelFiles,
        *,
        max_batch: int,
        threads: int = 0,
        beam_size: int = 1,
        compute_type: str | None = None,
    ) -> None:
        import stentor_native

        if compute_type not in COMPUTE_TYPES:
            raise ModelError(f"the native engine computes in bfloat16 or int8, not in {compute_type}")

        supported, reason = stentor_native.supported()
        if not supported:
            raise ModelError(f"the native engine does not run here: {reason}")
        self._tokenizer = WhisperTokenizer(model.directory)
        try:
            weights = stentor_native.open_weights(model.directory)
            config = read_config(model.directory)
            heads = _alignment_heads(config, weights)
            self._native: Any = stentor_native.make_engine(
                weights,
                _vocabulary(stentor_native.Vocabulary(), self._tokenizer, config),
                max_batch=max_batch,
                max_beams=beam_size,
                threads=threads,
                alignment_heads=heads,
                quantized=COMPUTE_TYPES[compute_type],
            )
        except (ValueError, MemoryError) as error:
            raise ModelError(f"the native engine cannot load {model.directory}: {error}") from error
        self._beam_size = beam_size
        self._log_mel = LogMel(weights.mels)
        self._n_alignment_heads = len(heads)
        multilingual = weights.vocabulary >= MULTILINGUAL_VOCABULARY
        self._info = EngineInfo(
            engine="native",
            model=model.name,
            languages=self._tokenizer.languages(multilingual=multilingual),
            slots=max_batch,
            translates=multilingual,
            digest=model.digest,
        )
        reserved = math.ceil((max_batch - 1) / RESERVED_EVERY)
        self._scheduler = Scheduler(max_batch, "stentor-engine", reserved=reserved)
        self._encoded: WeakKeyDictionary[Chunk, tuple[float, Any]] = WeakKeyDictionary()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._ids = itertools.count()
        self._listener: threading.Thread | None = None
        self._closing = threading.Event()
        log.info(
            "native engine",
            backend=self._native.backend,
            compute_type=self.compute_type,
            threads=self._native.threads,
            max_batch=max_batch,
            beam_size=beam_size,
            shared_mb=round(self._native.shared_bytes / 1e6),
            slot_mb=round(self._native.slot_bytes / 1e6, 1),
        )

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def compute_type(self) -> str:
        """What the encoder computes in: `int8` or `bfloat16`."""
        return "int8" if self._native.quantized else "bfloat16"

    @property
    def threads(self) -> int:
        """Threads that compute."""
        return int(self._native.threads)

    @property
    def slot_bytes(self) -> int:
        """Memory of one of `max_batch` chunks: its keys, its values and its encoded audio."""
        return int(self._native.slot_bytes)

    @property
    def statistics(self) -> dict[str, float]:
        """Since the start: `steps` and their `rows`, windows `encoded`, and `step_s` and `encode_s` spent."""
        return dict(self._native.statistics)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe one chunk; see `Engine.generate`."""
        async with self._scheduler.ticket(request) as ticket:
            decode, align = partial(self._decoded, ticket), partial(self._aligned, ticket)
            try:
                async with aclosing(hear(self._tokenizer, request, decode, align)) as outputs:
                    async for output in outputs:
                        yield output
            finally:
                self._encoded.pop(request.chunk, None)  # a slot's worth of memory that nobody asks for again

    async def detect_language(self, request: EngineRequest) -> LanguageGuess:
        """Say which language the chunk is in; see `Engine.detect_language`."""
        if len(self._info.languages) == 1:
            return LanguageGuess(self._info.languages[0], 1.0)
        languages = request.options.languages or self._info.languages
        tokens = [self._tokenizer.special(f"<|{code}|>") for code in languages]
        async with self._scheduler.ticket(request) as ticket:
            event = await self._ask(ticket, 0.0, prompt=[self._tokenizer.sot], kind="probe", probed=tokens)
        probability, language = max(zip(event.probabilities, languages, strict=True))
        return LanguageGuess(language, probability)

    async def abort(self, request_ids: Collection[str]) -> None:
        self._scheduler.abort(request_ids)

    def health(self) -> EngineHealth:
        return self._scheduler.health()

    async def close(self) -> None:
        self._closing.set()
        self._scheduler.die("closed")
        await asyncio.to_thread(self._native.close)
        if self._listener is not None:
            await asyncio.to_thread(self._listener.join)
        for future in self._pending.values():
            future.cancel()  # its caller has been told; this gives the slot back
        await self._scheduler.close()

    async def _decoded(self, ticket: Ticket, offset_s: float, temperature: float) -> Decoded:
        """One pass of the decoder over the window that begins there."""
        request = ticket.request
        prompt = rules.prompt_tokens(self._tokenizer, request.options, multilingual=self._info.translates)
        event = await self._ask(
            ticket,
            offset_s,
            prompt=prompt,
            start=prompt.index(self._tokenizer.sot),
            temperature=temperature,
            words_before=words_before(self._tokenizer, request, offset_s),
            beams=self._beam_size,
            # The same draws for the same audio, whoever else is computed.
            seed=request.chunk.index << 16 | round(offset_s * 100),
            max_tokens=min(rules.MAX_CONTEXT_TOKENS // 2, rules.MAX_CONTEXT_TOKENS - len(prompt)),
        )
        return Decoded(
            event.tokens,
            temperature,
            # The end counts as a token. Source: openai/whisper decoding.py, avg_logprobs.
            avg_logprob=sum(event.log_probabilities) / (len(event.tokens) + 1),
            no_speech_prob=event.no_speech_probability,
            logprobs=event.log_probabilities,
            went_on=event.went_on,
        )

    async def _aligned(self, ticket: Ticket, offset_s: float, window: rules.Window) -> Alignment:
        """When the tokens of the window that begins there are spoken."""
        request, tokens = ticket.request, window.tokens
        start = rules.start_tokens(self._tokenizer, request.options, multilingual=self._info.translates)
        # The timestamps' absence is written down as well. Source: openai/whisper timing.py, find_alignment.
        prompt = [*start, self._tokenizer.no_timestamps, *tokens, self._tokenizer.eot]
        event = await self._ask(ticket, offset_s, prompt=prompt, kind="align")
        scores = event.alignment(self._n_alignment_heads)[len(start) : -1]
        n_frames = frames_of(request.chunk.duration_s - offset_s)
        probabilities = event.probabilities[len(start) : len(start) + len(tokens)]
        return await ticket.run(alignment_of_scores, scores, n_frames, probabilities)

    async def _ask(self, ticket: Ticket, offset_s: float, **options: Any) -> Any:
        """Put a request into a slot of the engine and await its answer, an event of stentor-native."""
        chunk = ticket.request.chunk
        self._listen_on(asyncio.get_running_loop())
        async with ticket.slot():
            known_s, audio = self._encoded.get(chunk, (-1.0, None))
            if known_s == offset_s:
                options["audio"] = audio
            else:
                self._encoded.pop(chunk, None)
                samples = chunk.samples[round(offset_s * SAMPLE_RATE) :]
                options["mel"] = await ticket.compute(self._log_mel.window, samples)
            number = next(self._ids)
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._pending[number] = answer
            self._native.submit(number, urgent=ticket.urgent, **options)
            try:
                event = await ticket.occupy(answer)
            finally:
                if not answer.done():
                    self._native.abort([number])
        self._encoded[chunk] = (offset_s, event.audio)
        return event

    def _listen_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread that passes events on, with the first request: before it there is no loop."""
        if self._listener is None and not self._closing.is_set():
            self._listener = threading.Thread(
                target=self._pass_events, args=(loop,), name="stentor-native-events", daemon=True
            )
            self._listener.start()

    def _pass_events(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._closing.is_set():
            events = self._native.events(POLL_S)
            failure = self._native.failure
            try:
                if events:
                    loop.call_soon_threadsafe(self._settle, events)
                if failure:
                    loop.call_soon_threadsafe(self._scheduler.die, failure)
                    return
            except RuntimeError:  # the loop has been closed without us
                return

    def _settle(self, events: list[Any]) -> None:
        for event in events:
            answer = self._pending.pop(event.id, None)
            if answer is not None and not answer.done():
                answer.set_result(event)


def _alignment_heads(config: dict[str, Any], weights: Any) -> list[tuple[int, int]]:
    """(layer, head) of those that follow the speech; where nobody says which, all of the upper layers'.

    Source: openai/whisper model.py, alignment_heads.
    """
    told = config.get("alignment_heads")
    if told:
        return [(int(layer), int(head)) for layer, head in told]
    layers = weights.decoder_layers
    return [(layer, head) for layer in range(layers // 2, layers) for head in range(weights.heads)]


def _vocabulary(vocabulary: Any, tokenizer: WhisperTokenizer, config: dict[str, Any]) -> Any:
    """Fill in the vocabulary's landmarks, and what the model's files bar."""
    no_speech = no_speech_token(tokenizer)
    vocabulary.end_of_text = tokenizer.eot
    vocabulary.no_timestamps = tokenizer.no_timestamps
    vocabulary.timestamp_begin = tokenizer.timestamp_begin
    vocabulary.no_speech = -1 if no_speech is None else no_speech
    vocabulary.suppressed = barred_tokens(tokenizer, config)
    vocabulary.suppressed_at_begin = barred_at_begin(tokenizer, config)
    return vocabulary
