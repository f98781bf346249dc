"""`stentor transcribe`: files through the same road as the server's."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stentor.cli.progress import Display, display
from stentor.config import Settings
from stentor.errors import StentorError
from stentor.types import DecodeOptions, Part, Transcript


class TaskName(StrEnum):
    """What to write down: the words as spoken, or their English translation."""

    TRANSCRIBE = "transcribe"
    TRANSLATE = "translate"


class Format(StrEnum):
    """What to write."""

    TEXT = "text"
    JSON = "json"
    SRT = "srt"
    VTT = "vtt"
    VERBOSE_JSON = "verbose_json"


SUFFIXES = {Format.TEXT: "txt", Format.JSON: "json", Format.VERBOSE_JSON: "json"}
"""File name endings, where they are not the format's own name."""


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
    format: Annotated[Format, typer.Option(help="What to write.")] = Format.TEXT,
    prompt: Annotated[str | None, typer.Option(help="Text before the audio: names, spelling, style.")] = None,
    output: Annotated[
        Path | None, typer.Option(file_okay=False, help="Write one file per input here instead of stdout.")
    ] = None,
) -> None:
    """Transcribe files. Exit codes: 0 all good, 1 some file failed, 2 usage."""
    from stentor.whisper.languages import language_code

    try:
        code = language_code(language) if language else None
    except StentorError as error:
        raise typer.BadParameter(error.message, param_hint="--language") from error
    settings = Settings(**({"model": model} if model else {}))
    options = DecodeOptions(code, task.value, prompt)
    outlet = Outlet(format, output, files)
    with display() as shown:
        failures = asyncio.run(_transcribe_all(files, settings, options, outlet, shown))
    raise typer.Exit(1 if failures else 0)


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where transcripts go: a directory, or standard output in the order of the inputs."""

    format: Format
    directory: Path | None
    files: Sequence[Path]

    def write(self, path: Path, transcript: Transcript) -> None:
        from stentor.api.wire import ResponseFormat, render

        body, _ = render(transcript, ResponseFormat(self.format))
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            (self.directory / self._name(path)).write_text(body, encoding="utf-8")
            return
        if len(self.files) > 1:
            print(f"==> {path} <==")
        print(body, end="" if body.endswith("\n") else "\n", flush=True)

    def _name(self, path: Path) -> str:
        suffix = SUFFIXES.get(self.format, self.format.value)
        stems = Counter(file.stem for file in self.files)
        # Two inputs that differ only in their ending must not overwrite each other.
        stem = path.stem if stems[path.stem] == 1 else path.name
        return f"{stem}.{suffix}"


async def _transcribe_all(
    files: Sequence[Path], settings: Settings, options: DecodeOptions, outlet: Outlet, shown: Display
) -> int:
    """Transcribe all files, several at once, and say how many failed."""
    from stentor.audio.reader import ReaderLimits
    from stentor.engine.choice import load_engine
    from stentor.models import resolve
    from stentor.preprocess import PreprocessPool
    from stentor.transcriber import Transcriber

    model = resolve(settings.model, cache_dir=settings.cache_dir)
    engine = load_engine(model, slots=settings.resolved_engine_slots, device=settings.device)
    pool = PreprocessPool(settings.resolved_preprocess_workers)
    # The files are the caller's own: no limit on their length but the caller's patience.
    transcriber = Transcriber(engine, pool, ReaderLimits(max_audio_s=float("inf")))
    at_once = asyncio.Semaphore(2 * engine.info.slots)
    failures = 0

    async def one(path: Path) -> Transcript | None:
        async with at_once:
            try:
                return await _transcribe_one(transcriber, pool, path, options, shown)
            except (StentorError, OSError) as error:
                shown.fail(str(path), error.message if isinstance(error, StentorError) else str(error))
                return None

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [(path, group.create_task(one(path))) for path in files]
            for path, task in tasks:
                transcript = await task
                if transcript is None:
                    failures += 1
                else:
                    outlet.write(path, transcript)
    finally:
        await engine.close()
        pool.close()
    return failures


async def _transcribe_one(
    transcriber: Transcriber, pool: PreprocessPool, path: Path, options: DecodeOptions, shown: Display
) -> Transcript:
    name = str(path)
    fd = os.open(path, os.O_RDONLY)
    try:
        shown.begin(name, await pool.run(partial(header_duration_s, fd)))

        async def on_part(part: Part) -> None:
            shown.advance(name, part.end_s)

        transcript = await transcriber.transcribe(AudioRequest(name, fd, options), on_part)
    finally:
        os.close(fd)
    shown.finish(name, transcript.duration_s)
    return transcript
