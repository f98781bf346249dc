"""What a model's files say about its vocabulary beside the tokens' texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stentor.errors import ModelError
from stentor.whisper.tokenizer import WhisperTokenizer

NEVER_SPOKEN = (
    "<|startoftranscript|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|nocaptions|>",
)
"""Barred whatever the model's files say. Source: openai/whisper decoding.py, _get_suppress_tokens."""

MULTILINGUAL_VOCABULARY = 51865
"""Tokens. A model for English alone has the language tokens as well, and fewer others. Source: openai/whisper
model.py, is_multilingual."""


def read_config(directory: Path) -> dict[str, Any]:
    """What the model's files say beside its weights (CTranslate2's or Hugging Face's names).

    Raises:
        ModelError: One of them cannot be read.
    """
    config: dict[str, Any] = {}
    for name in ("config.json", "generation_config.json"):
        if (directory / name).is_file():
            try:
                config |= json.loads((directory / name).read_text(encoding="utf-8"))
            except ValueError as error:
                raise ModelError(f"cannot read {directory / name}: {error}") from error
    return config


def barred_tokens(tokenizer: WhisperTokenizer, config: Mapping[str, Any]) -> list[int]:
    """What a transcript never holds, in order."""
    barred = config.get("suppress_ids") or config.get("suppress_tokens") or []
    special = [tokenizer.special(name) for name in NEVER_SPOKEN if tokenizer.knows(name)]
    return sorted({*(token for token in barred if token >= 0), *special})


def barred_at_begin(tokenizer: WhisperTokenizer, config: Mapping[str, Any]) -> list[int]:
    """What a transcript does not begin with, in order."""
    barred = config.get("suppress_ids_begin") or config.get("begin_suppress_tokens") or []
    return sorted({*barred, *tokenizer.encode(" "), tokenizer.eot})


def no_speech_token(tokenizer: WhisperTokenizer) -> int | None:
    """By which the model says that nobody speaks; its name has changed."""
    name = next((name for name in ("<|nospeech|>", "<|nocaptions|>") if tokenizer.knows(name)), None)
    return None if name is None else tokenizer.special(name)
