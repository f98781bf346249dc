"""Whisper on vLLM: the windows, prompts and guards that every Whisper engine has, a pass of vLLM for each.

vLLM shows no cross-attention, so nobody knows when a word is spoken: where words are asked for, they are
spread over their segment. It keeps no encoder's output between passes, so a language probe and each pass at a
higher temperature encode the window again.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from stentor.engine.scheduler import Ticket
from stentor.engine.vllm.passes import Answer, Ask, Asked, Runtime
from stentor.engine.windows import Decoded, hear, words_before
from stentor.types import SAMPLE_RATE, Chunk, EngineOutput, LanguageGuess
from stentor.whisper import rules
from stentor.whisper.alignment import Alignment
from stentor.whisper.tokenizer import WhisperTokenizer

LIKELIEST = 20
"""Tokens told after the start, among which is the one for no speech if its probability is 0.05 or more; from
0.2 on it counts. vLLM tells no more by default. Source: vLLM config/model.py, max_logprobs."""


class WhisperEar:
    """Hears chunks with a Whisper model.

    Args:
        tokenizer: The model's.
        runtime: Renders the audio.
        asked: Runs a pass.
        multilingual: Whether the model knows other languages than English.
        no_speech: The token that says that nobody speaks, if it has one.
    """

    def __init__(
        self,
        tokenizer: WhisperTokenizer,
        runtime: Runtime,
        asked: Asked,
        *,
        multilingual: bool,
        no_speech: int | None,
    ) -> None:
        self._tokenizer = tokenizer
        self._runtime = runtime
        self._asked = asked
        self._multilingual = multilingual
        self._no_speech = no_speech
        self._rendered: WeakKeyDictionary[Chunk, tuple[float, Any]] = WeakKeyDictionary()

    @property
    def languages(self) -> tuple[str, ...]:
        return self._tokenizer.languages(multilingual=self._multilingual)

    def hear(self, ticket: Ticket) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe a chunk."""
        return hear(
            self._tokenizer, ticket.request, partial(self._decoded, ticket), partial(self._aligned, ticket)
        )

    async def language(self, ticket: Ticket) -> LanguageGuess:
        """Say which of the candidates is spoken: the likeliest token after the start."""
        request = ticket.request
        codes = request.options.languages or self.languages
        if len(codes) == 1:
            return LanguageGuess(codes[0], 1.0)
        tokens = {code: self._tokenizer.special(f"<|{code}|>") for code in codes}
        prepare = partial(
            self._prepared,
            request.chunk,
            0.0,
            [self._tokenizer.sot],
            max_tokens=1,
            logprobs_of=list(tokens.values()),
        )
        told = (await self._asked(ticket, prepare)).logprobs[0]
        likelihoods = {code: math.exp(told[token]) for code, token in tokens.items()}
        language = max(likelihoods, key=likelihoods.__getitem__)
        return LanguageGuess(language, likelihoods[language] / sum(likelihoods.values()))

    async def _decoded(self, ticket: Ticket, offset_s: float, temperature: float) -> Decoded:
        """One pass of the decoder over the window that begins there."""
        request = ticket.request
        prompt = rules.prompt_tokens(self._tokenizer, request.options, multilingual=self._multilingual)
        after_start = prompt.index(self._tokenizer.sot) + 1
        told_in_prompt = after_start < len(prompt)
        no_speech_told = [self._no_speech] if self._no_speech is not None and not told_in_prompt else []
        prepare = partial(
            self._prepared,
            request.chunk,
            offset_s,
            prompt,
            max_tokens=min(rules.MAX_CONTEXT_TOKENS // 2, rules.MAX_CONTEXT_TOKENS - len(prompt)),
            temperature=temperature,
            # The same draws for the same audio.
            seed=request.chunk.index << 16 | round(offset_s * 100),
            prompt_logprobs=LIKELIEST if told_in_prompt else None,
            logprobs_of=[self._tokenizer.eot, *no_speech_told],
            timestamps=True,
            words_before=words_before(self._tokenizer, request, offset_s),
        )
        answer = await self._asked(ticket, prepare)
        told = answer.prompt_logprobs[after_start] if told_in_prompt else answer.logprobs[0]
        no_speech = -math.inf if self._no_speech is None else told.get(self._no_speech, -math.inf)
        logprobs = [place[token] for token, place in zip(answer.tokens, answer.logprobs, strict=True)]
        written = [token for token in answer.tokens if token != self._tokenizer.eot]
        return Decoded(
            answer.tokens,
            temperature,
            # The end counts as a token. Source: openai/whisper decoding.py, avg_logprobs.
            avg_logprob=sum(logprobs) / (len(written) + 1),
            no_speech_prob=math.exp(no_speech),
            logprobs=logprobs,
            went_on=went_on(self._tokenizer, answer),
        )

    async def _aligned(self, ticket: Ticket, offset_s: float, window: rules.Window) -> Alignment:
        return spread(self._tokenizer, window, offset_s)

    async def _prepared(self, chunk: Chunk, offset_s: float, tokens: Sequence[int], **options: Any) -> Ask:
        """A pass over the window that begins there; its features are computed once for all."""
        known_s, rendered = self._rendered.get(chunk, (-1.0, None))
        if known_s != offset_s:
            samples = chunk.samples[round(offset_s * SAMPLE_RATE) :]
            rendered = await self._runtime.render(
                {
                    "encoder_prompt": {"prompt": "", "multi_modal_data": {"audio": (samples, SAMPLE_RATE)}},
                    "decoder_prompt": {"prompt_token_ids": list(tokens)},
                }
            )
            self._rendered[chunk] = offset_s, rendered
        # vLLM begins every decoder's prompt with the start, also one that has previous text before it: its
        # tokens are put in their place again.
        decoder = {**rendered["decoder_prompt"], "prompt_token_ids": list(tokens)}
        return Ask({**rendered, "decoder_prompt": decoder}, **options)


def went_on(tokenizer: WhisperTokenizer, answer: Answer) -> list[int]:
    """Where a word begins a segment although the end was likelier; see `Decoded`."""
    begin, eot, tokens = tokenizer.timestamp_begin, tokenizer.eot, answer.tokens
    return [
        place
        for place in range(2, len(tokens))
        if tokens[place] < eot and min(tokens[place - 2 : place]) >= begin
        if answer.logprobs[place][eot] > answer.logprobs[place][tokens[place]]
    ]


def spread(tokenizer: WhisperTokenizer, window: rules.Window, offset_s: float) -> Alignment:
    """Times of a window's tokens for want of better: each segment's time, shared out by their bytes."""
    times_s: list[float] = []
    probabilities: list[float] = []
    for segment in window.segments:
        sizes = [len(tokenizer.bytes_of(token)) for token in segment.tokens]
        length_s = segment.end_s - segment.start_s
        passed = 0
        for size in sizes:
            times_s.append(segment.start_s - offset_s + length_s * passed / max(1, sum(sizes)))
            probabilities.append(math.exp(min(0.0, segment.avg_logprob)))
            passed += size
    return Alignment([*times_s, window.segments[-1].end_s - offset_s], probabilities)
