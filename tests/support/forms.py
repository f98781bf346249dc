"""What httpx posts."""

from __future__ import annotations

from typing import Any


def form(audio: bytes, **fields: str) -> dict[str, Any]:
    """Arguments for a post of some audio with fields."""
    return {"data": fields, "files": {"file": ("a.flac", audio)}}
