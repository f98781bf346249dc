"""What an engine hears."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing

from stentor.engine.base import Engine
from stentor.types import EngineRequest, Segment


async def heard(engine: Engine, request: EngineRequest) -> list[Segment]:
    """All segments of a chunk."""
    async with aclosing(engine.generate(request)) as outputs:
        return [segment async for output in outputs for segment in output.segments]


def words(segments: Sequence[Segment]) -> str:
    """Their words, in lower case and without punctuation."""
    return " ".join(re.findall(r"[a-z]+", "".join(segment.text for segment in segments).lower()))
