"""`stentor transcribe`: files through the same road as the server's."""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stentor.api.wire import ResponseFormat
from stentor.config import Settings
from stentor.errors import InvalidValue
from stentor.observe.logs import set_up_logs
from stentor.types import DecodeOptions
from stentor.whisper.languages import language_code


class TaskName(StrEnum):
    """What to write down: the words as spoken, or their English translation."""

    TRANSCRIBE = "transcribe"
    TRANSLATE = "translate"


def transcribe(
    files: Annotated[list[Path], typer.Argument(help="Audio or video files, of any common format.")],
    model: Annotated[
        str | None, typer.Option(help="Directory, packaged name or hub id; see `stentor models`.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Code or English name; detected when not given.")
    ] = None,
    task: Annotated[TaskName, typer.Option(help="Keep the language, or translate to English.")] = (
        TaskName.TRANSCRIBE
    ),
    format: Annotated[ResponseFormat, typer.Option(help="What to write.")] = ResponseFormat.TEXT,
    prompt: Annotated[str | None, typer.Option(help="Text before the audio: names, spelling, style.")] = None,
    keyword: Annotated[
        list[str] | None, typer.Option(help="A word that is likely to come up; may be given again.")
    ] = None,
    vad: Annotated[bool, typer.Option("--vad", help="Leave out what is not speech.")] = False,
    output: Annotated[
        Path | None, typer.Option(file_okay=False, help="Write one file per input here instead of stdout.")
    ] = None,
) -> None:
    """Transcribe files. Exit codes: 0 all good, 1 some file failed, 2 usage."""
    from stentor.audio.vad import VadOptions
    from stentor.cli.files import Outlet, transcribe_all  # heavy, and `--help` needs none of it
    from stentor.cli.progress import display
    from stentor.transcriber import AudioRequest

    try:
        code = language_code(language) if language else None
    except InvalidValue as error:
        raise typer.BadParameter(error.message, param_hint="--language") from error
    settings = Settings.load(**({"model": model} if model else {}))
    set_up_logs(as_json=settings.log_json, level=logging.WARNING)  # stdout is for transcripts
    inputs = list(dict.fromkeys(files))
    with display() as shown:
        outlet = Outlet(format, output, inputs)
        options = DecodeOptions(code, task.value, prompt, keywords=tuple(keyword or ()))
        ask = partial(AudioRequest, options=options, vad=VadOptions() if vad else None)
        failures = asyncio.run(transcribe_all(inputs, settings, ask, outlet, shown))
    raise typer.Exit(1 if failures else 0)
