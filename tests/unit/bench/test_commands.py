from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

from stentor.bench.commands import app

CLI = CliRunner()
NOWHERE = ["--url", "http://127.0.0.1:9"]  # The discard port: refused at once.


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    line = {"path": "a.wav", "seconds": 2.0, "language": "en", "text": "hello there"}
    path = tmp_path / "manifest.jsonl"
    path.write_text(json.dumps(line), encoding="utf-8")
    return path


class FakeWhisper:
    """Stands for both classes of faster-whisper: records how it was made and called."""

    calls: list[dict[str, object]] = []  # noqa: RUF012

    def __init__(self, *args: object, **options: object) -> None:
        self.calls.append(options)

    def transcribe(self, audio: str, **options: object) -> tuple[Iterator[SimpleNamespace], None]:
        self.calls.append(options)
        return iter([SimpleNamespace(text=" Hello"), SimpleNamespace(text=" there.")]), None


@pytest.fixture
def whisper(monkeypatch: pytest.MonkeyPatch) -> type[FakeWhisper]:
    library = ModuleType("faster_whisper")
    library.WhisperModel = library.BatchedInferencePipeline = FakeWhisper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", library)
    monkeypatch.setattr(FakeWhisper, "calls", [])
    return FakeWhisper


def test_load_reports_a_dead_server_and_exits_with_1(manifest: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    options = ["--manifest", str(manifest), "--model", "m", "--concurrency", "1,2", "--json", str(runs)]
    result = CLI.invoke(app, ["load", *options, *NOWHERE])
    assert result.exit_code == 1
    assert "2 × no answer: ConnectError" in result.stdout
    levels = [json.loads(line)["plan"]["concurrency"] for line in runs.read_text().splitlines()]
    assert levels == [1, 2]


@pytest.mark.parametrize("concurrency", ["", "0", "1,x", "4,-1"])
def test_load_refuses_what_is_no_list_of_levels(manifest: Path, concurrency: str) -> None:
    options = ["--manifest", str(manifest), "--model", "m", "--concurrency", concurrency]
    assert CLI.invoke(app, ["load", *options]).exit_code == 2


def test_load_with_nothing_to_send_says_so(manifest: Path) -> None:
    result = CLI.invoke(app, ["load", "--manifest", str(manifest), "--model", "m", "--language", "fi"])
    assert result.exit_code == 2
    assert "language='fi'" in result.stderr


def test_missing_extra_is_named(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("load", "probes"):
        monkeypatch.delitem(sys.modules, f"stentor.bench.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    result = CLI.invoke(app, ["load", "--manifest", str(manifest), "--model", "m"])
    assert result.exit_code == 2
    assert "pip install stentor[bench]" in result.stderr


def test_missing_peer_is_named(manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    result = CLI.invoke(app, ["peers", "--manifest", str(manifest), "--model-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "pip install faster-whisper" in result.stderr


def test_peer_transcribes_with_the_plain_model(
    manifest: Path, tmp_path: Path, whisper: type[FakeWhisper]
) -> None:
    (tmp_path / "model.bin").write_bytes(b"weights")
    runs = tmp_path / "runs.jsonl"
    options = ["--manifest", str(manifest), "--model-dir", str(tmp_path), "--json", str(runs)]
    result = CLI.invoke(app, ["peers", *options])
    assert result.exit_code == 0, result.output
    made, called = whisper.calls
    assert (made["compute_type"], made["device"]) == ("int8", "cpu")
    assert called == {"beam_size": 1, "language": "en"}
    record = json.loads(runs.read_text())
    assert record["url"] is None
    assert (record["name"], record["model"]) == ("faster-whisper", tmp_path.name)
    assert record["digest"] == sha256(b"weights").hexdigest()
    assert (record["figures"]["words"]["rate"], record["figures"]["transcribed"]) == (0.0, 1)


def test_batched_peer_takes_its_batch_size(
    manifest: Path, tmp_path: Path, whisper: type[FakeWhisper]
) -> None:
    options = ["--manifest", str(manifest), "--model-dir", str(tmp_path), "--batched", "--no-send-language"]
    assert CLI.invoke(app, ["peers", *options]).exit_code == 0
    assert whisper.calls[-1] == {"beam_size": 1, "batch_size": 8}
