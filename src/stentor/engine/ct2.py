"""Whisper on CTranslate2: the portable engine, for any CPU and for CUDA.

Shaped by measurements on two cores (docs/decisions/0003-ctranslate2.md): one worker per core with one
thread each gives twice the throughput of one worker with two; batches lose; int8 is three times faster in
the decoder than float32 with the same words. A running call cannot be interrupted, so a chunk is computed
in two calls, encode and generate, and an abort is obeyed between them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.engine.scheduler import Scheduler, Ticket
from stentor.engine.windows import Decoded, convincing, hear, read_window
from stentor.errors import ModelError
from stentor.models import ModelFiles
from stentor.types import (
    SAMPLE_RATE,
    Chunk,
    DecodeOptions,
    EngineOutput,
    EngineRequest,
    LanguageGuess,
    Samples,
)
from stentor.whisper import rules
from stentor.whisper.alignment import (
    FRAMES_PER_S,
    MEDIAN_WIDTH,
    Alignment,
    alignment_of_path,
    with_words,
)
from stentor.whisper.features import LogMel
from stentor.whisper.languages import LANGUAGES
from stentor.whisper.tokenizer import WhisperTokenizer


class CTranslate2Engine:
    """One Whisper model on CTranslate2.

    Args:
        model: Its files.
        slots: Chunks computed at once, each on one core.
        device: `cpu`, `cuda` or `auto`.

    Raises:
        ModelError: CTranslate2 cannot load the model.
    """

    def __init__(self, model: ModelFiles, *, slots: int, device: str = "auto") -> None:
        import ctranslate2  # 0.1 s and 26 MB that `stentor --help` need not pay

        self._ct2: Any = ctranslate2
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        try:
            self._model: Any = ctranslate2.models.Whisper(
                str(model.directory),
                device=device,
                compute_type="int8" if device == "cpu" else "float16",
                inter_threads=slots,
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"CTranslate2 cannot load {model.directory}: {error}") from error
        self._tokenizer = WhisperTokenizer(model.directory)
        self._log_mel = LogMel(self._model.n_mels)
        multilingual = bool(self._model.is_multilingual)
        known = tuple(code for code in LANGUAGES if self._tokenizer.knows(f"<|{code}|>"))
        self._info = EngineInfo(
            engine="ctranslate2",
            model=model.name,
            languages=known if multilingual else ("en",),
            slots=slots,
            translates=multilingual,
        )
        self._scheduler = Scheduler(slots, "stentor-engine")
        self._encoded: WeakKeyDictionary[Chunk, Any] = WeakKeyDictionary()

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe one chunk; see `Engine.generate`."""
        chunk, options = request.chunk, request.options
        async with self._scheduler.ticket(request) as ticket:

            async def listen(offset_s: float) -> rules.Window:
                encoded = await self._encoded_from(ticket, offset_s)

                async def decode(temperature: float) -> Decoded:
                    return await ticket.run(self._decode, encoded, options, temperature)

                decoded = await convincing(self._tokenizer, request, decode)
                duration_s = chunk.duration_s - offset_s
                window = read_window(
                    self._tokenizer, decoded, duration_s, offset_s=offset_s, logprobs=options.logprobs
                )
                if not options.words or not window.segments:
                    return window
                alignment = await ticket.run(self._align, encoded, options, window, duration_s)
                return replace(
                    window,
                    segments=with_words(
                        self._tokenizer, window.segments, alignment, options.language, offset_s=offset_s
                    ),
                )

            async with aclosing(hear(chunk, listen)) as outputs:
                async for output in outputs:
                    yield output

    async def detect_language(self, request: EngineRequest) -> LanguageGuess:
        """Say which language the chunk is in; see `Engine.detect_language`."""
        if len(self._info.languages) == 1:
            return LanguageGuess(self._info.languages[0], 1.0)
        async with self._scheduler.ticket(request) as ticket:
            encoded = await self._encoded_from(ticket, 0.0)
            guesses = await ticket.run(self._model.detect_language, encoded)
        candidates = request.options.languages or self._info.languages
        heard = ((token.strip("<|>"), probability) for token, probability in guesses[0])
        language, probability = max(
            (guess for guess in heard if guess[0] in candidates), key=lambda guess: guess[1]
        )
        return LanguageGuess(language, probability)

    async def abort(self, request_ids: Collection[str]) -> None:
        self._scheduler.abort(request_ids)

    def health(self) -> EngineHealth:
        scheduler = self._scheduler
        return EngineHealth(scheduler.dead is None, scheduler.running, scheduler.queued, scheduler.dead)

    async def close(self) -> None:
        await self._scheduler.close()
        self._model.unload_model()

    async def _encoded_from(self, ticket: Ticket, offset_s: float) -> Any:
        """The encoder's view of the chunk from there on; of all of it, once for probe and transcript."""
        chunk = ticket.request.chunk
        if offset_s:
            return await ticket.run(self._encode, chunk.samples[round(offset_s * SAMPLE_RATE) :])
        encoded = self._encoded.get(chunk)
        if encoded is None:
            encoded = self._encoded[chunk] = await ticket.run(self._encode, chunk.samples)
        return encoded

    def _encode(self, samples: Samples) -> Any:
        features = self._log_mel.window(samples)[np.newaxis]
        return self._model.encode(self._ct2.StorageView.from_array(features))

    def _decode(self, encoded: Any, options: DecodeOptions, temperature: float) -> Decoded:
        """One pass of the decoder over a window; runs in a thread."""
        sampling: dict[str, Any] = {}
        if temperature > 0:
            sampling = {"sampling_topk": 0, "sampling_temperature": temperature}
        result = self._model.generate(
            encoded,
            [rules.prompt_tokens(self._tokenizer, options, multilingual=self._info.translates)],
            beam_size=1,
            max_length=rules.MAX_CONTEXT_TOKENS,
            return_scores=True,
            return_no_speech_prob=True,
            return_logits_vocab=options.logprobs,
            **sampling,
        )[0]
        tokens: list[int] = result.sequences_ids[0]
        return Decoded(
            tokens,
            temperature,
            # CTranslate2 averages over the tokens it returns; Whisper counts the end token as well.
            avg_logprob=result.scores[0] * len(tokens) / (len(tokens) + 1),
            no_speech_prob=result.no_speech_prob,
            logprobs=_logprobs(tokens, result.logits[0]) if options.logprobs else (),
        )

    def _align(
        self, encoded: Any, options: DecodeOptions, window: rules.Window, duration_s: float
    ) -> Alignment:
        """When the window's tokens are spoken; runs in a thread."""
        plain = DecodeOptions(language=options.language, task=options.task)
        start = rules.prompt_tokens(self._tokenizer, plain, multilingual=self._info.translates)
        n_frames = max(2, round(duration_s * FRAMES_PER_S))
        # CTranslate2 counts the spectrogram's frames, of which the encoder makes one out of two.
        found = self._model.align(
            encoded, start, [window.tokens], 2 * n_frames, median_filter_width=MEDIAN_WIDTH
        )[0]
        tokens, frames = zip(*found.alignments, strict=True)
        return alignment_of_path(tokens, frames, found.text_token_probs)


def _logprobs(tokens: Sequence[int], logits: Sequence[Any]) -> list[float]:
    """Each token's log-probability among the whole vocabulary."""
    found = []
    for token, row in zip(tokens, logits, strict=False):  # a row more than tokens: the end has one as well
        values = np.asarray(row, np.float32).ravel()
        peak = values.max()
        found.append(float(values[token] - peak - np.log(np.exp(values - peak).sum())))
    return found
