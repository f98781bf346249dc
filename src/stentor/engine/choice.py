"""Which engine a model runs on here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import structlog

from stentor.engine.base import Engine
from stentor.errors import ModelError, SetupError
from stentor.models import ModelFiles

log = structlog.get_logger()

EngineName: TypeAlias = Literal["auto", "native", "ctranslate2", "vllm"]


def load_engine(
    model: ModelFiles,
    *,
    name: EngineName = "auto",
    slots: int,
    device: str,
    max_batch: int,
    compute_type: str | None = None,
    beam_size: int = 1,
    vllm_args: Mapping[str, Any] | None = None,
) -> Engine:
    """Load a model into the engine asked for, or the one that suits this machine; about a second for base.

    `auto` is the native engine where processor, device and weights suit it, and CTranslate2 where not; why
    not is logged. vLLM runs only where it is asked for.

    Args:
        model: Its files.
        name: The engine.
        slots: Chunks that CTranslate2 computes at once.
        device: `cpu`, `cuda` or `auto`.
        max_batch: Chunks that the native engine, or vLLM, computes at once.
        compute_type: What the native engine or CTranslate2 computes in; see there.
        beam_size: Transcripts of a window followed at once.
        vllm_args: vLLM's engine arguments.

    Raises:
        ModelError: The engine asked for does not run here, or no runtime can load the model.
        SetupError: The engine asked for does not take these settings.
    """
    # Runtimes are heavy: only the one that is chosen is imported.
    if name == "vllm":
        if beam_size > 1:
            raise SetupError("the vLLM engine follows one transcript at a time: leave STENTOR_BEAM_SIZE at 1")
        from stentor.engine.vllm.engine import load_vllm

        return load_vllm(model, max_batch=max_batch, arguments=vllm_args or {})
    if name != "ctranslate2":
        reason = _why_not_native(device, required=name == "native")
        if reason is None:
            from stentor.engine.native import NativeEngine

            try:
                return NativeEngine(
                    model, max_batch=max_batch, beam_size=beam_size, compute_type=compute_type
                )
            except ModelError as error:
                if name == "native":
                    raise
                reason = error.message
        if name == "native":
            raise ModelError(
                f"the native engine does not run here: {reason}. STENTOR_ENGINE=auto does without."
            )
        log.info("running on CTranslate2", why_not_native=reason)
    from stentor.engine.ct2 import CTranslate2Engine

    return CTranslate2Engine(
        model, slots=slots, device=device, compute_type=compute_type, beam_size=beam_size
    )


def _why_not_native(device: str, *, required: bool) -> str | None:
    """None where the native engine runs."""
    if device == "cuda":
        return "it computes on the CPU, and the device is cuda"
    try:
        import stentor_native
    except ImportError:
        return "stentor-native is not installed (`make setup` builds it where there is a C++ compiler)"
    supported, reason = stentor_native.supported()
    if not supported:
        return str(reason)
    if device == "auto" and not required:
        import ctranslate2

        if ctranslate2.get_cuda_device_count():
            return "there is a CUDA device"
    return None
