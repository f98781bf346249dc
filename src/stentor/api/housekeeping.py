"""Gives freed memory back to the system when the house is empty."""

from __future__ import annotations

import asyncio
import ctypes
import sys

from stentor.admission import Admission

PERIOD_S = 1.0


async def return_memory_when_idle(admission: Admission) -> None:
    """Trim the C heap whenever work has been done since the last time and none is under way. Never ends.

    glibc keeps what was freed: after a storm of uploads, of which nothing was left in Python, a server stood
    at 574 MB and after this at 134. Not under load, where the next chunk would fetch the pages again (an
    encoder pass of CTranslate2 took 14 % longer).
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    if trim is None:
        return
    trimmed_at = admission.finished
    while True:
        await asyncio.sleep(PERIOD_S)
        if not admission.active and admission.finished != trimmed_at:
            trimmed_at = admission.finished
            await asyncio.to_thread(trim, 0)
