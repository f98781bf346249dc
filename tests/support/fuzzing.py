"""Hooks for schemathesis: files that are audio as often as not, names that are known as often as not."""

from __future__ import annotations

import io
from typing import Any

import schemathesis
import soundfile
from hypothesis import strategies as st

from support.audio import noise


def _audio(kind: str, level: float = 0.05) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, noise(0.2, level=level), 16_000, format=kind)
    return file.getvalue()


FILES = (_audio("WAV"), _audio("FLAC"), _audio("OGG"), _audio("WAV", level=0), _audio("FLAC")[:-700])
schemathesis.openapi.format("binary", st.sampled_from(FILES) | st.binary(max_size=2_000))


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """Text of even length becomes a name that the server knows, so that some cases reach the engine."""
    for field, known in (("model", "whisper-1"), ("language", "de")):
        if isinstance(body, dict) and isinstance(body.get(field), str) and len(body[field]) % 2 == 0:
            body[field] = known
    return body


@schemathesis.hook
def filter_body(context: schemathesis.HookContext, body: Any) -> bool:
    """Leave out what a form cannot say: true and 7 arrive as text, a list of one as its entry.

    An empty list does not arrive at all.
    """
    return not isinstance(body, dict) or all(_sayable(field, value) for field, value in body.items())


def _sayable(field: str, value: Any) -> bool:
    if field in ("languages", "keywords", "include", "timestamp_granularities"):
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if field in ("model", "language", "prompt"):
        return isinstance(value, str)
    return not isinstance(value, list) or len(value) > 1
