"""VLLM, where it is installed: `make vllm` makes an environment that has it."""

from __future__ import annotations

import importlib.util
import tempfile
from functools import cache
from pathlib import Path

from stentor.engine.vllm.engine import VllmEngine, load_vllm
from stentor.models import ModelFiles
from stentor.whisper.convert import convert

QUICK_START = {"enforce_eager": True}
"""Nothing is compiled: half a minute less, and tests ask little."""


def has_vllm() -> bool:
    return importlib.util.find_spec("vllm") is not None


@cache
def converted(directory: Path) -> Path:
    """A model in the form that vLLM reads; once for all tests."""
    target = Path(tempfile.mkdtemp(prefix="stentor-vllm-"))
    convert(directory, target)
    return target


def started_vllm(model: ModelFiles, *, max_batch: int) -> VllmEngine:
    """An engine with a model in CTranslate2's form, and no more rows than asked for."""
    files = ModelFiles(model.name, converted(model.directory), model.digest)
    return load_vllm(files, max_batch=max_batch, arguments={**QUICK_START, "max_num_seqs": max_batch})
