"""faster-whisper on the same files with the same weights: the figure to hold ours against.

This is the one exception to "bench talks HTTP only": the peer is a library, so it runs in this very
interpreter and pays for no HTTP. That is to its advantage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import av

from stentor.bench.manifest import Utterance
from stentor.bench.probes import PidTree
from stentor.bench.results import LevelResult, RequestResult
from stentor.errors import SetupError

COMPUTE_TYPE = "int8"
BEAM_SIZE = 1


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """How faster-whisper shall transcribe; everything not named here is as the library has it.

    `batch_size` chooses its BatchedInferencePipeline, which splits a file at pauses and decodes so many
    pieces at once. That one runs with its own voice activity filter: without, it refuses what is longer
    than 30 s. None is the plain WhisperModel, without a filter. `cpu_threads` 0 is the library's choice.
    """

    model_dir: Path
    utterances: tuple[Utterance, ...]
    send_language: bool = True
    batch_size: int | None = None
    device: str = "cpu"
    cpu_threads: int = 0


class _Segment(Protocol):
    text: str


class _Model(Protocol):
    """What WhisperModel and BatchedInferencePipeline have in common."""

    def transcribe(self, audio: str, **options: Any) -> tuple[Iterable[_Segment], object]: ...


def run_peer(plan: PeerPlan) -> LevelResult:
    """Transcribe every utterance, one after the other. The time to load the model is not counted.

    Raises:
        SetupError: faster-whisper is not installed, or cannot load the model.
    """
    model = _load(plan)
    tree = PidTree(os.getpid())
    requests = []
    start_s = perf_counter()
    for utterance in plan.utterances:
        requests.append(_transcribe(model, plan, utterance))
        tree.sample()
    wall_s = perf_counter() - start_s
    return LevelResult(1, tuple(requests), wall_s, server=tree.figures)


def peer_name(plan: PeerPlan) -> str:
    """Name library, mode and weights for a report."""
    mode = "" if plan.batch_size is None else f" batched={plan.batch_size}"
    return f"faster-whisper{mode} {plan.model_dir.name}"


def _load(plan: PeerPlan) -> _Model:
    try:
        # Imported by name: no extra of ours brings it, so a type checker cannot count on finding it.
        library = import_module("faster_whisper")
    except ModuleNotFoundError as error:
        raise SetupError(f"{error.name} is not installed: pip install faster-whisper") from error
    try:
        model: _Model = library.WhisperModel(
            str(plan.model_dir),
            device=plan.device,
            compute_type=COMPUTE_TYPE,
            cpu_threads=plan.cpu_threads,
            local_files_only=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise SetupError(f"faster-whisper cannot load {plan.model_dir}: {error}") from error
    if plan.batch_size is not None:
        model = library.BatchedInferencePipeline(model)
    return model


def _transcribe(model: _Model, plan: PeerPlan, utterance: Utterance) -> RequestResult:
    options: dict[str, object] = {"beam_size": BEAM_SIZE}
    if plan.send_language:
        options["language"] = utterance.language
    if plan.batch_size is not None:
        options["batch_size"] = plan.batch_size
    text, error = None, None
    start_s = perf_counter()
    try:
        segments, _ = model.transcribe(str(utterance.path), **options)
        text = "".join(segment.text for segment in segments).strip()  # The work is done in this loop.
    except (av.FFmpegError, RuntimeError, ValueError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    return RequestResult(utterance, None, perf_counter() - start_s, text, error)
