"""Which files a measurement sends, and what is said in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import av

from stentor.errors import SetupError

# fmt: off
AUDIO_SUFFIXES = frozenset({
    ".aac", ".aif", ".aiff", ".caf", ".flac", ".m4a", ".mka",
    ".mkv", ".mov", ".mp2", ".mp3", ".mp4", ".mpeg", ".mpga",
    ".oga", ".ogg", ".opus", ".wav", ".webm",
})
# fmt: on
"""What counts as audio in a directory, where nothing else tells audio from notes and pictures."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a file's text, and when its first word begins and its last one ends."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Utterance:
    """A file to send.

    Attributes:
        path: The file.
        seconds: How long it is, where that is known.
        language: A code, where it is known.
        text: None where nobody wrote down what is said; "" says that nothing is.
        corpus: What it is counted with; the first folder of its path where the manifest does not say.
        marks: Parts of the text whose times are known, in order; together they are the text, or there are
            none.
    """

    path: Path
    seconds: float | None
    language: str | None
    text: str | None
    corpus: str = ""
    marks: tuple[Mark, ...] = ()


def load_utterances(
    source: Path, *, language: str | None = None, prefix: str = "", limit: int | None = None
) -> tuple[Utterance, ...]:
    """Read a manifest, or look through a directory, and keep what the filters let pass.

    A manifest has one JSON object a line: `path` relative to the manifest, and where known `seconds`,
    `language`, `text`, `corpus`, and `marks`: objects with `text`, `start_s` and `end_s`. A directory gives
    its audio files in order of their names, without references.

    Args:
        source: A manifest.jsonl or a directory.
        language: Keep this language only.
        prefix: Keep paths, relative to the manifest or directory, that begin so.
        limit: Keep so many, from the start.

    Raises:
        SetupError: The manifest is damaged, names a file that is not there, or nothing is left to send.
    """
    found = _from_directory(source, prefix) if source.is_dir() else _from_manifest(source, prefix)
    kept = (utterance for utterance in found if language in (None, utterance.language))
    utterances = tuple(islice(kept, limit))
    if not utterances:
        raise SetupError(f"{source}: no file fits language={language!r} prefix={prefix!r} limit={limit}")
    # Said before the first request: a missing file in the middle would spoil the figures of a long run.
    if missing := [utterance.path for utterance in utterances if not utterance.path.is_file()]:
        raise SetupError(f"{source}: {len(missing)} of its files are not there, the first is {missing[0]}")
    return utterances


def _from_manifest(manifest: Path, prefix: str) -> Iterator[Utterance]:
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{manifest} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            relative, utterance = _parse(line, manifest.parent)
        except (ValueError, KeyError, TypeError) as error:
            raise SetupError(f"{manifest} line {number}: {error!r}") from error
        if relative.startswith(prefix):
            yield utterance


def _parse(line: str, folder: Path) -> tuple[str, Utterance]:
    record = json.loads(line)
    relative, seconds = record["path"], record.get("seconds")
    texts = (record.get("language"), record.get("text"), record.get("corpus", _corpus(str(relative))))
    if not isinstance(relative, str) or not all(text is None or isinstance(text, str) for text in texts):
        raise TypeError("path, language, text and corpus are strings")
    marks = tuple(
        Mark(str(mark["text"]), float(mark["start_s"]), float(mark["end_s"]))
        for mark in record.get("marks", ())
    )
    return relative, Utterance(folder / relative, None if seconds is None else float(seconds), *texts, marks)


def _from_directory(folder: Path, prefix: str) -> Iterator[Utterance]:
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if path.suffix.lower() in AUDIO_SUFFIXES and relative.startswith(prefix):
            yield Utterance(path, _seconds(path), language=None, text=None, corpus=_corpus(relative))


def _corpus(relative: str) -> str:
    folder, slash, _ = relative.partition("/")
    return folder if slash else ""


def _seconds(path: Path) -> float | None:
    """Ask the container for its length; some (a browser's recording, a broken file) do not know."""
    try:
        with av.open(str(path)) as container:
            return None if container.duration is None else container.duration / av.time_base
    except av.FFmpegError:
        return None
