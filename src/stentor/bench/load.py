"""A load for any OpenAI-compatible server: every utterance once, with so many in flight.

The loop is closed: a new request starts when another has ended. Nothing is retried, since a refusal is a
figure too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from time import perf_counter

import httpx

from stentor.bench.answers import read_answer
from stentor.bench.breakdown import scrape, stage_seconds
from stentor.bench.calls import TRANSCRIPTIONS_PATH
from stentor.bench.manifest import Utterance
from stentor.bench.probes import HEALTH_TIMEOUT_S, PidTree, watch_health, watch_pids
from stentor.bench.results import LevelResult, RequestResult

CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is sent where.

    `pid` is the server's, when it runs on this machine and shall be watched. With `stream` answers are asked
    for piece by piece. `metrics_path` is where a Stentor counts.
    """

    url: str
    model: str
    utterances: tuple[Utterance, ...]
    concurrency: tuple[int, ...] = (1, 4, 16)
    send_language: bool = True
    stream: bool = False
    response_format: str = "json"
    api_key: str | None = field(default=None, repr=False)
    pid: int | None = None
    health_path: str = "/health/live"
    metrics_path: str | None = "/metrics"
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A plan and what came of it, level by level."""

    plan: LoadPlan
    levels: tuple[LevelResult, ...]


async def run_load(
    plan: LoadPlan,
    on_level: Callable[[LevelResult], None] = lambda level: None,
    on_answer: Callable[[], None] = lambda: None,
) -> LoadResult:
    """Run the plan's levels one after the other; `on_level` hears of each when it is done.

    `on_answer` is called after each request, answered or not.

    Cancelling (Ctrl-C) ends every request and probe, and closes their connections, before it returns.

    Raises:
        SetupError: The plan's pid is not there.
    """
    levels = []
    for concurrency in plan.concurrency:
        levels.append(await _run_level(plan, concurrency, on_answer))
        on_level(levels[-1])
    return LoadResult(plan, tuple(levels))


async def _run_level(plan: LoadPlan, concurrency: int, on_answer: Callable[[], None]) -> LevelResult:
    stop = asyncio.Event()
    pids = None if plan.pid is None else PidTree(plan.pid)
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(_client(plan, concurrency))
        # A client of its own, so that a probe never waits for a connection behind an upload.
        prober = await stack.enter_async_context(_client(plan, 1))
        # Unmeasured: the first answer of all pays for httpx's lazy imports.
        with suppress(httpx.HTTPError):
            await prober.get(plan.health_path, timeout=HEALTH_TIMEOUT_S)
        before = await scrape(prober, plan.metrics_path)
        watchers = await stack.enter_async_context(asyncio.TaskGroup())
        health = watchers.create_task(watch_health(prober, plan.health_path, stop))
        server = None if pids is None else watchers.create_task(watch_pids(pids, stop))
        start_s = perf_counter()
        requests = await _send_all(sender, plan, concurrency, on_answer)
        wall_s = perf_counter() - start_s
        stop.set()
        await health  # it has the prober's one connection
        stages = stage_seconds(before, await scrape(prober, plan.metrics_path))
    server_figures = None if server is None else server.result()
    return LevelResult(concurrency, requests, wall_s, health.result(), server_figures, stages)


def _client(plan: LoadPlan, connections: int) -> httpx.AsyncClient:
    return client_of(plan.url, plan.api_key, connections=connections, timeout_s=plan.timeout_s)


def client_of(url: str, api_key: str | None, *, connections: int, timeout_s: float) -> httpx.AsyncClient:
    """A client for a server's API, with so many connections at most; `url` may end in /v1."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(
        base_url=url.rstrip("/").removesuffix("/v1"),
        headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
        timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
        # A transport of our own also keeps the environment's proxies out: we measure the server.
        transport=httpx.AsyncHTTPTransport(limits=limits),
    )


async def _send_all(
    client: httpx.AsyncClient, plan: LoadPlan, concurrency: int, on_answer: Callable[[], None]
) -> tuple[RequestResult, ...]:
    waiting = iter(enumerate(plan.utterances))
    results: dict[int, RequestResult] = {}

    async def caller() -> None:
        for index, utterance in waiting:  # Shared by all callers: each takes the next when it is free.
            results[index] = await _send(client, plan, utterance)
            on_answer()

    async with asyncio.TaskGroup() as callers:
        for _ in range(concurrency):
            callers.create_task(caller())
    return tuple(results[index] for index in range(len(plan.utterances)))


async def _send(client: httpx.AsyncClient, plan: LoadPlan, utterance: Utterance) -> RequestResult:
    fields = {"model": plan.model, "response_format": plan.response_format}
    if plan.stream:
        fields["stream"] = "true"
    if plan.send_language and utterance.language:
        fields["language"] = utterance.language
    start_s = perf_counter()
    # Opening takes microseconds. httpx reads the file piece by piece as it sends, fields first.
    with utterance.path.open("rb") as audio:
        files = {"file": (utterance.path.name, audio)}
        try:
            async with client.stream("POST", TRANSCRIPTIONS_PATH, data=fields, files=files) as response:
                heard = await read_answer(response, plan.response_format)
        except httpx.HTTPError as failure:
            named = f"{type(failure).__name__}: {failure}"
            return RequestResult(utterance, None, perf_counter() - start_s, error=named)
    latency_s = perf_counter() - start_s
    first_s = heard.first_delta_s - start_s if plan.stream and heard.first_delta_s is not None else None
    return RequestResult(
        utterance, response.status_code, latency_s, heard.text, heard.error, first_s, heard.streamed
    )
