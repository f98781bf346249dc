"""Files in, transcripts out, several at once through the road."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stentor.api.wire import ResponseFormat, render
from stentor.audio.limits import ANY_LENGTH
from stentor.audio.reader import AudioReader
from stentor.cli.progress import Display
from stentor.config import Settings
from stentor.edge.engines import engine_of
from stentor.errors import StentorError
from stentor.preprocess import PreprocessPool
from stentor.structured import task_group
from stentor.text.cues import NO_LIMITS, CueLimits
from stentor.transcriber import AudioRequest, Transcriber
from stentor.types import Part, Transcript

SUFFIXES = {ResponseFormat.TEXT: "txt", ResponseFormat.VERBOSE_JSON: "json"}
"""File name endings, where they are not the format's own name."""


Ask = Callable[[str, int], AudioRequest]
"""Makes the request for a file, from its name and its descriptor."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where transcripts go: a directory, or standard output in the order of the inputs."""

    format: ResponseFormat
    directory: Path | None
    files: Sequence[Path]
    limits: CueLimits = NO_LIMITS

    def write(self, path: Path, transcript: Transcript) -> None:
        body, _ = render(transcript, self.format, limits=self.limits)
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


async def transcribe_all(
    files: Sequence[Path], settings: Settings, ask: Ask, outlet: Outlet, shown: Display
) -> int:
    """Transcribe all files, several at once, and say how many failed.

    Raises:
        ModelError: The model cannot be had.
    """
    engine = engine_of(settings)()
    pool = PreprocessPool(settings.resolved_preprocess_workers)
    transcriber = Transcriber(engine, pool, ANY_LENGTH)
    at_once = asyncio.Semaphore(2 * engine.info.slots)
    failures = 0

    async def one(path: Path) -> Transcript | None:
        async with at_once:
            try:
                return await _transcribe_one(transcriber, pool, path, ask, shown)
            except (StentorError, OSError) as error:
                shown.fail(str(path), error.message if isinstance(error, StentorError) else str(error))
                return None

    try:
        async with task_group() as group:
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
    transcriber: Transcriber, pool: PreprocessPool, path: Path, ask: Ask, shown: Display
) -> Transcript:
    name = str(path)
    fd = os.open(path, os.O_RDONLY)
    try:
        shown.begin(name, await pool.run(partial(_header_duration_s, fd)))

        async def on_part(part: Part) -> None:
            shown.advance(name, part.end_s)

        transcript = await transcriber.transcribe(ask(name, fd), on_part)
    finally:
        os.close(fd)
    shown.finish(name, transcript.duration_s)
    return transcript


def _header_duration_s(fd: int) -> float | None:
    with AudioReader(fd, ANY_LENGTH) as reader:
        return reader.duration_s
