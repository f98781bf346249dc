"""The words themselves: every format through the command line, every hostile file through the server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jiwer
import pytest

from stentor.bench.score import Pair, score
from stentor.engine.ct2 import CTranslate2Engine
from stentor.models import resolve
from support.server import serving

STENTOR = str(Path(sys.executable).with_name("stentor"))

REFUSED = {"raw_mulaw_8k.ulaw"}
"""Headerless samples: nothing in them says what they are."""

MAX_WER = 0.10
MAX_CER = 0.20
"""For the three browser recordings in Dutch and German: base mishears a word of seven, also as wav, and
characters still tell whether it was given the right sound."""


@pytest.fixture(scope="module")
def transcripts(
    corpus: Path, manifest: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What `stentor transcribe` made of all of formats/, by file name."""
    files: dict[str, list[Path]] = {}
    for path in sorted((corpus / "formats").iterdir()):
        files.setdefault(manifest[f"formats/{path.name}"]["language"], []).append(path)
    texts: dict[str, str] = {}
    for language, paths in files.items():
        output = tmp_path_factory.mktemp(language)
        options = ["--model", "base", "--language", language, "--format", "json", "--output", str(output)]
        command = [STENTOR, "transcribe", *options, *map(str, paths)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == (1 if REFUSED & {path.name for path in paths} else 0), ended.stderr
        stems = [path.stem for path in paths]
        for path in paths:
            name = path.stem if stems.count(path.stem) == 1 else path.name
            if path.name not in REFUSED:
                texts[path.name] = json.loads((output / f"{name}.json").read_text())["text"]
    return texts


@pytest.mark.timeout(300)
def test_every_format_gives_the_words_of_its_source(
    transcripts: dict[str, str], manifest: dict[str, dict[str, Any]]
) -> None:
    wrong = {}
    for name, text in transcripts.items():
        entry = manifest[f"formats/{name}"]
        if entry["language"] == "en":
            rate, limit = score([Pair("en", entry["text"], text)]).words.rate, MAX_WER
        else:
            rate, limit = jiwer.cer(entry["text"].lower(), text.lower()), MAX_CER
        if rate is None or rate > limit:
            wrong[name] = (rate, text)
    assert not wrong


async def answered(http: httpx.AsyncClient, path: Path) -> httpx.Response:
    content = await asyncio.to_thread(path.read_bytes)
    return await http.post("/v1/audio/transcriptions", files={"file": (path.name, content)})


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    engine = CTranslate2Engine(resolve("tiny.en"), slots=2, device="cpu")
    async with (
        serving(engine) as served,
        httpx.AsyncClient(base_url=served.url, timeout=120) as client,
    ):
        yield client


@pytest.mark.timeout(300)
async def test_no_hostile_file_is_a_server_error(http: httpx.AsyncClient, corpus: Path) -> None:
    for path in sorted((corpus / "hostile").iterdir()):
        response = await answered(http, path)
        assert response.status_code in (200, 400), f"{path.name}: {response.text}"
        if response.status_code == 400:
            assert response.json()["error"]["message"]
        elif "silence" in path.name or "noise" in path.name:
            assert response.json()["text"] == "", path.name
    assert (await http.get("/health/live")).status_code == 200
