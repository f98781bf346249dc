"""The command line: `stentor serve`, `health`, `transcribe`, `models`, `convert`, `bench`, `eval`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stentor import __version__
from stentor.bench import commands
from stentor.cli import evaluate, health, serve, transcribe
from stentor.config import Settings
from stentor.errors import SetupError
from stentor.process import set_up_process

app = typer.Typer(
    name="stentor",
    help="Speech to text for many callers at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("health")(health.health)
app.command("transcribe")(transcribe.transcribe)
app.command("eval")(evaluate.evaluate)
app.add_typer(commands.app, name="bench")


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

    table = Table("model", "size", "state", "from")
    for entry in available():
        missing = f"pip install stentor\\[{entry.extra}]" if entry.extra else "fetched when first used"
        state = "installed" if entry.installed else missing
        table.add_row(entry.name, f"{entry.size_bytes / 1e6:.0f} MB", state, entry.source)
    Console().print(table)
    print("--model also takes a directory with CTranslate2 weights, or a hub repository id (owner/name).")


@app.command()
def convert(
    model: Annotated[str, typer.Argument(help="A packaged name, a directory or a hub id, as for --model.")],
    directory: Annotated[Path, typer.Argument(help="Where the converted model goes; it is made if need be.")],
) -> None:
    """Write a Whisper model from CTranslate2's form into Hugging Face's, which --engine vllm reads."""
    from stentor.models import resolve
    from stentor.whisper.convert import convert as write

    write(resolve(model, cache_dir=Settings.load().cache_dir).directory, directory)
    print(f"{directory} is {model} in Hugging Face's form: stentor serve --engine vllm --model {directory}")


def main() -> None:
    """Run the command line. Exit codes: 0 all good, 1 something failed, 2 usage."""
    set_up_process()
    try:
        app()
    except SetupError as error:
        print(f"stentor: {error.message}", file=sys.stderr)
        sys.exit(2)
