"""Whole servers under concurrent uploads: how fast each setting is, whether it stays alive, what it holds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stentor.bench.inputs import Inputs
from stentor.bench.load import LoadPlan, run_load
from stentor.bench.manifest import Utterance
from stentor.bench.plan import PreprocessPlan
from stentor.bench.prober import probed
from stentor.bench.probes import PidTree
from stentor.bench.records import Record, Value, median
from stentor.bench.results import LevelResult
from stentor.errors import SetupError

MODEL = "whisper-1"
"""The name under which every Stentor answers."""

STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Served:
    """A server in a program of its own."""

    url: str
    pid: int


@contextmanager
def serving(setting: str, plan: PreprocessPlan) -> Iterator[Served]:
    """Start a server and end it when the context is left.

    Args:
        setting: Where it decodes: "inline", "default", or a number of workers.
        plan: Names its engine.

    Raises:
        SetupError: It does not start.
    """
    where = {"inline": ["--inline"], "default": []}.get(setting, ["--workers", setting])
    engine = ["--engine", plan.engine, "--model", plan.model]
    command = [sys.executable, "-m", "stentor.bench.served", *where, *engine]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            if not port:
                raise SetupError("the server under test does not start; the reason is above")
            yield Served(f"http://127.0.0.1:{port}", server.pid)
        finally:
            server.stdin.close()
            try:
                server.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                server.kill()


def measure_server(inputs: Inputs, plan: PreprocessPlan) -> Iterator[Record]:
    """Load a new server per setting and repeat, in turns."""
    levels: dict[str, list[LevelResult]] = defaultdict(list)
    for _ in range(plan.repeats):
        for setting in plan.settings:
            levels[setting].append(_run(setting, inputs, plan))
    for setting, own in levels.items():
        told = {**_told(plan), "upload_s": plan.upload_s, "repeats": plan.repeats, "workers": setting}
        yield Record("server", told, _figures(own))


def measure_memory(inputs: Inputs, plan: PreprocessPlan) -> Iterator[Record]:
    """Hold a new server's memory under long uploads against what it takes before its first request."""
    with serving("default", plan) as server:
        idle_bytes = PidTree(server.pid).figures.peak_rss_bytes
        level = _send(server, inputs.long_mp3(plan.long_s), plan.long_s, plan.uploads)
    assert level.server is not None
    peak_bytes = level.server.peak_rss_bytes
    above_mb = (peak_bytes - idle_bytes) / 1e6
    yield Record(
        "memory",
        {**_told(plan), "long_s": plan.long_s},
        {
            "idle_mb": idle_bytes / 1e6,
            "peak_mb": peak_bytes / 1e6,
            "above_idle_mb": above_mb,
            "per_upload_mb": above_mb / plan.uploads,
            "rtfx": level.rtfx,
            "failed": sum(level.errors.values()),
        },
    )


def _run(setting: str, inputs: Inputs, plan: PreprocessPlan) -> LevelResult:
    path = inputs.long_mp3(plan.upload_s)
    with serving(setting, plan) as server:
        # Unmeasured: the first request pays for what is imported and allocated once.
        _send(server, inputs.clip("mp3", plan.clip_s), plan.clip_s, 1)
        level, health = probed(server.url, lambda: _send(server, path, plan.upload_s, plan.uploads))
    return replace(level, health=health)


def _send(server: Served, path: Path, seconds: float, uploads: int) -> LevelResult:
    """Send a file so many times at once.

    The load probes liveness too, but on the loop that sends: that figure is not used. It is 50 small
    requests a second, 3 % of a core, and the same for every setting.
    """
    utterances = (Utterance(path, seconds, "en", None),) * uploads
    load = LoadPlan(server.url, MODEL, utterances, concurrency=(uploads,), pid=server.pid)
    return asyncio.run(run_load(load)).levels[0]


def _told(plan: PreprocessPlan) -> dict[str, Value]:
    model = plan.model if plan.engine != "fake" else None
    return {"engine": plan.engine, "model": model, "uploads": plan.uploads}


def _figures(levels: list[LevelResult]) -> dict[str, Value]:
    health = [level.health for level in levels if level.health is not None]
    latencies = [figures.latency for figures in health if figures.latency is not None]
    servers = [level.server for level in levels if level.server is not None]
    rtfx = [level.rtfx for level in levels]
    return {
        "rtfx": median(rtfx),
        "rtfx_min": min(rtfx),
        "rtfx_max": max(rtfx),
        "failed": sum(sum(level.errors.values()) for level in levels),
        "wall_s": median(level.wall_s for level in levels),
        "cpu_s": median(server.cpu_s for server in servers),
        "peak_rss_mb": max(server.peak_rss_bytes / 1e6 for server in servers),
        "live_p50_ms": median(1000 * latency.p50_s for latency in latencies),
        "live_p99_ms": median(1000 * latency.p99_s for latency in latencies),
        "live_max_ms": max((1000 * latency.max_s for latency in latencies), default=None),
        "live_failures": sum(figures.failures for figures in health),
        "live_probes": sum(figures.probes for figures in health),
    }
