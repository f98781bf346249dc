from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from stentor.bench.breakdown import STAGES
from stentor.bench.load import LoadPlan, run_load
from stentor.bench.manifest import Utterance
from stentor.bench.measurement import Measurement
from stentor.bench.results import Latency, LevelResult
from stentor.engine.fake import FakeEngine
from stentor.errors import SetupError
from support.audio import noise, write
from support.server import serving

WAIT_S = 10.0
STREAMED = {
    "openai.wav": 'data: {"type": "transcript.text.delta", "delta": " on"}\n\n: keep-alive\n\n'
    'data: {"type": "transcript.text.segment", "text": "no"}\n\n'
    'data: {"type": "transcript.text.done", "text": "one"}\n\ndata: [DONE]\n\n',
    "vllm.wav": 'data: {"choices": [{"delta": {"content": "tw"}}]}\n\n'
    'data: {"choices": [{"delta": {"content": "o"}}]}\n\n'
    'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n',
    "silent.wav": 'data: {"type": "transcript.text.done", "text": ""}\n\n',
    "failing.wav": 'data: {"type": "transcript.text.delta", "delta": "a"}\n\n'
    'data: {"error": {"message": "the engine died"}}\n\n',
    "odd.wav": "data: [1]\n\n",
}
SPOKEN = {"one.wav": "one", "two.wav": "two", "slow.wav": "slow"}


@dataclass
class ScriptedServer:
    """Answers known texts, refuses busy.wav, and keeps slow.wav until `release` other answers are out."""

    release: int = 1
    fields: list[list[tuple[str, str]]] = field(default_factory=list)
    authorizations: set[str | None] = field(default_factory=set)
    in_flight: int = 0
    most_in_flight: int = 0
    others: int = 0
    slow_arrived: threading.Event = field(default_factory=threading.Event)
    slow_left: threading.Event = field(default_factory=threading.Event)
    others_done: asyncio.Event = field(default_factory=asyncio.Event)

    async def live(self) -> Response:
        return Response()

    async def transcribe(self, request: Request) -> Response:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.answer(request)
        finally:
            self.in_flight -= 1

    async def answer(self, request: Request) -> Response:
        self.authorizations.add(request.headers.get("authorization"))
        async with request.form() as form:
            parts = [(key, v if isinstance(v, str) else v.filename or "") for key, v in form.multi_items()]
        self.fields.append(parts)
        name = parts[-1][1]
        if name == "slow.wav":
            await self.hold(request)
        else:
            self.others += 1
            if self.others >= self.release:
                self.others_done.set()
        if name == "busy.wav":
            error = {"message": "come back later", "type": "rate_limit_error", "code": None, "param": None}
            return JSONResponse({"error": error}, 429, {"Retry-After": "7"})
        if name == "garbled.wav":
            return Response("<html>", media_type="text/html")
        if ("stream", "true") in parts and name in STREAMED:
            return Response(STREAMED[name], media_type="text/event-stream; charset=utf-8")
        if ("response_format", "json") not in parts:
            return Response(f"{SPOKEN[name]}\n", media_type="text/plain")
        return JSONResponse({"text": SPOKEN[name]})

    async def hold(self, request: Request) -> None:
        """Wait for the others, or for the caller to hang up."""
        self.slow_arrived.set()
        hung_up = asyncio.ensure_future(request.receive())
        others = asyncio.create_task(self.others_done.wait())
        await asyncio.wait({hung_up, others}, return_when=asyncio.FIRST_COMPLETED)
        if hung_up.done() and hung_up.result()["type"] == "http.disconnect":
            self.slow_left.set()
        hung_up.cancel()
        others.cancel()


@contextmanager
def served(script: ScriptedServer) -> Iterator[str]:
    """Serve from a thread on a loopback port. The socket listens at once: early callers wait in its queue."""
    app = FastAPI()
    app.get("/health/live")(script.live)
    app.post("/v1/audio/transcriptions")(script.transcribe)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(WAIT_S)
            assert not thread.is_alive()


@pytest.fixture
def utterances(tmp_path: Path) -> tuple[Utterance, ...]:
    """slow.wav comes first, so that it is in flight while the others pass."""
    return tuple(utterance(tmp_path / f"{name}.wav") for name in ("slow", "one", "busy", "two"))


def utterance(path: Path, language: str | None = "en") -> Utterance:
    path.write_bytes(b"RIFF" + bytes(200_000))
    return Utterance(path, 3.0, language, path.stem)


async def test_figures_of_a_level(utterances: tuple[Utterance, ...]) -> None:
    script = ScriptedServer(release=3)
    with served(script) as url:
        plan = LoadPlan(url, "m", utterances, concurrency=(2,), api_key="k", pid=os.getpid())
        result = await run_load(plan)
    (level,) = result.levels
    assert result.plan is plan
    assert [request.utterance for request in level.requests] == list(utterances)
    assert [request.text for request in level.requests] == ["slow", "one", None, "two"]
    assert [request.status for request in level.requests] == [200, 200, 429, 200]
    assert level.requests[2].error == "come back later"
    assert level.errors == {"429": 1}
    assert script.most_in_flight == 2
    assert script.authorizations == {"Bearer k"}

    assert level.audio_s == 9.0
    assert level.rtfx == pytest.approx(9.0 / level.wall_s)
    assert level.requests_per_s == pytest.approx(3 / level.wall_s)
    latencies = [request.latency_s for request in level.transcribed]
    assert level.latency is not None
    assert level.latency.max_s == latencies[0] == max(latencies) <= level.wall_s
    assert level.latency.p50_s == sorted(latencies)[1]

    assert level.health is not None
    assert level.health.probes >= 1
    assert level.health.failures == 0
    assert level.health.latency is not None
    assert 0 < level.health.latency.p50_s <= level.health.latency.max_s
    assert level.server is not None
    assert level.server.cpu_s > 0
    assert level.server.peak_rss_bytes > 1_000_000


async def test_fields_go_before_the_file_and_language_only_if_wanted(tmp_path: Path) -> None:
    said = (utterance(tmp_path / "one.wav"), utterance(tmp_path / "two.wav", language=None))
    script = ScriptedServer()
    with served(script) as url:
        for send_language in (True, False):
            await run_load(LoadPlan(url + "/v1/", "m", said, concurrency=(1,), send_language=send_language))
    common = [("model", "m"), ("response_format", "json")]
    assert script.fields == [
        [*common, ("language", "en"), ("file", "one.wav")],
        [*common, ("file", "two.wav")],
        [*common, ("file", "one.wav")],
        [*common, ("file", "two.wav")],
    ]


async def test_streams_are_read_to_their_end_and_the_first_delta_is_timed(tmp_path: Path) -> None:
    names = [*STREAMED, "one.wav"]
    said = tuple(utterance(tmp_path / name) for name in names)
    with served(ScriptedServer()) as url:
        (level,) = (await run_load(LoadPlan(url, "m", said, concurrency=(1,), stream=True))).levels
    answers = dict(zip(names, level.requests, strict=True))
    assert [answer.text for answer in level.requests] == ["one", "two", "", None, None, "one"]
    assert answers["failing.wav"].error == "the engine died"
    assert answers["odd.wav"].error == "not an event of a transcription: [1]"
    assert [answer.streamed for answer in level.requests] == [True] * 5 + [False]
    assert level.streamed == 3
    for name in ("openai.wav", "vllm.wav", "one.wav"):
        first_s = answers[name].first_delta_s
        assert first_s is not None
        assert 0 < first_s <= answers[name].latency_s
    assert answers["silent.wav"].first_delta_s is None
    assert level.first_delta is not None
    assert level.latency is not None
    assert level.first_delta.max_s <= level.latency.max_s


async def test_without_stream_no_delta_is_timed(tmp_path: Path) -> None:
    with served(ScriptedServer()) as url:
        plan = LoadPlan(url, "m", (utterance(tmp_path / "one.wav"),), concurrency=(1,))
        (level,) = (await run_load(plan)).levels
    assert level.first_delta is None


@pytest.mark.parametrize(("response_format", "text"), [("text", "one"), ("srt", None)])
async def test_other_formats_are_read_and_subtitles_are_not_scored(
    tmp_path: Path, response_format: str, text: str | None
) -> None:
    said = (utterance(tmp_path / "one.wav"),)
    with served(ScriptedServer()) as url:
        plan = LoadPlan(url, "m", said, concurrency=(1,), response_format=response_format)
        (level,) = (await run_load(plan)).levels
    assert (level.requests[0].text, level.errors) == (text, {})
    assert Measurement.of({}, level).score.words.references == (0 if text is None else 1)


async def test_each_answer_is_told(tmp_path: Path) -> None:
    told: list[None] = []
    said = (utterance(tmp_path / "one.wav"), utterance(tmp_path / "busy.wav"))
    with served(ScriptedServer()) as url:
        plan = LoadPlan(url, "m", said, concurrency=(1, 2))
        await run_load(plan, on_answer=lambda: told.append(None))
    assert len(told) == 4


async def test_a_stentor_tells_where_its_time_went(tmp_path: Path) -> None:
    path = write(tmp_path / "speech.flac", noise(2))
    async with serving(FakeEngine()) as stentor:
        plan = LoadPlan(stentor.url, "fake", (Utterance(path, 2.0, "en", None),) * 3, concurrency=(2,))
        (level,) = (await run_load(plan)).levels
        (untold,) = (await run_load(replace(plan, metrics_path=None))).levels
    assert level.errors == {}
    assert level.stages is not None
    assert list(level.stages) == list(STAGES)
    assert 0 < level.stages["preprocess"] < level.wall_s
    assert all(seconds >= 0 for seconds in level.stages.values())
    assert untold.stages is None


async def test_levels_run_in_order_and_each_is_told_when_done(tmp_path: Path) -> None:
    said = (utterance(tmp_path / "one.wav"), utterance(tmp_path / "two.wav"))
    told: list[LevelResult] = []
    with served(ScriptedServer()) as url:
        result = await run_load(LoadPlan(url, "m", said, concurrency=(1, 5)), told.append)
    assert tuple(told) == result.levels
    assert [(level.concurrency, len(level.transcribed)) for level in told] == [(1, 2), (5, 2)]


async def test_answer_that_is_no_transcription_is_an_error(tmp_path: Path) -> None:
    said = (utterance(tmp_path / "garbled.wav"),)
    with served(ScriptedServer()) as url:
        plan = LoadPlan(url, "m", said, concurrency=(1,), health_path="/nothing")
        (level,) = (await run_load(plan)).levels
    assert (level.requests[0].text, level.requests[0].error) == (None, "<html>")
    assert level.errors == {"200": 1}
    assert level.latency is None
    assert level.health is not None
    assert level.health.failures == level.health.probes > 0
    assert level.health.latency is None


async def test_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as taken:  # Bound and not listening: whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        plan = LoadPlan(url, "m", (utterance(tmp_path / "one.wav"),), concurrency=(1,))
        (level,) = (await run_load(plan)).levels
    assert level.errors == {"none": 1}
    assert level.requests[0].error is not None
    assert level.requests[0].error.startswith("ConnectError: ")
    assert level.rtfx == 0.0


async def test_cancel_hangs_up_and_leaves_no_task(utterances: tuple[Utterance, ...]) -> None:
    script = ScriptedServer(release=1_000)
    with served(script) as url:
        plan = LoadPlan(url, "m", utterances, concurrency=(2,), pid=os.getpid())
        running = asyncio.create_task(run_load(plan))
        assert await asyncio.to_thread(script.slow_arrived.wait, WAIT_S)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await asyncio.to_thread(script.slow_left.wait, WAIT_S)


async def test_pid_that_is_not_there(utterances: tuple[Utterance, ...]) -> None:
    with pytest.raises(SetupError, match="no pid"):
        await run_load(LoadPlan("http://127.0.0.1:9", "m", utterances, pid=2**30))


def test_percentiles_are_measured_values() -> None:
    assert Latency.of([]) is None
    assert Latency.of([2.0]) == Latency(2.0, 2.0, 2.0, 2.0)
    assert Latency.of(range(1, 101)) == Latency(50, 95, 99, 100)
