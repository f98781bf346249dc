"""Tables for people: framed on a terminal, plain columns elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

NONE = "-"
"""A figure that nobody measured."""


def cell(value: object) -> str:
    """A figure as people read it: three digits or so."""
    if value is None:
        return NONE
    if not isinstance(value, float):
        return str(value)
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def print_table(console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose cells all stand at the right."""
    if console.is_terminal:
        # Text may hold what rich reads as markup, such as a path in square brackets.
        table = Table(*map(escape, header), title=escape(title))
        for column in table.columns:
            column.justify = "right"
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
        return
    # For files and pipes: no frame, no wrapping, columns that line up.
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ("  ".join(map(str.rjust, row, widths)) for row in (header, *rows))
    console.print("\n".join((title, *lines)), markup=False, highlight=False, soft_wrap=True)
