"""What a line holds beside its figures, where it goes, and what is shown meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from stentor import __version__
from stentor.bench.calls import Target
from stentor.bench.identity import Identity, identify, subject_of
from stentor.bench.progress import progress
from stentor.bench.records import Journal, Line, Record, Subject, columns, versions_of
from stentor.engine.fake import FakeEngine
from stentor.errors import SetupError
from support.results import lines_of
from support.server import serving
from support.waiting import until

NOWHERE = Target("http://127.0.0.1:9", "m")
RECORD = Record("level", {"concurrency": 1}, {"rtfx": 2.0, "latency": {"p50_s": 0.5}})


def test_a_line_holds_all_that_its_figures_hang_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    subject = Subject("Stentor", "http://server", "base", "ab" * 32, {"server": "stentor 9"})
    for bench in ("load", "chaos"):
        journal = Journal(path, bench, subject)
        journal.add(RECORD)
        assert journal.lines == 1
    first, second = lines_of(path)
    assert list(first) == [field.name for field in fields(Line)]
    assert (first["bench"], second["bench"], first["part"]) == ("load", "chaos", "level")
    assert (first["name"], first["url"], first["model"]) == ("Stentor", "http://server", "base")
    assert first["digest"] == "ab" * 32
    assert first["versions"] == {"stentor": __version__, "server": "stentor 9"}
    assert set(first["machine"]) == {"cpu", "cores", "memory_bytes", "python", "platform"}
    assert first["load"]["average_1m"] >= 0
    assert first["load"]["others_cpu"] is None  # the server may run here, and no pid tells which it is
    assert (first["plan"], first["figures"]) == (RECORD.plan, RECORD.figures)


def test_a_file_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="give another file with --json"):
        Journal(tmp_path / "nowhere" / "runs.jsonl", "load", Subject("s"))
    Journal(tmp_path / "runs.jsonl", "load", Subject("s"))
    assert list(tmp_path.iterdir()) == []


def test_versions_are_those_of_what_is_installed() -> None:
    assert list(versions_of("numpy", "no-such-package")) == ["numpy"]


def test_records_with_different_figures_make_one_table() -> None:
    records = [
        Record("p", {"n": 1, "of": "a"}, {"x": 1}),
        Record("p", {"n": 2, "of": "a"}, {"x": 2, "y": 0.5}),
    ]
    assert columns(records) == ("p: of=a", ["n", "x", "y"], [["1", "1", "-"], ["2", "2", "0.50"]])


async def asked(target: Target, name: str | None = None) -> Subject:
    return await asyncio.to_thread(subject_of, target, name)


async def test_a_stentor_says_who_it_is() -> None:
    async with serving(FakeEngine()) as served:
        target = Target(served.url + "/v1", "whisper-1")
        subject, named = await asked(target), await asked(target, "Ours")
    assert (subject.name, subject.model, subject.digest) == ("stentor fake", "fake", None)
    assert subject.versions == {"server": f"stentor {__version__}", "engine": "fake"}
    assert named.name == "Ours"


@pytest.mark.parametrize(
    ("answers", "identity"),
    [
        ({"/version": {"version": "0.32.0"}}, Identity("vllm 0.32.0")),
        ({"/status": {"version": 7}, "/version": []}, Identity()),
        (
            {"/status": {"version": "1", "engine": "native", "model": "base", "digest": "ab"}},
            Identity("stentor 1", "native", "base", "ab"),
        ),
        ({}, Identity()),
    ],
)
async def test_others_say_what_they_say(answers: dict[str, object], identity: Identity) -> None:
    app = FastAPI()

    def answering(answer: object) -> Callable[[], JSONResponse]:
        return lambda: JSONResponse(answer)

    for path, answer in answers.items():
        app.get(path)(answering(answer))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none"))
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    assert await asyncio.to_thread(identify, Target(url, "m")) == identity
    server.should_exit = True
    await task


async def test_a_server_that_does_not_answer_has_its_address_for_a_name() -> None:
    assert await asked(NOWHERE) == Subject("127.0.0.1:9", NOWHERE.url, "m")


async def test_a_url_that_is_none_is_said() -> None:
    with pytest.raises(SetupError, match="--url"):
        await asked(Target("http://127.0.0.1:port", "m"))


async def test_a_password_is_not_recorded() -> None:
    subject = await asked(Target("http://me:secret@127.0.0.1:9/v1", "m"))
    assert (subject.name, subject.url) == ("127.0.0.1:9", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize(("terminal", "shown"), [("1", True), ("0", False)])
def test_a_bar_is_for_terminals(
    terminal: str, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", terminal)
    with progress("files sent", 2) as advance:
        advance()
        advance()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("files sent" in printed.err and "2/2" in printed.err) is shown
    assert shown or printed.err == ""
