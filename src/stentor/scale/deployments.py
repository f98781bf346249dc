"""What Serve keeps running: engines, and servers beside them. `build` is what a Serve config names.

A server listens on a port of its own and not behind Serve's proxy, which reads a whole upload into memory,
also one that is refused (docs/decisions/0014-ray.md).
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig
from ray.serve.handle import DeploymentHandle

from stentor.api.app import create_app
from stentor.config import Settings
from stentor.edge.engines import engine_of
from stentor.edge.server import DrainingServer
from stentor.engine.base import Engine
from stentor.errors import SetupError
from stentor.observe.logs import set_up_logs
from stentor.process import set_up_process
from stentor.scale.autoscaling import WaitingAudioPolicy
from stentor.scale.handles import NamedReplicaRouter, connect
from stentor.scale.replica import EngineReplica

UNBOUNDED = 1_000_000
"""Calls that a replica takes: servers bound them, and the engine's queue is fair, which Serve's is not."""

AFTER_DRAIN_S = 10.0
"""What a server gets to stop after the drain, before Serve kills it."""

STARTED_PERIOD_S = 0.05

UPSCALE_S, DOWNSCALE_S = 10.0, 300.0
"""How long more or fewer engines must be wanted. Audio that waits is no guess, and a model loads in seconds;
to start a node takes minutes, so none is given up for a pause."""


class Plan(BaseModel):
    """What a cluster shall run: the `args` of the application in a Serve config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: Annotated[
        dict[str, Any],
        Field(description="Settings as in docs/configuration.md, without STENTOR_; over each node's own."),
    ] = {}
    engines: Annotated[PositiveInt, Field(description="Engine replicas, the fewest.")] = 1
    max_engines: Annotated[PositiveInt, Field(description="The most; more than `engines` scales.")] = 1
    audio_s_per_engine: Annotated[
        PositiveFloat, Field(description="Audio waiting that each is to have, in seconds, where they scale.")
    ] = 300.0
    engine_cpus: Annotated[NonNegativeFloat, Field(description="Processors that Ray counts for each.")] = 1.0
    engine_gpus: Annotated[NonNegativeFloat, Field(description="GPUs for each.")] = 0.0
    servers: Annotated[PositiveInt, Field(description="Servers, one for each node.")] = 1
    server_cpus: Annotated[NonNegativeFloat, Field(description="Processors counted for each.")] = 1.0


class EngineDeployment(EngineReplica):
    """An engine in a replica.

    Args:
        load: Loads it.
    """

    def __init__(self, load: Callable[[], Engine]) -> None:
        set_up_process()
        super().__init__(load(), serve.get_replica_context().replica_id.unique_id)


class ServerDeployment:
    """`stentor serve` in a replica, with engines that are elsewhere.

    Args:
        given: Settings that go before those of the node.
        engines: The deployment that computes.
    """

    def __init__(self, given: dict[str, Any], engines: DeploymentHandle[object]) -> None:
        settings = Settings.load(**given)
        set_up_process()
        set_up_logs(as_json=settings.log_json)
        self._server = DrainingServer(
            create_app(settings, partial(connect, engines)),
            drain_timeout_s=settings.drain_timeout_s,
            send_timeout_s=settings.send_timeout_s,
        )
        # Its successor listens on the same port before it has drained.
        listening = socket.create_server((settings.host, settings.port), reuse_port=True)
        self._serving = asyncio.get_running_loop().create_task(self._server.serve([listening]))

    async def check_health(self) -> None:
        """Asked by Serve, for the first time before the replica counts as running."""
        while not self._server.started and not self._serving.done():  # noqa: ASYNC110 - uvicorn has no event
            await asyncio.sleep(STARTED_PERIOD_S)
        if self._serving.done():
            raise SetupError("the server has stopped; the reason is in its log")

    async def __del__(self) -> None:
        """Drain; awaited by Serve before it stops the replica."""
        self._server.handle_exit(signal.SIGTERM, None)
        await self._serving


def engines(plan: Plan, load: Callable[[], Engine], drain_timeout_s: float) -> serve.Application:
    """The engine's deployment.

    Args:
        plan: How many, and what each takes.
        load: Loads one, on the node where it runs.
        drain_timeout_s: What calls under way get when a replica is to stop.
    """
    scaled = AutoscalingConfig(
        min_replicas=plan.engines,
        max_replicas=max(plan.engines, plan.max_engines),
        upscale_delay_s=UPSCALE_S,
        look_back_period_s=2 * UPSCALE_S,  # longer than what Serve takes between two looks, 10 s
        downscale_delay_s=DOWNSCALE_S,
        policy=AutoscalingPolicy(
            policy_function=WaitingAudioPolicy,
            policy_kwargs={"audio_s_per_replica": plan.audio_s_per_engine},
        ),
    )
    deployment = serve.deployment(
        EngineDeployment,
        name="engine",
        **(
            {"autoscaling_config": scaled}
            if plan.max_engines > plan.engines
            else {"num_replicas": plan.engines}
        ),
        ray_actor_options={"num_cpus": plan.engine_cpus, "num_gpus": plan.engine_gpus},
        max_ongoing_requests=UNBOUNDED,
        graceful_shutdown_timeout_s=drain_timeout_s + AFTER_DRAIN_S,
        request_router_config=RequestRouterConfig(request_router_class=NamedReplicaRouter),
    )
    return deployment.bind(load)


def build(args: dict[str, Any]) -> serve.Application:
    """The application: `import_path: stentor.scale.deployments:build` in a Serve config.

    Args:
        args: A `Plan`.

    Raises:
        SetupError: Something in it has a value that it cannot have.
    """
    try:
        plan = Plan.model_validate(args)
    except ValidationError as error:
        raise SetupError(f"the application's args: {error}") from None
    settings = Settings.load(**plan.settings)
    server = serve.deployment(
        ServerDeployment,
        name="server",
        num_replicas=plan.servers,
        max_replicas_per_node=1,
        ray_actor_options={"num_cpus": plan.server_cpus},
        graceful_shutdown_timeout_s=settings.drain_timeout_s + AFTER_DRAIN_S,
    )
    return server.bind(plan.settings, engines(plan, partial(_load, plan.settings), settings.drain_timeout_s))


def _load(given: dict[str, Any]) -> Engine:
    return engine_of(Settings.load(**given))()
