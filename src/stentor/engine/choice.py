"""Which engine a model runs on here."""

from __future__ import annotations

from stentor.engine.base import Engine
from stentor.models import ModelFiles


def load_engine(model: ModelFiles, *, slots: int, device: str) -> Engine:
    """Load a model into the engine that suits this machine; takes about a second for base.

    Raises:
        ModelError: The runtime cannot load the model.
    """
    from stentor.engine.ct2 import CTranslate2Engine  # runtimes are heavy: only the chosen one is imported

    return CTranslate2Engine(model, slots=slots, device=device)
