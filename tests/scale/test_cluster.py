"""The application as a cluster runs it: two nodes, a server and an engine replica on each."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster

from stentor.config import Settings
from stentor.edge.engines import engine_of
from stentor.scale.deployments import Plan, build, engines
from stentor.scale.handles import connect
from support.replicas import serve_pids
from support.server import serving
from support.waiting import until

PATH = "/v1/audio/transcriptions"


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head without work and two nodes for a server and an engine each."""
    node = {"object_store_memory": 150 << 20}
    cluster = Cluster(True, head_node_args={"num_cpus": 0, "include_dashboard": False, **node})
    for _ in range(2):
        cluster.add_node(num_cpus=2, **node)
    ray.init(cluster.address, log_to_driver=False)
    serve.start(proxy_location="Disabled")
    yield cluster
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()


def plan(port: int, **settings: object) -> dict[str, Any]:
    """The args of the application."""
    given = {"model": "tiny.en", "port": port, "drain_timeout_s": 20, **settings}
    return {"settings": given, "engines": 2, "servers": 2}


@pytest.fixture
async def http(cluster: Cluster, port: int) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, which is running."""
    await asyncio.to_thread(serve.run, build(plan(port)), name="stentor", route_prefix=None)
    limits = httpx.Limits(max_keepalive_connections=0)  # each request may meet the other server
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=200, limits=limits) as client:
        yield client


async def transcript(http: httpx.AsyncClient, audio: bytes) -> str:
    answer = await http.post(PATH, files={"file": ("a.flac", audio)})
    answer.raise_for_status()
    text: str = answer.json()["text"]
    return text


async def test_each_node_has_a_server_and_the_cluster_two_engines(http: httpx.AsyncClient) -> None:
    assert len(serve_pids("engine")) == len(serve_pids("server")) == 2
    assert (await http.get("/health/ready")).status_code == 200


async def test_a_rolling_update_loses_no_request(
    http: httpx.AsyncClient, port: int, two_cities: Path
) -> None:
    audio = await asyncio.to_thread(two_cities.read_bytes)
    expected = await transcript(http, audio)
    before = {*serve_pids("engine"), *serve_pids("server")}
    updated = asyncio.Event()
    refused: list[str] = []

    async def ask() -> list[str]:
        told = []
        while not updated.is_set():
            answer = await http.post(PATH, files={"file": ("a.wav", audio)})
            if answer.status_code == 200:
                told.append(answer.json()["text"])
            else:
                refused.append(f"{answer.json()['error']['code']}, {answer.headers.get('retry-after')}")
                await asyncio.sleep(0.2)
        return told

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    update = build(plan(port, max_requests=100))
    await asyncio.to_thread(serve.run, update, name="stentor", route_prefix=None)
    await until(lambda: not before & {*serve_pids("engine"), *serve_pids("server")})
    updated.set()
    told = [text for texts in await asyncio.gather(*asking) for text in texts]
    print(f"{len(told)} answered, {len(refused)} told to come again: {set(refused)}")
    assert set(told) == {expected}
    assert set(refused) <= {"draining, 1"}


async def test_a_node_that_is_lost_costs_no_word(cluster: Cluster, long_speech: Path) -> None:
    await asyncio.to_thread(serve.delete, "stentor")
    application = engines(Plan(engines=2, engine_cpus=2), engine_of(Settings(model="tiny.en")), 1)
    handle = await asyncio.to_thread(partial(serve.run, application, name="alone", route_prefix=None))
    audio = await asyncio.to_thread(long_speech.read_bytes)
    async with serving(await asyncio.to_thread(connect, handle)) as served:
        engine = served.services.engine
        async with httpx.AsyncClient(base_url=served.url, timeout=200) as client:
            expected = await transcript(client, audio)
            answers = [asyncio.create_task(transcript(client, audio)) for _ in range(8)]
            await until(lambda: engine.health().running >= 4)
            await asyncio.to_thread(cluster.remove_node, next(iter(cluster.worker_nodes)), False)
            assert await asyncio.gather(*answers) == [expected] * 8
