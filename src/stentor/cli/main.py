"""The command line: `stentor serve`, `transcribe`, `models`, `bench`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stentor import __version__
from stentor.cli import serve, transcribe
from stentor.errors import SetupError

app = typer.Typer(
    name="stentor",
    help="Speech to text for many callers at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("transcribe")(transcribe.transcribe)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"stentor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def models() -> None:
    """List the models that --model takes, and how to install those that are missing."""
    from stentor.models import available

    table = Table("model", "state", "from")
    for entry in available():
        table.add_row(entry.name, "installed" if entry.installed else "not installed", entry.source)
    Console().print(table)
    print("--model also takes a directory with CTranslate2 weights, or a hub repository id (owner/name).")


def main() -> None:
    """Run the command line. Exit codes: 0 all good, 1 something failed, 2 usage."""
    try:
        app()
    except SetupError as error:
        print(f"stentor: {error.message}", file=sys.stderr)
        sys.exit(2)


def _mount_bench() -> None:
    from stentor.bench.commands import app as bench

    app.add_typer(bench, name="bench")


_mount_bench()
