"""Replicas as Ray Serve has them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator
from ray.serve.request_router import FIFOMixin, PendingRequest, RequestRouter, RunningReplica

from stentor.errors import EngineAborted, SetupError
from stentor.scale.calls import Call, News, ReplicaLost, ReplicaState, Verb
from stentor.scale.remote import RemoteEngine

SURVEY_S = 2.0
"""How long the answers of all replicas may take."""

START_S = 300.0
"""How long the first replica may take to load its model."""

START_PERIOD_S = 0.2


class NamedReplicaRouter(FIFOMixin, RequestRouter):
    """Sends a call to the replica that it names, if it is there, else to the one that Serve takes for idlest.

    The name travels as Serve's session id. Servers name one as long as they know of any: Serve goes by queue
    lengths that lag, and sent two calls of one moment to one replica.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The candidates to try; asked for by Serve."""
        if pending_request is not None and (name := pending_request.metadata.session_id):
            for replica in candidate_replicas:
                if replica.replica_id.unique_id == name:
                    return [[replica]]
        return [candidate_replicas]


class ServeReplicas:
    """The replicas behind a handle of the engine's deployment."""

    def __init__(self, handle: DeploymentHandle[object]) -> None:
        self._handle = handle

    def call(self, verb: Verb, call: Call, replica_id: str | None) -> ServeStream:
        """Call a replica; see `Replicas.call`."""
        handle = self._handle.options(method_name=verb, stream=True, session_id=replica_id or "")
        return ServeStream(handle.remote(call))

    async def survey(
        self, server: str, waiting_audio_s: float, aborted: Collection[str]
    ) -> Sequence[ReplicaState]:
        """Ask all replicas how they are; see `Replicas.survey`."""
        try:
            asked = self._handle.broadcast("survey", server, waiting_audio_s, aborted)
            answers = await asked.results_async(timeout_s=SURVEY_S, return_exceptions=True)
        except (TimeoutError, RayError, RayServeException) as error:
            raise ReplicaLost(str(error)) from error
        return [answer for answer in answers if isinstance(answer, ReplicaState)]


class ServeStream:
    """The news of one call over Serve."""

    def __init__(self, response: DeploymentResponseGenerator[News]) -> None:
        self._response = response
        self._over = False

    async def __anext__(self) -> News:
        try:
            news: News = await anext(self._response)
            return news
        except StopAsyncIteration:
            self._over = True
            raise
        except RayTaskError as error:
            self._over = True
            if isinstance(error.cause, EngineAborted):
                raise EngineAborted(error.cause.message) from None
            raise ReplicaLost(f"{type(error.cause).__name__}: {error.cause}") from error
        except (RayError, RayServeException) as error:
            self._over = True
            raise ReplicaLost(str(error).partition("\n")[0]) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._over or (task is not None and task.cancelling()):
                raise
            raise ReplicaLost("the replica was stopped") from None  # not by us: nobody else would notice

    def cancel(self) -> None:
        if not self._over:
            self._over = True
            self._response.cancel()


def connect(handle: DeploymentHandle[object]) -> RemoteEngine:
    """The engine behind a handle, as soon as one of its replicas answers. Blocks; for a thread.

    Raises:
        SetupError: None has answered in five minutes.
    """
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        try:
            asked = handle.broadcast("survey", "start", 0.0, ())
            states = asked.results(timeout_s=SURVEY_S, return_exceptions=True)
        except (TimeoutError, RayError, RayServeException):
            states = []
        if states := [state for state in states if isinstance(state, ReplicaState)]:
            return RemoteEngine(ServeReplicas(handle), states)
        time.sleep(START_PERIOD_S)
    raise SetupError("no engine replica answers; `serve status` says why")
