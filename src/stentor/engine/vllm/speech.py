"""Models of other families than Whisper, asked as vLLM's own server asks them.

A chunk is one pass and one segment with the chunk's times: these models write no timestamps. Which language
is spoken they are told, or find out for themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from stentor.engine.scheduler import Ticket
from stentor.engine.vllm.passes import Ask, Asked, Runtime
from stentor.errors import InvalidValue
from stentor.types import EngineOutput, EngineRequest, LanguageGuess, Segment
from stentor.whisper.languages import UNDETERMINED
from stentor.whisper.rules import MAX_CONTEXT_TOKENS


class SpeechEar:
    """Hears chunks with any model of vLLM's that transcribes.

    Args:
        runtime: Of which it is the model.
        asked: Runs a pass.
    """

    def __init__(self, runtime: Runtime, asked: Asked) -> None:
        self._runtime = runtime
        self._model = runtime.speech
        self._asked = asked

    @property
    def languages(self) -> tuple[str, ...]:
        return self._model.languages

    async def hear(self, ticket: Ticket) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe a chunk.

        Raises:
            InvalidValue: The model cannot do what the options ask for.
        """
        request = ticket.request
        answer = await self._asked(ticket, lambda: self._prepared(request))
        text, duration_s = self._model.text_of(answer.text), request.chunk.duration_s
        told = [place[token] for token, place in zip(answer.tokens, answer.logprobs, strict=True)]
        segment = Segment(
            text,
            0.0,
            duration_s,
            temperature=request.options.temperature,
            avg_logprob=sum(told) / max(1, len(told)),
        )
        yield EngineOutput((segment,) if text.strip() else (), duration_s)

    async def language(self, ticket: Ticket) -> LanguageGuess:
        """Nobody is asked: the model finds out while it writes, and does not say."""
        return LanguageGuess(UNDETERMINED, 1.0)

    async def _prepared(self, request: EngineRequest) -> Ask:
        options = request.options
        if options.language == UNDETERMINED:
            options = replace(options, language=None)
        try:
            prompt = await asyncio.to_thread(self._model.prompt, request.chunk.samples, options)
        except ValueError as error:
            raise InvalidValue(f"the model cannot do that: {error}") from error
        rendered = await self._runtime.render(prompt)
        # As much as Whisper may write about as much audio.
        return Ask(rendered, max_tokens=MAX_CONTEXT_TOKENS, temperature=options.temperature)
