"""The worst transcripts as a page to look at: what was said, what was heard, and where the chunks meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from stentor.bench import markup
from stentor.bench.score import unit_of
from stentor.eval.judge import Verdict
from stentor.eval.results import COLUMNS, cell
from stentor.eval.run import Group

WORST = 40
"""So many files are shown."""

CONTEXT = 12
"""Tokens of a long right passage that are shown on either side of an error."""

STYLE = """
del { color: #b3261e; } ins { color: #1b6e2d; text-decoration: none; border-bottom: 2px solid; }
h3 { margin-bottom: .2rem; font-size: 1rem; } p { margin-top: 0; }
@media (prefers-color-scheme: dark) { del { color: #f2b8b5; } ins { color: #9ed6a8; } }
"""


def write_page(path: Path, title: str, groups: Sequence[Group]) -> None:
    """Write one self-contained HTML file."""
    markup.write_page(path, title, _body(groups), STYLE)


def _body(groups: Sequence[Group]) -> Iterator[str]:
    yield from _table(groups)
    yield "<h2>Worst files</h2><p><del>said, not heard</del> <ins>heard, not said</ins></p>"
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    for verdict in sorted(verdicts, key=lambda verdict: -verdict.count.edits)[:WORST]:
        if verdict.count.edits or verdict.error:
            yield from _file(verdict)


def _table(groups: Sequence[Group]) -> Iterator[str]:
    rows = []
    for group in groups:
        figures = group.figures()
        rows.append([group.name, *(cell(name, figures[name]) for name in COLUMNS.values())])
    yield from markup.table(["corpus", *COLUMNS], rows, "Errors")


def _file(verdict: Verdict) -> Iterator[str]:
    count, path = verdict.count, verdict.utterance.path
    yield f"<h3>{escape(path.parent.name)}/{escape(path.name)}</h3>"
    what = f"{count.edits} errors in {count.references} {unit_of(verdict.utterance.language)}s"
    seams = f", {verdict.seam_edits} of them at seams" if verdict.seam_edits else ""
    failed = f", failed: {verdict.error}" if verdict.error else ""
    yield f"<p>{escape(what + seams + failed)}</p>"
    yield f"<p>{' '.join(_diff(verdict))}</p>"


def _diff(verdict: Verdict) -> Iterator[str]:
    for run in verdict.runs:
        said = verdict.reference[run.reference_start : run.reference_end]
        heard = verdict.tokens[run.heard_start : run.heard_end]
        if run.kind == "equal":
            yield escape(" ".join(_shortened(said)))
            continue
        if said:
            yield f"<del>{escape(' '.join(said))}</del>"
        if heard:
            yield f"<ins>{escape(' '.join(heard))}</ins>"


def _shortened(tokens: Sequence[str]) -> Sequence[str]:
    if len(tokens) <= 3 * CONTEXT:
        return tokens
    return [*tokens[:CONTEXT], "…", *tokens[-CONTEXT:]]
