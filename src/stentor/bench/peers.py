"""faster-whisper on the same files with the same weights: the figure to hold ours against.

This is the one exception to "bench talks HTTP only": the peer is a library, so it runs in this very
interpreter and pays for no HTTP. That is to its advantage.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import av

from stentor.bench.manifest import Utterance
from stentor.bench.probes import PidTree
from stentor.bench.records import Subject, versions_of
from stentor.bench.results import LevelResult, RequestResult
from stentor.errors import SetupError
from stentor.types import Samples

WEIGHTS = "model.bin"
"""What CTranslate2 calls them."""

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


class PeerWord(Protocol):
    """faster-whisper's Word."""

    word: str
    start: float
    end: float


class PeerSegment(Protocol):
    """faster-whisper's Segment; `words` only where they were asked for."""

    text: str
    start: float
    end: float
    words: list[PeerWord] | None


class PeerInfo(Protocol):
    """faster-whisper's TranscriptionInfo."""

    language: str


class PeerModel(Protocol):
    """What WhisperModel and BatchedInferencePipeline have in common."""

    def transcribe(self, audio: str | Samples, **options: Any) -> tuple[Iterable[PeerSegment], PeerInfo]: ...


def run_peer(plan: PeerPlan, on_answer: Callable[[], None] = lambda: None) -> LevelResult:
    """Transcribe every utterance, one after the other. The time to load the model is not counted.

    `on_answer` is called after each utterance.

    Raises:
        SetupError: faster-whisper is not installed, or cannot load the model.
    """
    model = load_peer(
        plan.model_dir, batch_size=plan.batch_size, device=plan.device, cpu_threads=plan.cpu_threads
    )
    tree = PidTree(os.getpid())
    requests = []
    start_s = perf_counter()
    for utterance in plan.utterances:
        requests.append(_transcribe(model, plan, utterance))
        tree.sample()
        on_answer()
    wall_s = perf_counter() - start_s
    return LevelResult(1, tuple(requests), wall_s, server=tree.figures)


def peer_subject(plan: PeerPlan, name: str | None) -> Subject:
    """Library and mode, and the weights with their digest, for a report."""
    mode = "" if plan.batch_size is None else f" batched={plan.batch_size}"
    return Subject(
        name=name or f"faster-whisper{mode}",
        model=plan.model_dir.name,
        digest=_digest(plan.model_dir / WEIGHTS),
        versions=versions_of("faster-whisper", "ctranslate2"),
    )


def _digest(weights: Path) -> str | None:
    """SHA-256; None where the library will say by itself that there is nothing to read."""
    if not weights.is_file():
        return None
    with weights.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_peer(
    model_dir: Path,
    *,
    compute_type: str = COMPUTE_TYPE,
    batch_size: int | None = None,
    device: str = "cpu",
    cpu_threads: int = 0,
) -> PeerModel:
    """Load CTranslate2 weights into faster-whisper; see `PeerPlan`.

    Raises:
        SetupError: faster-whisper is not installed, or cannot load the model.
    """
    try:
        # Imported by name: no extra of ours brings it, so a type checker cannot count on finding it.
        library = import_module("faster_whisper")
    except ModuleNotFoundError as error:
        raise SetupError(f"{error.name} is not installed: pip install faster-whisper") from error
    try:
        model: PeerModel = library.WhisperModel(
            str(model_dir),
            device=device,
            compute_type=compute_type,
            cpu_threads=cpu_threads,
            local_files_only=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise SetupError(f"faster-whisper cannot load {model_dir}: {error}") from error
    if batch_size is not None:
        model = library.BatchedInferencePipeline(model)
    return model


def _transcribe(model: PeerModel, plan: PeerPlan, utterance: Utterance) -> RequestResult:
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
