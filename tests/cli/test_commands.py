"""The command line as a person meets it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import soundfile

from support.audio import noise, write

STENTOR = str(Path(sys.executable).with_name("stentor"))


def stentor(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STENTOR, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture
def clip(two_cities: Path, tmp_path: Path) -> Path:
    """A short piece of real speech."""
    samples, rate = soundfile.read(two_cities, dtype="float32")
    path = tmp_path / "clip.wav"
    soundfile.write(path, samples[: 7 * rate], rate)
    return path


def test_version_and_help() -> None:
    assert stentor("--version").stdout.startswith("stentor 0.")
    for command in ("serve", "transcribe", "models", "bench"):
        assert command in stentor("--help").stdout


def test_models_are_listed() -> None:
    shown = stentor("models", COLUMNS="200").stdout
    assert "base" in shown
    assert "tiny.en" in shown
    assert "installed" in shown


def test_a_packaged_model_is_converted(tmp_path: Path) -> None:
    ended = stentor("convert", "tiny.en", tmp_path / "converted")
    assert ended.returncode == 0
    assert "--engine vllm" in ended.stdout
    names = {path.name for path in (tmp_path / "converted").iterdir()}
    assert names >= {"model.safetensors", "config.json", "tokenizer.json", "preprocessor_config.json"}
    assert stentor("convert", "tiny.en", tmp_path / "converted" / "config.json").returncode == 2


def test_speech_to_text(clip: Path) -> None:
    ended = stentor("transcribe", "--model", "tiny.en", clip)
    assert ended.returncode == 0
    assert "best of times" in ended.stdout
    assert "RTFx" in ended.stderr


def test_one_bad_file_is_named_and_the_others_are_done(clip: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mp3"
    bad.write_text("no audio" * 100)
    missing = tmp_path / "missing.wav"
    ended = stentor(
        "transcribe",
        "--model",
        "tiny.en",
        "--format",
        "json",
        "--output",
        tmp_path / "out",
        bad,
        clip,
        missing,
    )
    assert ended.returncode == 1
    assert f"{bad}: The file is not audio" in ended.stderr
    assert f"{missing}: " in ended.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["clip.json"]
    assert "best of times" in json.loads((tmp_path / "out" / "clip.json").read_text())["text"]


def test_inputs_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    first = write(tmp_path / "a.wav", noise(0.5, level=0))
    second = write(tmp_path / "a.flac", noise(1, level=0))
    ended = stentor(
        "transcribe", "--model", "tiny.en", "--format", "vtt", "--output", tmp_path, first, second
    )
    assert ended.returncode == 0
    assert (tmp_path / "a.wav.vtt").exists()
    assert (tmp_path / "a.flac.vtt").exists()


def test_subtitles_within_limits(clip: Path) -> None:
    limits = ["--max-line-width", "20", "--max-line-count", "1", "--max-cue-s", "3"]
    cues = stentor("transcribe", "--model", "tiny.en", "--format", "srt", *limits, clip).stdout
    plain = stentor("transcribe", "--model", "tiny.en", clip).stdout
    shown = [cue.splitlines()[2:] for cue in cues.strip().split("\n\n")]
    assert all(len(lines) == 1 and len(lines[0]) <= 20 for lines in shown)
    assert " ".join(line for lines in shown for line in lines).split() == plain.split()


@pytest.mark.parametrize("response_format", ["text", "json", "srt", "vtt", "verbose_json"])
def test_silence_is_valid_in_every_format(tmp_path: Path, response_format: str) -> None:
    silence = write(tmp_path / "silence.wav", noise(1, level=0))
    ended = stentor("transcribe", "--model", "tiny.en", "--format", response_format, silence)
    assert ended.returncode == 0
    if "json" in response_format:
        assert json.loads(ended.stdout)["text"] == ""
    else:
        assert ended.stdout.strip() in ("", "WEBVTT")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["transcribe", "--model", "huge", "x.wav"], "Unknown model 'huge'"),
        (["transcribe", "--language", "klingon", "x.wav"], "klingon"),
        (["transcribe", "--format", "xml", "x.wav"], "xml"),
        (["transcribe"], "files"),
        (["transcribe", "--max-line-width", "42", "x.wav"], "need srt or vtt"),
        (["transcribe", "--format", "srt", "--max-line-count", "2", "x.wav"], "needs max_line_width"),
        (["transcribe", "--format", "srt", "--max-cue-s", "0.2", "x.wav"], "--max-cue-s"),
        (["serve", "--model", "huge"], "tiny.en"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_would_work(arguments: list[str], says: str) -> None:
    ended = stentor(*arguments)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_it_is_named() -> None:
    ended = stentor("serve", "--ray", "--model", "tiny.en")
    assert ended.returncode == 2
    assert "pip install stentor[ray]" in ended.stderr


def test_a_bad_setting_ends_with_2() -> None:
    ended = stentor("serve", STENTOR_PORT="ninety")
    assert ended.returncode == 2
    assert "STENTOR_PORT" in ended.stderr
    assert "Traceback" not in ended.stderr
