"""One engine behind the wire: what a replica of the engine's deployment does. It knows no Ray."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing, contextmanager
from functools import partial

from stentor.audio.vad import speech_s
from stentor.engine.base import Engine
from stentor.errors import EngineError
from stentor.preprocess import PreprocessPool
from stentor.scale.calls import Call, News, ReplicaState
from stentor.types import SAMPLE_RATE, Chunk, EngineOutput, EngineRequest, LanguageGuess

WAITING_AUDIO = "waiting_audio_s"
"""The name of the figure by which the deployment is scaled."""

FORGET_SERVER_S = 10.0
"""A server that has not asked for so long has gone, and nothing waits there."""


class EngineReplica:
    """Answers the calls of many servers with one engine.

    All methods are coroutines: a plain one would run in a thread, where no cancel reaches it.

    Args:
        engine: What computes.
        replica_id: What the replica is called.
    """

    def __init__(self, engine: Engine, replica_id: str) -> None:
        self._engine = engine
        self._replica_id = replica_id
        self._pool = PreprocessPool(1)
        self._audio_s = 0.0
        self._servers: dict[str, tuple[float, float]] = {}  # when it asked, and its share of what waits there
        # Engines know what they have encoded by the chunk itself; a server sends another one for `generate`.
        self._probed: OrderedDict[str, Chunk] = OrderedDict()

    async def generate(self, call: Call) -> AsyncGenerator[News, None]:
        """Transcribe a chunk; see `Engine.generate`."""
        request = self._request(call, self._probed.pop(call.key, call.chunk))
        with self._holding(request):
            yield self._news(request)
            async with aclosing(self._engine.generate(request)) as outputs:
                async for output in outputs:
                    yield self._news(request, output)
        yield self._news(request)

    async def detect_language(self, call: Call) -> AsyncGenerator[News, None]:
        """Say which language a chunk is in; see `Engine.detect_language`."""
        request = self._request(call, call.chunk)
        with self._holding(request):
            yield self._news(request)
            guess = await self._engine.detect_language(request)
        self._probed[call.key] = call.chunk
        if len(self._probed) > self._engine.info.slots:
            self._probed.popitem(last=False)
        yield self._news(request, guess=guess)

    async def survey(self, server: str, waiting_audio_s: float, aborted: Collection[str]) -> ReplicaState:
        """Abort, take in what waits at a server for this replica, and tell how the engine is."""
        self._servers[server] = time.monotonic(), waiting_audio_s
        await self._engine.abort(aborted)
        return self._state()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Audio that this replica has or that waits for it at servers, in seconds. Asked for by Serve."""
        old_s = time.monotonic() - FORGET_SERVER_S
        self._servers = {name: told for name, told in self._servers.items() if told[0] > old_s}
        return {WAITING_AUDIO: self._audio_s + sum(waiting_s for _, waiting_s in self._servers.values())}

    async def check_health(self) -> None:
        """Asked by Serve, which puts another replica in the place of one whose engine is dead."""
        health = self._engine.health()
        if not health.alive:
            raise EngineError(f"the engine is dead: {health.reason}")

    def _request(self, call: Call, chunk: Chunk) -> EngineRequest:
        async def listen(from_s: float) -> float:
            return await self._pool.run(partial(speech_s, chunk.samples[round(from_s * SAMPLE_RATE) :]))

        return EngineRequest(
            call.id, call.request_id, chunk, call.options, speech_s=listen if call.listen else None
        )

    @contextmanager
    def _holding(self, request: EngineRequest) -> Iterator[None]:
        self._audio_s += request.chunk.duration_s
        try:
            yield
        finally:
            self._audio_s -= request.chunk.duration_s

    def _news(
        self, request: EngineRequest, output: EngineOutput | None = None, guess: LanguageGuess | None = None
    ) -> News:
        return News(self._state(), request.report, output, guess)

    def _state(self) -> ReplicaState:
        return ReplicaState(self._replica_id, self._engine.info, self._engine.health())
