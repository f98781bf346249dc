"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

ConditionOption = Annotated[
    bool,
    typer.Option("--condition", help="Hear in order, each chunk with what was said before it: slower."),
]
CodeSwitchingOption = Annotated[
    bool, typer.Option("--code-switching", help="Detect the language of each chunk, not of the whole file.")
]
KeywordOption = Annotated[
    list[str] | None, typer.Option(help="A word that is likely to come up; may be given again.")
]
