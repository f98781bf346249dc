"""RTFx over the size of the preprocessing pool, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stentor.bench.records import Record


@dataclass(frozen=True, slots=True)
class Spread:
    """A median of several runs between the lowest and the highest."""

    median: float
    low: float
    high: float


def draw_workers(
    axes: Axes, settings: Sequence[str], rtfx: Sequence[Spread], colour: str = "C0", ink: str = "black"
) -> None:
    """Draw a bar for each setting of the pool, and what its runs were between."""
    below = [spread.median - spread.low for spread in rtfx]
    above = [spread.high - spread.median for spread in rtfx]
    medians = [spread.median for spread in rtfx]
    axes.bar(settings, medians, width=0.6, yerr=[below, above], capsize=4, color=colour, ecolor=ink)
    axes.set_xlabel("preprocessing workers (inline: on the event loop)")
    axes.set_ylabel("RTFx")


def plot_server(records: Sequence[Record], path: Path) -> None:
    """Draw the records of the part `server` into a file."""
    plan = records[0].plan
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    names = ("rtfx", "rtfx_min", "rtfx_max")
    spreads = [Spread(*(float(str(record.figures[name])) for name in names)) for record in records]
    draw_workers(axes, [str(record.plan["workers"]) for record in records], spreads)
    axes.set_title(
        f"{plan['uploads']} uploads at once, {plan['upload_s']:g} s of mp3 each, engine {plan['engine']}"
    )
    figure.savefig(path)
