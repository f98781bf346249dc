"""vLLM behind the five verbs: its own scheduler batches, and before it stands the fair queue of all engines.

The queue has as many slots as vLLM has rows, so that these are full and nothing waits behind them: what
waits, waits here, where a clip goes before the chunks of a long file. Some rows are left free for clips, and
while a clip is in one no later chunk's window is begun (`lanes.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Any

import structlog

from stentor.engine.base import EngineHealth, EngineInfo
from stentor.engine.scheduler import Scheduler, Ticket
from stentor.engine.vllm.passes import Answer, Ask, Asked, Ear, Runtime
from stentor.engine.vllm.runtime import VllmRuntime
from stentor.engine.vllm.speech import SpeechEar
from stentor.engine.vllm.whisper import WhisperEar
from stentor.errors import EngineError, ModelError
from stentor.models import WEIGHTS, ModelFiles
from stentor.types import EngineOutput, EngineRequest, LanguageGuess
from stentor.whisper.tokenizer import WhisperTokenizer
from stentor.whisper.vocabulary import MULTILINGUAL_VOCABULARY, barred_tokens, no_speech_token, read_config

log = structlog.get_logger()

WHISPER = "whisper"
"""`model_type` in the config.json of a Whisper model. Source: transformers configuration_whisper.py."""


class VllmEngine:
    """One model on vLLM.

    Args:
        model: What it is called.
        runtime: vLLM with the model in it.
        make_ear: Makes what hears chunks, given what runs a pass.
        translates: Whether the model translates.
        logprobs: Whether its tokens are the text.
    """

    def __init__(
        self,
        model: str,
        runtime: Runtime,
        make_ear: Callable[[Asked], Ear],
        *,
        translates: bool,
        logprobs: bool,
    ) -> None:
        self._runtime = runtime
        self._ear = make_ear(self._answered)
        self._scheduler = Scheduler(runtime.slots, "stentor-engine", reserved=runtime.reserved)
        self._running: set[asyncio.Future[Answer]] = set()
        self._info = EngineInfo(
            engine="vllm",
            model=model,
            languages=self._ear.languages,
            slots=runtime.slots - runtime.reserved,
            translates=translates,
            words=False,
            logprobs=logprobs,
        )

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Transcribe one chunk; see `Engine.generate`."""
        self._notice_death()
        async with self._scheduler.ticket(request) as ticket, aclosing(self._ear.hear(ticket)) as outputs:
            async for output in outputs:
                yield output

    async def detect_language(self, request: EngineRequest) -> LanguageGuess:
        """Say which language the chunk is in; see `Engine.detect_language`."""
        self._notice_death()
        async with self._scheduler.ticket(request) as ticket:
            return await self._ear.language(ticket)

    async def abort(self, request_ids: Collection[str]) -> None:
        self._scheduler.abort(request_ids)
        await self._runtime.abort(request_ids)

    def health(self) -> EngineHealth:
        self._notice_death()
        return self._scheduler.health()

    async def close(self) -> None:
        self._scheduler.die("closed")
        for running in self._running:
            running.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self._runtime.close()
        await self._scheduler.close()

    async def _answered(self, ticket: Ticket, prepare: Callable[[], Awaitable[Ask]]) -> Answer:
        """Run a pass of vLLM in a slot; whoever leaves before its end aborts it."""
        self._runtime.watch(self._notice_death)
        async with ticket.slot():
            running = asyncio.ensure_future(self._run(ticket, prepare))
            self._running.add(running)
            running.add_done_callback(self._autopsy)
            try:
                answer = await ticket.occupy(running)
            finally:
                running.cancel()  # the slot is free when vLLM has been told
        if answer.aborted:
            raise EngineError(f"vLLM gave up {ticket.request.id}")
        return answer

    async def _run(self, ticket: Ticket, prepare: Callable[[], Awaitable[Ask]]) -> Answer:
        return await self._runtime.answer(ticket.request.id, await prepare(), urgent=ticket.urgent)

    def _autopsy(self, running: asyncio.Future[Answer]) -> None:
        self._running.discard(running)
        # Taken, as nobody else may look at it: whoever asked has left when somebody aborts.
        if not running.cancelled() and running.exception() is not None:
            self._notice_death()

    def _notice_death(self) -> None:
        if self._scheduler.dead is None and (failure := self._runtime.failure):
            self._scheduler.die(failure)


def load_vllm(model: ModelFiles, *, max_batch: int, arguments: Mapping[str, Any]) -> VllmEngine:
    """Start vLLM with a model; half a minute for base on a CPU.

    Args:
        model: Its files, in Hugging Face's layout.
        max_batch: Passes that vLLM advances at once.
        arguments: Engine arguments of vLLM's own, over ours.

    Raises:
        ModelError: vLLM is not installed, or cannot load the model.
        SetupError: An engine argument does not exist or has a value it cannot have.
    """
    directory = model.directory
    if (directory / WEIGHTS).is_file():
        raise ModelError(
            f"vLLM reads Hugging Face's form of a model, and {directory} is in CTranslate2's. "
            f"Run: stentor convert {model.name} DIRECTORY, and give that directory as the model."
        )
    config = read_config(directory)
    log.info("starting vLLM", model=model.name)
    if config.get("model_type") != WHISPER:
        runtime = VllmRuntime(directory, max_batch=max_batch, given=arguments, landmarks=None)
        return VllmEngine(
            model.name,
            runtime,
            lambda answered: SpeechEar(runtime, answered),
            translates=False,
            logprobs=False,
        )
    tokenizer = WhisperTokenizer(directory)
    landmarks = {
        "eot": tokenizer.eot,
        "begin": tokenizer.timestamp_begin,
        "barred": [*barred_tokens(tokenizer, config), tokenizer.no_timestamps],
    }
    runtime = VllmRuntime(directory, max_batch=max_batch, given=arguments, landmarks=landmarks)
    multilingual = config["vocab_size"] >= MULTILINGUAL_VOCABULARY
    return VllmEngine(
        model.name,
        runtime,
        lambda answered: WhisperEar(
            tokenizer, runtime, answered, multilingual=multilingual, no_speech=no_speech_token(tokenizer)
        ),
        translates=multilingual,
        logprobs=True,
    )
