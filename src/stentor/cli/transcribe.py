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
from stentor.cli.options import CodeSwitchingOption, ConditionOption, KeywordOption
from stentor.config import Settings
from stentor.errors import InvalidValue
from stentor.observe.logs import set_up_logs
from stentor.text.cues import MIN_LIMIT_S, NO_LIMITS, CueLimits
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
    keyword: KeywordOption = None,
    condition: ConditionOption = False,
    code_switching: CodeSwitchingOption = False,
    vad: Annotated[bool, typer.Option("--vad", help="Leave out what is not speech.")] = False,
    max_line_width: Annotated[
        int | None, typer.Option(min=1, help="Columns in a line of srt or vtt; 42 by convention.")
    ] = None,
    max_line_count: Annotated[
        int | None, typer.Option(min=1, help="Lines in a cue, with --max-line-width; 2 by convention.")
    ] = None,
    max_cue_s: Annotated[
        float | None,
        typer.Option(min=MIN_LIMIT_S, help="Seconds that a cue is shown, in srt or vtt; 7 by convention."),
    ] = None,
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
    limits = _limits(format, max_line_width, max_line_count, max_cue_s)
    settings = Settings.load(**({"model": model} if model else {}))
    set_up_logs(as_json=settings.log_json, level=logging.WARNING)  # stdout is for transcripts
    inputs = list(dict.fromkeys(files))
    with display() as shown:
        outlet = Outlet(format, output, inputs, limits)
        options = DecodeOptions(
            code, task.value, prompt, keywords=tuple(keyword or ()), words=limits != NO_LIMITS
        )
        ask = partial(
            AudioRequest,
            options=options,
            vad=VadOptions() if vad else None,
            condition=condition,
            code_switching=code_switching,
        )
        failures = asyncio.run(transcribe_all(inputs, settings, ask, outlet, shown))
    raise typer.Exit(1 if failures else 0)


def _limits(
    format: ResponseFormat, max_line_width: int | None, max_line_count: int | None, max_cue_s: float | None
) -> CueLimits:
    try:
        limits = CueLimits(max_line_width, max_line_count, max_cue_s)
    except InvalidValue as error:
        option = f"--{(error.param or '').replace('_', '-')}"
        raise typer.BadParameter(error.message, param_hint=option) from error
    if limits != NO_LIMITS and not format.has_cues:
        raise typer.BadParameter(f"limits on cues need srt or vtt, not {format}", param_hint="--format")
    return limits
