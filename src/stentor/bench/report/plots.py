"""Figures as SVG to stand in a page: coloured by the page's style, told in words to who does not see them.

No text of a result file goes into a picture but the names of preprocessing settings: names of servers stand
in the page's own legends, where they wrap and can be read in any script.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stentor.bench.plot import Spread, draw_workers

SIZE_IN = (6.4, 3.4)
HEADROOM = 1.08
"""Of the axis above the highest point."""

INK, GRID = "#010203", "#040506"
"""Stand for the page's colours until the picture is done, as `_COLOURS` do."""

COLOURS = 6
MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼"}
"""matplotlib's, and characters that look like them. No pair with a colour comes twice among thirty."""

_COLOURS = [f"#0a0b0{index}" for index in range(COLOURS)]

STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.color": GRID,
    "svg.fonttype": "none",  # letters, not outlines of them: half the size, and can be searched
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Figures by requests in flight; `server` is the number of the server in the legend."""

    server: int
    values: Mapping[int, float]
    dashed: bool = False


def colour(index: int) -> int:
    """The colour of the page's style that a server of this number has."""
    return index % COLOURS


def stage_colour(index: int) -> int:
    """The colour of a stage: shifted, so that the engine's, which is most of a bar, is the calmest."""
    return (index + 2) % COLOURS


def glyph(index: int) -> str:
    """The marker that a server of this number has, as a character."""
    return list(MARKERS.values())[index % len(MARKERS)]


def curves(slug: str, said: str, y_label: str, drawn: Sequence[Curve]) -> str:
    """Draw curves over requests in flight.

    Args:
        slug: Tells this picture's parts from those of others in the page.
        said: The picture in words.
        y_label: What the figures are.
        drawn: The curves.
    """
    with _axes(slug) as (figure, axes):
        for curve in drawn:
            axes.plot(
                list(curve.values),
                list(curve.values.values()),
                color=_COLOURS[colour(curve.server)],
                linestyle="--" if curve.dashed else "-",
                marker=list(MARKERS)[curve.server % len(MARKERS)],
            )
        levels = sorted({level for curve in drawn for level in curve.values})
        axes.set_xscale("log", base=2)
        axes.set_xticks(levels, list(map(str, levels)))
        axes.minorticks_off()
        axes.set_xlim(levels[0] / 1.2, levels[-1] * 1.2)
        axes.set_ylim(0, HEADROOM * max(max(curve.values.values()) for curve in drawn) or 1)
        axes.set_xlabel("requests in flight")
        axes.set_ylabel(y_label)
        return _svg(figure, slug, said)


def workers(slug: str, said: str, settings: Sequence[str], rtfx: Sequence[Spread]) -> str:
    """Draw RTFx over preprocessing workers."""
    with _axes(slug) as (figure, axes):
        draw_workers(axes, settings, rtfx, colour=_COLOURS[0], ink=INK)
        return _svg(figure, slug, said)


def stacks(slug: str, said: str, bars: Mapping[str, Mapping[str, float]]) -> str:
    """Draw a bar for each number of requests in flight, of seconds by stage; all have the same stages."""
    stages = list(next(iter(bars.values())))
    with _axes(slug, height_in=1.3 + 0.45 * len(bars)) as (figure, axes):
        left = [0.0] * len(bars)
        for index, stage in enumerate(stages):
            widths = [seconds[stage] for seconds in bars.values()]
            axes.barh(list(bars), widths, left=left, height=0.6, color=_COLOURS[stage_colour(index)])
            left = [begin + width for begin, width in zip(left, widths, strict=True)]
        axes.set_xlim(0, HEADROOM * max(left) or 1)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_ylabel("in flight")
        axes.set_xlabel("seconds per request")
        return _svg(figure, slug, said)


@contextmanager
def _axes(slug: str, height_in: float = SIZE_IN[1]) -> Iterator[tuple[Figure, Axes]]:
    with mpl.rc_context({**STYLE, "svg.hashsalt": slug}):
        figure = Figure(figsize=(SIZE_IN[0], height_in), layout="constrained")
        axes = figure.subplots()
        axes.grid(visible=True)
        axes.set_axisbelow(True)
        yield figure, axes


def _svg(figure: Figure, slug: str, said: str) -> str:
    """A picture without what only a file of its own needs, in the page's colours."""
    file = io.StringIO()
    with warnings.catch_warnings():
        # A letter that matplotlib's font lacks is measured as a box; the page has other fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'( id="|href="#|url\(#)', rf"\1{slug}-", drawn)
    drawn = drawn.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    for index, stand_in in enumerate(_COLOURS):
        drawn = drawn.replace(stand_in, f"var(--colour-{index})")
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(said, quote=True)}" ', 1)
