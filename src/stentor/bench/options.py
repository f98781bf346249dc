"""The options that several commands of the bench have, and how what goes wrong with them is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from stentor.errors import SetupError

RESULTS = Path("bench.jsonl")
"""Where results go, and where `report` looks for them, unless told otherwise."""

EXTRA_MODULES = frozenset({"cn2an", "httpx", "jiwer", "matplotlib", "opencc", "psutil", "whisper_normalizer"})
"""What `pip install stentor[bench]` brings."""

ManifestOption = Annotated[
    Path, typer.Option(exists=True, help="A manifest.jsonl, or a directory of audio files (no references).")
]
LanguageOption = Annotated[str | None, typer.Option(help="Only files in this language (a code).")]
PrefixOption = Annotated[str, typer.Option(help="Only files whose path in the manifest begins so.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Only so many files, from the start.")]
SendLanguageOption = Annotated[bool, typer.Option(help="Tell the language, or let it be detected.")]
SpeechOption = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Speech to make inputs from.")]
ServerOption = Annotated[str | None, typer.Option("--url", help="A running server; else one is started.")]
PidOption = Annotated[int | None, typer.Option(help="With --url: the server's pid, to watch its tree.")]
MetricsOption = Annotated[str, typer.Option(help='With --url: where a Stentor counts; "" for other servers.')]
KeyOption = Annotated[str | None, typer.Option(envvar="STENTOR_BENCH_API_KEY", show_envvar=True)]
JsonOption = Annotated[Path, typer.Option("--json", dir_okay=False, help="Append the results, one a line.")]
NameOption = Annotated[str | None, typer.Option("--name", help="What reports call it.")]


def levels_of(concurrency: str) -> tuple[int, ...]:
    """Read a list of counts such as 1,4,16."""
    try:
        levels = tuple(int(level) for level in concurrency.split(","))
    except ValueError:
        levels = ()
    if not levels or min(levels) < 1:
        raise typer.BadParameter(f"{concurrency!r} is not a list such as 1,4,16", param_hint="--concurrency")
    return levels


@contextmanager
def explained() -> Iterator[None]:
    """Turn a missing extra, and a plan that cannot be carried out, into one line and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_MODULES:
            raise
        typer.echo(f"{error.name} is not installed: pip install stentor[bench]", err=True)
        raise typer.Exit(2) from error
    except SetupError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(2) from error
