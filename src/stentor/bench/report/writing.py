"""A report from result files to its page, and its comparisons as plain tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from stentor.bench.markup import write_page
from stentor.bench.report import page
from stentor.bench.report.comparisons import comparisons_of, machine_name
from stentor.bench.report.preprocessing import pools_of
from stentor.bench.report.reading import read_results
from stentor.bench.tables import print_table
from stentor.errors import SetupError


def write_report(files: Sequence[Path], output: Path, console: Console, errors: Console) -> None:
    """Write the page, print the comparisons, and name what was left out.

    Raises:
        SetupError: A file cannot be read, none holds a result, or the page cannot be written.
    """
    try:
        results = read_results(files)
    except OSError as error:
        raise SetupError(f"{error.filename} cannot be read: {error.strerror}") from error
    for skipped in results.skipped:
        errors.print(f"left out {skipped}", markup=False, highlight=False, soft_wrap=True)
    if not results.lines:
        raise SetupError(f"{', '.join(map(str, files))}: no results of stentor bench")
    comparisons = comparisons_of(results.levels)
    for comparison in comparisons:
        title = f"{comparison.files}; {machine_name(comparison.machine)}"
        print_table(console, title, *comparison.table())
        console.print()
    try:
        body = page.body(results, comparisons, pools_of(results.settings))
        write_page(output, page.TITLE, body, page.STYLE)
    except OSError as error:
        raise SetupError(f"{output} cannot be written: {error.strerror}; see --output") from error
    console.print(f"{output}: {len(results.lines)} results", markup=False, highlight=False, soft_wrap=True)
