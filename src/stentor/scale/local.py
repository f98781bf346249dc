"""Engines on a Ray of this machine, for the server in this process: `stentor serve --ray`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

# Before Ray is imported. Nothing is told to anybody outside; and replicas are no background work, as which
# Ray runs them, at a niceness of 15: under load on the same processors they had half their speed.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")

import ray
from ray import serve
from ray.serve.schema import LoggingConfig, ServeStatus

from stentor.engine.base import Engine
from stentor.errors import SetupError
from stentor.scale.deployments import Plan, engines
from stentor.scale.handles import connect
from stentor.scale.remote import RemoteEngine

STORE_BYTES = 400 << 20
"""Memory for chunks on their way: 200 of 30 s, where replicas hold one and a half for each of their slots."""

APPLICATION = "stentor"

Connect: TypeAlias = Callable[[], RemoteEngine]
"""Gives an engine that computes in the replicas; blocks until one of them answers."""


@contextmanager
def engines_on_ray(load: Callable[[], Engine], *, replicas: int, drain_timeout_s: float) -> Iterator[Connect]:
    """Run engine replicas until the context is left; gives what connects a server to them.

    A Ray is started on this machine, or joined where the environment names one (`RAY_ADDRESS`).

    Args:
        load: Loads an engine, in each replica.
        replicas: How many.
        drain_timeout_s: What calls under way get when a replica is to stop.

    Raises:
        SetupError: They do not start.
    """
    address = os.environ.get("RAY_ADDRESS")
    own = (
        {}
        if address
        else {"num_cpus": replicas, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    )
    ray.init(address or "local", log_to_driver=False, logging_level="warning", **own)
    try:
        serve.start(proxy_location="Disabled", logging_config=LoggingConfig(log_level="WARNING"))
        application = engines(Plan(engines=replicas), load, drain_timeout_s)
        try:
            handle = serve.run(application, name=APPLICATION, route_prefix=None)
        except RuntimeError as error:
            raise SetupError(f"the engine replicas do not start: {_told(serve.status())}") from error
        yield partial(connect, handle)
    finally:
        if address:
            serve.delete(APPLICATION)
        else:
            serve.shutdown()
        ray.shutdown()


def _told(status: ServeStatus) -> str:
    """Why, with the last lines of what the replica raised."""
    deployments = status.applications[APPLICATION].deployments.values()
    return "\n".join(deployment.message.strip() for deployment in deployments)
