"""`stentor bench preprocess`: what decoding, resampling and cutting cost, and what they do to a server.

    clips   decoders side by side in 1, 2, 4 threads     clips.py     in this program
    server  RTFx and liveness over the pool's size       uploads.py   servers in programs of their own
    loop    lateness of an event loop beside decoding    ticker.py    in this program
    memory  what a server holds under long uploads       uploads.py   a server in a program of its own

This looks into rooms of ours that HTTP does not reach. `clips.py`, `ticker.py` and the server under test
(`served.py`) are the exceptions to "the bench talks HTTP only", and `pyproject.toml` lists them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from stentor.bench.clips import measure_clips
from stentor.bench.inputs import Inputs
from stentor.bench.plan import PreprocessPlan
from stentor.bench.progress import progress
from stentor.bench.records import Record, Store, show
from stentor.bench.ticker import measure_loop
from stentor.bench.uploads import measure_memory, measure_server
from stentor.errors import SetupError

Part: TypeAlias = Callable[[Inputs, PreprocessPlan], Iterator[Record]]

PARTS: Mapping[str, Part] = {
    "clips": measure_clips,
    "server": measure_server,
    "loop": measure_loop,
    "memory": measure_memory,
}

SPOKEN = frozenset({"clips", "server"})
"""Parts that need speech: what a codec or a real engine makes of noise says nothing."""


def run_parts(
    plan: PreprocessPlan,
    parts: Sequence[str],
    speech: Path | None,
    store: Store,
    *,
    plot: Path | None = None,
) -> bool:
    """Measure part after part: store each record at once, print each part when it is done.

    Returns:
        Whether every upload was answered.

    Raises:
        SetupError: The parts cannot be measured as asked.
    """
    _check(parts, speech, plot)
    answered = True
    with tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder:
        inputs = Inputs(Path(folder), speech)
        for part in parts:
            records = _run_part(part, PARTS[part](inputs, plan), store)
            if plot is not None and part == "server":
                _plot(records, plot)
            answered = answered and not any(record.figures.get("failed") for record in records)
    return answered


def _run_part(part: str, measured: Iterator[Record], store: Store) -> list[Record]:
    """Store each record at once and print all at the end, also at one that Ctrl-C brings early."""
    records: list[Record] = []
    try:
        with progress(f"{part}: rows") as advance:
            for record in measured:
                records.append(record)
                store(record)
                advance()
    finally:
        show(records, Console())
    return records


def _plot(records: Sequence[Record], path: Path) -> None:
    from stentor.bench.plot import plot_server  # matplotlib takes 0.5 s to import, and most runs draw nothing

    plot_server(records, path)


def _check(parts: Sequence[str], speech: Path | None, plot: Path | None) -> None:
    """Find out now what would else be found out after an hour of measuring."""
    if unknown := sorted(set(parts) - set(PARTS)):
        raise SetupError(f"--part: {', '.join(unknown)} is none of {', '.join(PARTS)}")
    if speech is None and not SPOKEN.isdisjoint(parts):
        raise SetupError("--speech: clips and server need an audio file with speech in it")
    if plot is not None:
        if "server" not in parts:
            raise SetupError("--plot: only server has something to draw")
        import_module("matplotlib")
