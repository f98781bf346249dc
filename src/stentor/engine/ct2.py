"""Whisper on CTranslate2: the portable engine, for any CPU and for CUDA.

Shaped by measurements on two cores (docs/decisions/0003-ctranslate2.md): one worker per core with one
thread each gives twice the throughput of one worker with two; batches lose; int8 is three times faster in
the decoder than float32 with the same words. A running call cannot be interrupted, so a chunk is computed
in two calls, encode and generate, and an abort is obeyed between them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.engine.scheduler import Scheduler, Ticket
from stentor.engine.windows import Decoded, hear
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
from stentor.whisper.alignment import MEDIAN_WIDTH, Alignment, alignment_of_path, frames_of
from stentor.whisper.features import LogMel
from stentor.whisper.tokenizer import WhisperTokenizer


class CTranslate2Engine:
    """One Whisper model on CTranslate2.

    Args:
        model: Its files.
        slots: Chunks computed at once, each on one core.
        device: `cpu`, `cuda` or `auto`.
        compute_type: What CTranslate2 computes in; int8 on a CPU and float16 on a GPU by default.
        beam_size: Transcripts of a window followed at once, of which the likeliest wins; 1 is greedy.

    Raises:
        ModelError: CTranslate2 cannot load the model, or not so.
    """

    def __init__(
        self,
        model: ModelFiles,
        *,
        slots: int,
        device: str = "auto",
        compute_type: str | None = None,
        beam_size: int = 1,
    ) -> None:
        import ctranslate2  # 0.1 s and 26 MB that `stentor --help` need not pay

        self._ct2: Any = ctranslate2
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        try:
            self._model: Any = ctranslate2.models.Whisper(
                str(model.directory),
                device=device,
                compute_type=compute_type or ("int8" if device == "cpu" else "float16"),
                inter_threads=slots,
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"CTranslate2 cannot load {model.directory}: {error}") from error
        self._beam_size = beam_size
        self._tokenizer = WhisperTokenizer(model.directory)
        self._log_mel = LogMel(self._model.n_mels)
        multilingual = bool(self._model.is_multilingual)
        self._info = EngineInfo(
            engine="ctranslate2",
            model=model.name,
            languages=self._tokenizer.languages(multilingual=multilingual),
            slots=slots,
            translates=multilingual,
            digest=model.digest,
        )
        self._scheduler = Scheduler(slots, "stentor-engine")
        self._encoded: WeakKeyDictionary[Chunk, tuple[float, Any]] = WeakKeyDictionary()

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe one chunk; see `Engine.generate`."""
        async with self._scheduler.ticket(request) as ticket:
            decode, align = partial(self._decoded, ticket), partial(self._aligned, ticket)
            async with aclosing(hear(self._tokenizer, request, decode, align)) as outputs:
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
        return self._scheduler.health()

    async def close(self) -> None:
        await self._scheduler.close()
        self._model.unload_model()

    async def _decoded(self, ticket: Ticket, offset_s: float, temperature: float) -> Decoded:
        encoded = await self._encoded_from(ticket, offset_s)
        return await ticket.run(self._decode, encoded, ticket.request.options, temperature)

    async def _aligned(self, ticket: Ticket, offset_s: float, window: rules.Window) -> Alignment:
        encoded = await self._encoded_from(ticket, offset_s)
        n_frames = frames_of(ticket.request.chunk.duration_s - offset_s)
        return await ticket.run(self._align, encoded, ticket.request.options, window.tokens, n_frames)

    async def _encoded_from(self, ticket: Ticket, offset_s: float) -> Any:
        """The encoder's view of the chunk from there on, computed once for all that ask one after another."""
        chunk = ticket.request.chunk
        known_s, encoded = self._encoded.get(chunk, (-1.0, None))
        if known_s != offset_s:
            encoded = await ticket.run(self._encode, chunk.samples[round(offset_s * SAMPLE_RATE) :])
            self._encoded[chunk] = (offset_s, encoded)
        return encoded

    def _encode(self, samples: Samples) -> Any:
        features = self._log_mel.window(samples)[np.newaxis]
        return self._model.encode(self._ct2.StorageView.from_array(features))

    def _decode(self, encoded: Any, options: DecodeOptions, temperature: float) -> Decoded:
        """One pass of the decoder over a window; runs in a thread."""
        sampling: dict[str, Any] = {"beam_size": self._beam_size}
        if temperature > 0:
            sampling = {"beam_size": 1, "sampling_topk": 0, "sampling_temperature": temperature}
        result = self._model.generate(
            encoded,
            [rules.prompt_tokens(self._tokenizer, options, multilingual=self._info.translates)],
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

    def _align(self, encoded: Any, options: DecodeOptions, tokens: Sequence[int], n_frames: int) -> Alignment:
        """When the tokens are spoken; runs in a thread."""
        start = rules.start_tokens(self._tokenizer, options, multilingual=self._info.translates)
        # CTranslate2 counts the spectrogram's frames, of which the encoder makes one out of two.
        found = self._model.align(
            encoded, start, [list(tokens)], 2 * n_frames, median_filter_width=MEDIAN_WIDTH
        )[0]
        path_tokens, path_frames = zip(*found.alignments, strict=True)
        return alignment_of_path(path_tokens, path_frames, found.text_token_probs)


def _logprobs(tokens: Sequence[int], logits: Sequence[Any]) -> list[float]:
    """Each token's log-probability among the whole vocabulary."""
    found = []
    for token, row in zip(tokens, logits, strict=False):  # a row more than tokens: the end has one as well
        values = np.asarray(row, np.float32).ravel()
        peak = values.max()
        found.append(float(values[token] - peak - np.log(np.exp(values - peak).sum())))
    return found
