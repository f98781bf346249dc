"""What the documents tell people to type and to run does run, against a server with a scripted engine."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conformance.clients import NODE_CLIENT, no_node
from stentor.engine.fake import FakeEngine
from support.audio import bursts, write
from support.documents import DOCUMENTS, SHELL, fences, named
from support.server import Served, serving

WRITTEN = "http://127.0.0.1:8000"
"""Where the examples find their server."""


def blocks(*languages: str, having: str) -> list[object]:
    """Examples in these languages that have a certain text, each a test."""
    return [
        pytest.param(code, id=f"{named(document)}-{number}")
        for document in DOCUMENTS
        for number, code in enumerate(fences(document, *languages))
        if having in code
    ]


def asking(*programs: str) -> list[object]:
    """Lines of shell that begin with one of these programs and ask the server, each a test."""
    return [
        pytest.param(line, id=f"{named(document)}-{number}")
        for document in DOCUMENTS
        for number, line in enumerate(line for code in fences(document, *SHELL) for line in code.splitlines())
        if line.startswith(programs) and WRITTEN in line
    ]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(FakeEngine()) as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with the file that the examples speak of: the content decides what it is."""
    write(tmp_path / "speech.flac", bursts(40)).rename(tmp_path / "speech.mp3")
    (tmp_path / ".curlrc").write_text("fail-with-body\nsilent\n", encoding="utf-8")  # or a refusal would pass
    return tmp_path


async def run(folder: Path, *command: str | Path) -> str:
    """What a program prints, which must end well."""
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "CURL_HOME": str(folder)}
    program = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await program.communicate()
    assert program.returncode == 0, printed.decode()
    return printed.decode()


@pytest.mark.parametrize("line", asking("curl"))
async def test_a_line_for_curl(served: Served, folder: Path, line: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    assert await run(folder, "sh", "-c", line.replace(WRITTEN, served.url))


@pytest.mark.parametrize("code", blocks("python", having="from openai import"))
async def test_an_example_in_python(served: Served, folder: Path, code: str) -> None:
    (folder / "example.py").write_text(code.replace(WRITTEN, served.url), encoding="utf-8")
    assert await run(folder, sys.executable, "example.py")


@pytest.mark.parametrize("code", blocks("js", having='from "openai"'))
async def test_an_example_for_node(served: Served, folder: Path, code: str) -> None:
    if reason := no_node():
        pytest.skip(reason)
    (folder / "example.mjs").write_text(code.replace(WRITTEN, served.url), encoding="utf-8")
    (folder / "node_modules").symlink_to(NODE_CLIENT.parent)
    assert await run(folder, "node", "example.mjs")


async def test_a_refusal_is_no_success(served: Served, folder: Path) -> None:
    line = f"curl {served.url}/v1/audio/transcriptions -F hotwords=Stentor -F file=@speech.mp3"
    with pytest.raises(AssertionError, match="unknown field"):
        await run(folder, "sh", "-c", line)
