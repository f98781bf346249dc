"""RTFx over the size of the preprocessing pool, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from stentor.bench.records import Record


def plot_server(records: Sequence[Record], path: Path) -> None:
    """Draw the records of the part `server`: the median with its lowest and highest run."""
    settings = [str(record.plan["workers"]) for record in records]
    median, low, high = (
        [float(record.figures[name] or 0.0) for record in records]
        for name in ("rtfx", "rtfx_min", "rtfx_max")
    )
    below = [middle - end for middle, end in zip(median, low, strict=True)]
    above = [end - middle for middle, end in zip(median, high, strict=True)]
    plan = records[0].plan
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.bar(settings, median, width=0.6, yerr=[below, above], capsize=4)
    axes.set_xlabel("preprocessing workers (inline: on the event loop)")
    axes.set_ylabel("RTFx")
    axes.set_title(
        f"{plan['uploads']} uploads at once, {plan['upload_s']:g} s of mp3 each, engine {plan['engine']}"
    )
    figure.savefig(path)
