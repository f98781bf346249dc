"""How much of the preprocessing is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreprocessPlan:
    """What every part of the bench is told.

    `clips` are decoded per run in each of `threads`; `settings` are those of the servers, see
    `uploads.serving`; `decoding` are the workers beside a ticking loop. Files are `clip_s`, `upload_s` (for
    the servers) and `long_s` (for loop and memory) long.
    """

    repeats: int
    clips: int
    ticker_s: float
    upload_s: float
    long_s: float
    clip_s: float = 30.0
    threads: tuple[int, ...] = (1, 2, 4)
    settings: tuple[str, ...] = ("inline", "1", "2", "4", "8")
    decoding: tuple[int, ...] = (0, 1, 2)
    uploads: int = 16
    engine: str = "fake"
    model: str = "tiny.en"


FULL = PreprocessPlan(repeats=5, clips=24, ticker_s=5.0, upload_s=600.0, long_s=3600.0)
"""For figures to print: some 15 minutes on two cores, which should have nothing else to do."""

QUICK = PreprocessPlan(repeats=1, clips=6, ticker_s=1.0, upload_s=60.0, long_s=300.0)
"""To see that it works: about a minute."""
