from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import soundfile

from stentor.bench.manifest import Mark, Utterance, load_utterances
from stentor.errors import SetupError

LINES: list[dict[str, object]] = [
    {"path": "speech/en/a.wav", "seconds": 2, "language": "en", "text": "hello", "speaker": "x"},
    {"path": "speech/de/b.wav", "seconds": 1.5, "language": "de", "text": "hallo"},
    {"path": "hostile/c.wav", "seconds": None, "language": None, "text": ""},
    {"path": "speech/en/d.wav"},
]


def write_manifest(folder: Path, lines: list[Mapping[str, object]]) -> Path:
    for line in lines:
        path = folder / str(line["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    manifest = folder / "manifest.jsonl"
    manifest.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")
    return manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write_manifest(tmp_path, list(LINES))


def test_lines_become_utterances_with_paths_beside_the_manifest(manifest: Path) -> None:
    first, _, silent, bare = load_utterances(manifest)
    assert first == Utterance(manifest.parent / "speech/en/a.wav", 2.0, "en", "hello", "speech")
    assert silent == Utterance(manifest.parent / "hostile/c.wav", None, None, "", "hostile")
    assert bare == Utterance(manifest.parent / "speech/en/d.wav", None, None, None, "speech")


def test_filters_narrow_and_limit_counts_what_is_left(manifest: Path) -> None:
    assert [found.path.name for found in load_utterances(manifest, language="de")] == ["b.wav"]
    assert [found.path.name for found in load_utterances(manifest, prefix="speech/en/")] == ["a.wav", "d.wav"]
    assert [found.path.name for found in load_utterances(manifest, prefix="hostile", limit=5)] == ["c.wav"]
    assert [found.path.name for found in load_utterances(manifest, limit=2)] == ["a.wav", "b.wav"]


def test_a_corpus_may_be_named_and_parts_of_the_text_have_times(manifest: Path) -> None:
    mark = {"text": "hello", "start_s": 0.5, "end_s": 1}
    manifest.write_text(json.dumps({**LINES[0], "corpus": "calls", "marks": [mark]}))
    (found,) = load_utterances(manifest)
    assert (found.corpus, found.marks) == ("calls", (Mark("hello", 0.5, 1.0),))


def test_nothing_left_to_send_is_an_error(manifest: Path) -> None:
    with pytest.raises(SetupError, match="language='fi'"):
        load_utterances(manifest, language="fi")


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"path": 3}',
        '{"path": "a.wav", "text": 1}',
        '{"path": "a.wav", "seconds": "x"}',
        '{"path": "a.wav", "corpus": 1}',
        '{"path": "a.wav", "marks": [{}]}',
    ],
)
def test_damaged_line_is_named(manifest: Path, line: str) -> None:
    manifest.write_text(json.dumps(LINES[0]) + "\n" + line, encoding="utf-8")
    with pytest.raises(SetupError, match="line 2"):
        load_utterances(manifest)


def test_missing_manifest_and_missing_audio_are_told_before_the_run(manifest: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read"):
        load_utterances(manifest.with_name("other.jsonl"))
    (manifest.parent / "speech/de/b.wav").unlink()
    with pytest.raises(SetupError, match=r"1 of its files are not there, the first is .*b\.wav"):
        load_utterances(manifest)


def test_directory_gives_its_audio_in_order_without_references(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    soundfile.write(tmp_path / "b" / "tone.WAV", np.zeros(8_000, np.float32), 16_000, format="WAV")
    soundfile.write(tmp_path / "a.flac", np.zeros(16_000, np.float32), 16_000)
    (tmp_path / "broken.mp3").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("no audio")
    assert load_utterances(tmp_path) == (
        Utterance(tmp_path / "a.flac", 1.0, None, None),
        Utterance(tmp_path / "b" / "tone.WAV", 0.5, None, None, "b"),
        Utterance(tmp_path / "broken.mp3", None, None, None),
    )
    assert [found.path.name for found in load_utterances(tmp_path, prefix="b/")] == ["tone.WAV"]
