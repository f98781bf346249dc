"""`stentor serve` as a user starts it, and the speech that comes with the tests' dependencies."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

STENTOR = str(Path(sys.executable).with_name("stentor"))
START_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Command:
    """A running `stentor serve`."""

    url: str
    pid: int


@contextmanager
def serve_command(port: int, *options: str) -> Iterator[Command]:
    """Start it, wait until it is ready, and stop it in the end."""
    server = subprocess.Popen([STENTOR, "serve", "--port", str(port), *options])
    try:
        url = f"http://127.0.0.1:{port}"
        transport = httpx.HTTPTransport(retries=10)  # connection attempts with growing pauses, about a minute
        with httpx.Client(transport=transport, timeout=START_TIMEOUT_S) as client:
            client.get(f"{url}/health/ready").raise_for_status()
        yield Command(url, server.pid)
    finally:
        server.terminate()
        server.wait()


def packaged_speech() -> Path:
    """A folder of recordings."""
    speech = importlib.util.find_spec("moonshine_voice")
    assert speech is not None
    assert speech.submodule_search_locations is not None
    return Path(next(iter(speech.submodule_search_locations))) / "assets"
