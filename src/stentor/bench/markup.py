"""Self-contained HTML pages: one file, no script, nothing asked of anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 14px; } th, td { padding: .2rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; margin: 1rem 0; }
thead th { border-bottom: 1px solid; vertical-align: bottom; }
tbody th { min-width: 9rem; font-weight: normal; }
tbody tr:nth-child(even) { background: color-mix(in srgb, currentColor 6%, transparent); }
"""


def write_page(path: Path, title: str, body: Iterable[str], style: str = "") -> None:
    """Write a page; `body` is markup, `title` is not.

    Raises:
        OSError: It cannot be written.
    """
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{style}</style><main><h1>{escape(title)}</h1>"
    )
    path.write_text("\n".join((head, *body, "</main></html>\n")), encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> Iterator[str]:
    """A table of plain texts, whose first column names the rows; wider than the window it can be scrolled.

    `label` tells who does not see the page what the table is of.
    """
    yield f'<div class="wide" role="region" aria-label="{escape(label, quote=True)}" tabindex="0"><table>'
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        yield f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'
    yield "</tbody></table></div>"
