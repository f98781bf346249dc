"""The table of docs/metrics.md, from the series that a server declares."""

from __future__ import annotations

import sys
from pathlib import Path

from stentor.api.services import make_services
from stentor.config import Settings
from stentor.engine.fake import FakeEngine
from stentor.preprocess import PreprocessPool

HEAD = "| series | type | labels | what it is |"


def metrics_table() -> str:
    """All series as a table."""
    pool = PreprocessPool(1)
    declared = make_services(Settings(), FakeEngine(), pool).metrics.series
    pool.close()
    lines = [HEAD, "|---|---|---|---|"]
    for series in sorted(declared, key=lambda series: series.name):
        labels = ", ".join(f"`{label}`" for label in series.labels)
        lines.append(f"| `{series.name}` | {series.kind} | {labels} | {series.documentation} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table into the document named on the command line, in place of the old one."""
    document = Path(sys.argv[1])
    prose = document.read_text(encoding="utf-8").partition(HEAD)[0]
    document.write_text(prose + metrics_table(), encoding="utf-8")


if __name__ == "__main__":
    main()
