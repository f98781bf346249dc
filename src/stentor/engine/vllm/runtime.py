"""vLLM's asynchronous engine, AsyncLLM, behind the seam of `passes.py`. Nothing else here knows vLLM.

AsyncLLM keeps the features and the tokens in this process and starts another, the engine core, for the model.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from stentor.engine.vllm.arguments import URGENT, engine_arguments
from stentor.engine.vllm.passes import Answer, Ask, SpeechModel
from stentor.engine.vllm.timestamps import CONFIG, WANTED
from stentor.errors import EngineError, ModelError, SetupError
from stentor.types import DecodeOptions, Samples
from stentor.whisper.languages import LANGUAGES

ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",  # in its own processes: 150 lines of warnings at each start
    "VLLM_NO_USAGE_STATS": "1",  # nothing is told to anybody
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # this process has threads, which a fork would not survive
}
"""What vLLM reads from the environment, where the operator has not set it."""

CPU_ARGUMENTS = {
    # float16, which weights are often in, is computed slowly. bfloat16 is 1.3 times as fast, and base loses
    # its way in it: over a pause of 8 s it wrote dots to the window's end.
    "dtype": "float32",
    # One window's 1500 frames in a step and not two, so that a step, behind which an abort waits, is short.
    "max_num_batched_tokens": 2048,
}
"""What else suits a CPU."""

CLIP_ROWS_EVERY = 4
"""For so many chunks there is a row more, which later chunks of long files leave free for clips."""

LANES = "stentor.engine.vllm.lanes.lane_scheduler"

GRAMMAR = "stentor.engine.vllm.grammar:TimestampGrammar"

CLOSE_TIMEOUT_S = 10.0
"""After which processes that have not ended are killed; vLLM's CPU build takes 8 s."""

ABORTED = "abort"
"""Source: vLLM v1/engine/__init__.py, FINISH_REASON_STRINGS."""


class VllmRuntime:
    """One model on vLLM; it takes half a minute to start.

    Args:
        directory: The model, as Hugging Face lays it out.
        max_batch: Passes advanced at once; for first chunks there are some rows more.
        given: The operator's engine arguments.
        landmarks: For the timestamp grammar: `eot`, `begin` and `barred` tokens; None where there is none.

    Raises:
        ModelError: vLLM is not installed, or cannot load the model.
        SetupError: An engine argument does not exist or has a value it cannot have.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_batch: int,
        given: Mapping[str, Any],
        landmarks: Mapping[str, Any] | None,
    ) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            from vllm import AsyncEngineArgs
            from vllm.platforms import current_platform
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise ModelError(
                f"the vLLM engine does not run here: {error}. Run: pip install 'stentor[vllm]', or on a "
                "machine without a GPU see docs/engines.md"
            ) from error
        ours: dict[str, Any] = {
            "model": str(directory),
            "max_num_seqs": max_batch + math.ceil(max_batch / CLIP_ROWS_EVERY),
            "scheduling_policy": "priority",
            "scheduler_cls": LANES,
            "limit_mm_per_prompt": {"audio": 1},
            # It would keep 4 GB of features, by what is in them; no chunk comes twice.
            "mm_processor_cache_gb": 0,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        if current_platform.is_cpu():
            ours |= CPU_ARGUMENTS
        if landmarks is not None:
            ours |= {"logits_processors": [GRAMMAR], "additional_config": {CONFIG: dict(landmarks)}}
        known = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
        arguments = engine_arguments(given, ours, known=known)
        try:
            others = set(multiprocessing.active_children())
            with _without_interrupts():
                self._llm: Any = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
            started = set(multiprocessing.active_children()) - others
            # Copies, as vLLM closes its own when it pleases. Each becomes readable when its process ends.
            self._sentinels = [os.dup(process.sentinel) for process in started]
            self._watching: asyncio.AbstractEventLoop | None = None
            self._core_ended = False
        except (TypeError, ValueError) as error:  # pydantic's and vLLM's own are ValueErrors
            raise SetupError(f"vLLM does not start with {dict(given)}: {error}") from error
        except Exception as error:  # the core's end comes as RuntimeError, a bad weight file as anything
            raise ModelError(f"vLLM cannot load {directory}: {error}") from error
        self._slots = int(self._llm.vllm_config.scheduler_config.max_num_seqs)
        self._reserved = max(0, self._slots - max_batch)
        _log_as_everybody()

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def reserved(self) -> int:
        return self._reserved

    @property
    def failure(self) -> str | None:
        ended = self._core_ended or self._llm is None or self._llm.errored
        return "vLLM's engine core has ended" if ended else None

    @property
    def speech(self) -> SpeechModel:
        return _TranscriptionModel(self._llm.model_config)

    def watch(self, on_failure: Callable[[], None]) -> None:
        """Call back when a process of vLLM's ends, which it tells those who wait for an answer not always."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop()
            for sentinel in self._sentinels:
                self._watching.add_reader(sentinel, self._end, on_failure)

    def _end(self, on_failure: Callable[[], None]) -> None:
        self._forget_sentinels()
        self._core_ended = True
        on_failure()

    def _forget_sentinels(self) -> None:
        for sentinel in self._sentinels:
            if self._watching is not None:
                self._watching.remove_reader(sentinel)
            os.close(sentinel)
        self._sentinels.clear()

    async def render(self, prompt: Any) -> Any:
        from vllm.renderers.inputs.preprocess import parse_model_prompt  # as vLLM's server does

        parsed = parse_model_prompt(self._llm.model_config, prompt)
        (rendered,) = await self._llm.renderer.render_cmpl_async([parsed])
        return rendered

    async def answer(self, request_id: str, ask: Ask, *, urgent: bool) -> Answer:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            temperature=ask.temperature,
            seed=ask.seed,
            max_tokens=ask.max_tokens,
            logprobs=None if ask.logprobs_of else 0,
            logprob_token_ids=list(ask.logprobs_of) or None,
            prompt_logprobs=ask.prompt_logprobs,
            detokenize=not ask.timestamps,
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args={WANTED: ask.words_before} if ask.timestamps else None,
        )
        output: Any = None
        try:
            # Also without lanes, should the operator not want them: the policy is vLLM's own.
            priority = URGENT if urgent else 0
            async for told in self._llm.generate(ask.prompt, params, request_id, priority=priority):
                output = told
        except Exception as error:  # whatever vLLM finds wrong with a pass
            raise EngineError(f"vLLM: {error}") from error
        written = output.outputs[0]
        return Answer(
            tokens=list(written.token_ids),
            text=written.text,
            logprobs=_plain(written.logprobs),
            prompt_logprobs=_plain(output.prompt_logprobs),
            aborted=written.finish_reason == ABORTED,
        )

    async def abort(self, request_ids: Collection[str]) -> None:
        if self.failure is None:
            await self._llm.abort(list(request_ids))

    async def close(self) -> None:
        llm, self._llm = self._llm, None
        if llm is None:
            return
        self._forget_sentinels()
        if llm.output_handler is not None:
            llm.output_handler.cancel()  # it would take the core's end for a death and say so
        await asyncio.to_thread(llm.shutdown, CLOSE_TIMEOUT_S)


class _TranscriptionModel:
    """What vLLM's model classes know about transcripts: SupportsTranscription.

    Raises:
        ModelError: The model does not transcribe.
    """

    def __init__(self, model_config: Any) -> None:
        from vllm.model_executor.model_loader import get_model_cls
        from vllm.model_executor.models.interfaces import supports_transcription

        self._model: Any = get_model_cls(model_config)
        if not supports_transcription(self._model):
            raise ModelError(f"{self._model.__name__} is not a model that transcribes")
        self._model_config = model_config
        self._config = self._model.get_speech_to_text_config(model_config, "transcribe")

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(code for code in self._model.supported_languages if code in LANGUAGES)

    def prompt(self, samples: Samples, options: DecodeOptions) -> Any:
        from vllm.config.speech_to_text import SpeechToTextParams

        return self._model.get_generation_prompt(
            SpeechToTextParams(
                audio=samples,
                stt_config=self._config,
                model_config=self._model_config,
                language=options.language,
                hotwords=",".join(options.keywords) or None,
                request_prompt=options.prompt or "",
            )
        )

    def text_of(self, written: str) -> str:
        return str(self._model.post_process_output(written))


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started here do not get the terminal's Ctrl-C: Stentor drains first and then ends them."""
    resource_tracker.ensure_running()  # it would be started on the way, and unblocks the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _log_as_everybody() -> None:
    """What vLLM logs in this process goes through the root logger."""
    logger = logging.getLogger("vllm")
    logger.handlers.clear()
    logger.propagate = True
    logger.setLevel(logging.WARNING)


def _plain(told: Sequence[Mapping[int, Any] | None] | None) -> list[dict[int, float]]:
    """Log-probabilities as numbers."""
    return [{token: one.logprob for token, one in (place or {}).items()} for place in told or ()]
