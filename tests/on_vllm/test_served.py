"""A server on vLLM: its answers, clients that leave at every stage, its core's death, its end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from conftest import TWO_CITIES_WORDS
from stentor.models import resolve
from stentor.types import SAMPLE_RATE
from support.audio import speech, write
from support.vllm import QUICK_START, converted

TRANSCRIPTIONS = "/v1/audio/transcriptions"
GAUGES = ("stentor_requests_active", "stentor_engine_running", "stentor_engine_queued")


@dataclass(frozen=True, slots=True)
class Server:
    """A server's process and a client of it."""

    process: asyncio.subprocess.Process
    port: int
    http: httpx.AsyncClient

    @property
    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    @property
    def core(self) -> psutil.Process:
        """The engine core, whose name vLLM sets."""
        return next(child for child in self.children if "EngineCore" in "".join(child.cmdline()))

    async def gauge(self, name: str) -> float:
        lines = (await self.http.get("/metrics")).text
        return float(re.search(rf"^{name} (\S+)$", lines, re.MULTILINE)[1])  # type: ignore[index]

    async def until(self, name: str, value: float) -> None:
        while await self.gauge(name) != value:
            pass

    async def until_at_rest(self) -> None:
        for name in GAUGES:
            await self.until(name, 0)

    async def post(self, audio: bytes, **fields: str) -> httpx.Response:
        return await self.http.post(
            TRANSCRIPTIONS, data={"language": "en", **fields}, files={"file": ("a.flac", audio)}
        )


@asynccontextmanager
async def served(model: str, *more: str, **arguments: Any) -> AsyncIterator[Server]:
    """`stentor serve --engine vllm` as anybody starts it, four chunks at once, with arguments of vLLM's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    directory = await asyncio.to_thread(lambda: converted(resolve(model).directory))
    main = "from stentor.cli.main import main; main()"
    options = ["serve", "--engine", "vllm", "--model", str(directory), "--port", str(port), *more]
    given = json.dumps({**QUICK_START, **arguments})
    env = {**os.environ, "STENTOR_MAX_BATCH": "4", "STENTOR_VLLM_ARGS": given}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", main, *options, env=env)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:
            while process.returncode is None:
                try:
                    await http.get("/health/ready")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.1)
            yield Server(process, port, http)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.fixture
def clip(two_cities: Path, tmp_path: Path) -> bytes:
    return write(tmp_path / "clip.flac", speech(two_cities)[: round(21.3 * SAMPLE_RATE)]).read_bytes()


@pytest.fixture
def recording(two_cities: Path) -> bytes:
    """Two chunks."""
    return two_cities.read_bytes()


async def test_a_model_for_english_answers_and_what_it_cannot_do_is_refused(clip: bytes) -> None:
    async with served("tiny.en") as server:
        answer = (await server.post(clip, response_format="verbose_json")).json()
        assert re.sub(r"[^a-z ]", "", answer["text"].lower()).strip() == TWO_CITIES_WORDS
        assert len(answer["segments"]) > 1
        told = (await server.post(clip, **{"include[]": "logprobs"})).json()
        spelled = bytes(byte for token in told["logprobs"] for byte in token["bytes"]).decode()
        assert spelled.strip() == told["text"]
        fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
        refused = await server.post(clip, **fields)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "timestamp_granularities"
        translated = await server.http.post("/v1/audio/translations", files={"file": ("a.flac", clip)})
        assert translated.status_code == 400


@pytest.mark.parametrize(
    ("arguments", "lanes"), [({"scheduler_cls": None}, False), ({"async_scheduling": False}, True)]
)
async def test_without_lanes_or_overlapping_steps_clips_and_files_are_heard(
    clip: bytes,
    recording: bytes,
    arguments: dict[str, Any],
    lanes: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "WARNING")  # it warns of schedulers that are not its own
    async with served("tiny.en", **arguments) as server:
        sent = [recording, clip, clip] * 3  # more than there are rows
        answers = await asyncio.gather(*(server.post(audio, response_format="text") for audio in sent))
        assert all("the worst of times" in answer.text for answer in answers)
        assert all("the superlative degree" in answer.text for answer in answers[::3])
        await server.until_at_rest()
    assert ("stentor.engine.vllm.lanes" in capfd.readouterr().out) == lanes


@pytest.mark.parametrize("reset", [False, True])
async def test_who_leaves_leaves_nothing_behind(recording: bytes, clip: bytes, reset: bool) -> None:
    body = multipart(recording)
    async with served("base") as server:
        await server.post(clip)
        # Half an upload; a whole one, as soon as it is sent; in the language probe or a chunk.
        for part, seen in ((len(body) // 2, GAUGES[0]), (len(body), GAUGES[0]), (len(body), GAUGES[1])):
            writers = [await sent(server, body, part) for _ in range(6)]
            await server.until(seen, {GAUGES[0]: 6, GAUGES[1]: 4}[seen])
            for writer in writers:
                leave(writer, reset=reset)
            await server.until_at_rest()
        answer = await server.post(clip, response_format="text")
        assert "best of times" in answer.text
        assert "the worst of times" in answer.text


async def test_a_dead_core_turns_liveness_red_and_ends_who_waits(recording: bytes) -> None:
    async with served("tiny.en") as server:
        waiting = asyncio.create_task(server.post(recording))
        await server.until("stentor_engine_running", 2)
        server.core.send_signal(signal.SIGKILL)
        assert (await waiting).status_code == 503
        while (live := await server.http.get("/health/live")).status_code == 200:
            pass
        assert live.json()["reason"] == "vLLM's engine core has ended"


async def test_an_idle_core_that_dies_is_seen_as_well() -> None:
    async with served("tiny.en") as server:
        server.core.send_signal(signal.SIGKILL)
        while (await server.http.get("/health/live")).status_code == 200:
            pass


async def test_sigterm_ends_all_of_it_after_what_runs(clip: bytes) -> None:
    async with served("tiny.en") as server:
        children = server.children
        assert children
        waiting = asyncio.create_task(server.post(clip, response_format="text"))
        await server.until("stentor_engine_running", 1)
        server.process.send_signal(signal.SIGTERM)
        assert "best of times" in (await waiting).text
        assert await server.process.wait() == 0
        gone, alive = await asyncio.to_thread(psutil.wait_procs, children, 10)
        assert (len(gone), alive) == (len(children), [])


def multipart(audio: bytes) -> bytes:
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return head + audio + b"\r\n--x--\r\n"


async def sent(server: Server, body: bytes, part: int) -> asyncio.StreamWriter:
    """A connection over which so many bytes of a request have been sent."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = (
        f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body[:part])
    await writer.drain()
    return writer


def leave(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
