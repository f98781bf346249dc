"""`stentor eval` as a person meets it, and with it a small gate on real speech that runs everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.audio import TWO_CITIES_TEXT, noise, speech, write

STENTOR = str(Path(sys.executable).with_name("stentor"))


def evaluate(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STENTOR, "eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=dict(os.environ),
    )


@pytest.fixture
def manifest(two_cities: Path, tmp_path: Path) -> Path:
    """The recording, and noise in which nobody speaks."""
    write(tmp_path / "speech.flac", speech(two_cities))
    write(tmp_path / "noise.flac", noise(20, level=0.02))
    lines = [
        {"path": "speech.flac", "seconds": 44.4, "language": "en", "text": TWO_CITIES_TEXT, "corpus": "read"},
        {"path": "noise.flac", "seconds": 20, "language": "en", "text": "", "corpus": "noise"},
    ]
    path = tmp_path / "manifest.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


@pytest.mark.timeout(120)
def test_real_speech_is_heard_right_and_noise_is_silence(manifest: Path, tmp_path: Path) -> None:
    found, page = tmp_path / "out.json", tmp_path / "out.html"
    ended = evaluate(
        manifest, "--model", "tiny.en", "--words", "--max-rate", "read/en=5", "--json", found, "--html", page
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    groups = json.loads(found.read_text())["groups"]
    assert groups["noise/en"]["dreamt"] == 0
    assert groups["read/en"]["rate"] <= 0.05
    assert groups["read/en"]["disorder"] == 0
    assert "read/en" in ended.stdout
    assert "<h2>Worst files</h2>" in page.read_text()


@pytest.mark.timeout(120)
def test_too_many_errors_fail_and_are_named(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("best of times", "best of rhymes and other things"))
    ended = evaluate(manifest, "--model", "tiny.en", "--max-rate", "read/en=1", "--max-rate", "talks/de=1")
    assert ended.returncode == 1
    assert "more than 1 %" in ended.stderr
    assert "talks/de: no such group" in ended.stderr


def test_a_bound_that_is_none_is_a_usage_error(manifest: Path) -> None:
    ended = evaluate(manifest, "--max-rate", "read/en")
    assert ended.returncode == 2
    assert "corpus/language=percent" in ended.stderr
