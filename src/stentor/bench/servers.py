"""Servers that a bench starts for itself, in programs of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from stentor.bench.calls import Target
from stentor.bench.uploads import STOP_TIMEOUT_S
from stentor.errors import SetupError

READY_PATH = "/health/ready"
READY_LIMIT_S = 60.0
"""Loading a model takes a second or two; the first start of a packaged one also unpacks it."""

ASK_PERIOD_S = 0.05


@contextmanager
def serving_model(model: str) -> Iterator[Target]:
    """`stentor serve` as anybody starts it, on a free port.

    Raises:
        SetupError: It does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    main = "from stentor.cli.main import main; main()"
    command = [sys.executable, "-c", main, "serve", "--model", model, "--port", str(port)]
    with subprocess.Popen(command) as server:
        try:
            yield _ready(server, port)
        finally:
            server.terminate()
            _end(server)


@contextmanager
def serving_fake(max_upload_bytes: int) -> Iterator[Target]:
    """The server with the scripted engine, which answers at once and always the same.

    Raises:
        SetupError: It does not start.
    """
    command = [sys.executable, "-m", "stentor.bench.served", "--engine", "fake"]
    env = {**os.environ, "STENTOR_MAX_UPLOAD_BYTES": str(max_upload_bytes)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()  # nothing when it does not start
            yield _ready(server, int(port or 0))
        finally:
            server.stdin.close()
            _end(server)


def _ready(server: subprocess.Popen[bytes] | subprocess.Popen[str], port: int) -> Target:
    """Wait until a server is ready, and ask it for its model's own name."""
    url = f"http://127.0.0.1:{port}"
    end_s = time.monotonic() + READY_LIMIT_S
    with httpx.Client(base_url=url, trust_env=False) as client:
        while port and server.poll() is None and time.monotonic() < end_s:
            try:
                if client.get(READY_PATH).is_success:
                    return Target(url, client.get("/v1/models").json()["data"][0]["id"], server.pid)
            except httpx.TransportError:
                pass  # it does not listen yet
            time.sleep(ASK_PERIOD_S)
    raise SetupError("the server under test does not start; the reason is above")


def _end(server: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    try:
        server.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
