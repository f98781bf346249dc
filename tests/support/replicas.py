"""Engine replicas in this process: what Ray would do between a server and them, without Ray."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing

import psutil

from stentor.engine.base import Engine
from stentor.engine.fake import FakeEngine, numbered
from stentor.errors import EngineAborted, EngineError
from stentor.scale.calls import Call, News, ReplicaLost, ReplicaState, Verb
from stentor.scale.remote import RemoteEngine
from stentor.scale.replica import EngineReplica
from stentor.types import EngineOutput, EngineRequest, Segment


class LocalReplicas:
    """Replicas that can be lost. Calls go to the one named, else to the first: Serve hears late who is busy.

    `calls` lists which replica got which call, with its samples.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines: list[Engine] = []
        self.living: dict[str, EngineReplica] = {}
        for engine in engines:
            self.add(engine)
        self.calls: list[tuple[str, Verb, Call]] = []
        self.waiting_s: list[float] = []
        self._streams: dict[LocalStream, str] = {}

    async def remote(self, *, busy_period_s: float = 0.005) -> RemoteEngine:
        """The engine that computes in them."""
        return RemoteEngine(self, await self.survey("start", 0.0, ()), busy_period_s=busy_period_s)

    def call(self, verb: Verb, call: Call, replica_id: str | None) -> LocalStream:
        if replica_id not in self.living:
            replica_id = next(iter(self.living), "")
        self.calls.append((replica_id, verb, call))
        if not replica_id:
            return LocalStream(_nobody())
        stream = LocalStream(getattr(self.living[replica_id], verb)(call))
        self._streams[stream] = replica_id
        return stream

    async def survey(
        self, server: str, waiting_audio_s: float, aborted: Collection[str]
    ) -> Sequence[ReplicaState]:
        self.waiting_s.append(waiting_audio_s)
        return [await each.survey(server, waiting_audio_s, aborted) for each in self.living.values()]

    async def close(self) -> None:
        """Close all engines, those of lost replicas too."""
        for engine in self.engines:
            await engine.close()

    def add(self, engine: Engine) -> None:
        """As if Serve had started another."""
        replica_id = f"r{len(self.engines)}"
        self.engines.append(engine)
        self.living[replica_id] = EngineReplica(engine, replica_id)

    def lose(self, replica_id: str) -> None:
        """As if its process had been killed."""
        del self.living[replica_id]
        for stream, at in self._streams.items():
            if at == replica_id:
                stream.lost.set()


class LocalStream:
    """One call, read in a task of its own as from another process."""

    def __init__(self, told: AsyncGenerator[News, None]) -> None:
        self.lost = asyncio.Event()
        self._news: asyncio.Queue[News | BaseException] = asyncio.Queue()
        self._reader = asyncio.ensure_future(self._read(told))

    async def __anext__(self) -> News:
        lost, news = asyncio.ensure_future(self.lost.wait()), asyncio.ensure_future(self._news.get())
        try:
            await asyncio.wait({lost, news}, return_when=asyncio.FIRST_COMPLETED)
            if self.lost.is_set():
                raise ReplicaLost("killed")
            told = news.result()
        finally:
            lost.cancel()
            news.cancel()
        if isinstance(told, BaseException):
            raise told
        return told

    def cancel(self) -> None:
        self._reader.cancel()

    async def _read(self, told: AsyncGenerator[News, None]) -> None:
        try:
            async for news in told:
                self._news.put_nowait(news)
            self._news.put_nowait(StopAsyncIteration())
        except EngineAborted as error:
            self._news.put_nowait(error)
        except (EngineError, ReplicaLost) as error:
            self._news.put_nowait(ReplicaLost(str(error)))
        finally:
            await told.aclose()


async def _nobody() -> AsyncGenerator[News, None]:
    raise ReplicaLost("nobody is there")
    yield


class Lingering(FakeEngine):
    """Each chunk takes so long and names itself; whoever leaves it ends it."""

    def __init__(self, slots: int, linger_s: float) -> None:
        super().__init__(self._linger, slots=slots)
        self._linger_s = linger_s
        self._left: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def _linger(self, request: EngineRequest) -> Sequence[Segment]:
        self._left[request.id].wait(self._linger_s)
        return numbered(request)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        left = self._left[request.id] = threading.Event()
        try:
            async with aclosing(super().generate(request)) as outputs:
                async for output in outputs:
                    yield output
        finally:
            left.set()


def scripted(slots: int, linger_s: float) -> Engine:
    """An engine for a replica in a process of its own."""
    return Lingering(slots, linger_s)


def serve_pids(deployment: str) -> list[int]:
    """The processes of a deployment's replicas on this machine."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        title = " ".join(process.info["cmdline"] or ())
        if title.startswith("ray::ServeReplica:") and f":{deployment}" in title:
            found.append(process.pid)
    return found
