"""What `make bench` runs: a server of our own under the tests' speech, at one and at four in flight."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import httpx

PORT = 8019
START_TIMEOUT_S = 60


def main() -> int:
    """Serve, load, stop; returns the load's exit code."""
    stentor = str(Path(sys.executable).with_name("stentor"))
    speech = importlib.util.find_spec("moonshine_voice")
    assert speech is not None
    assert speech.submodule_search_locations is not None
    assets = Path(next(iter(speech.submodule_search_locations))) / "assets"
    server = subprocess.Popen([stentor, "serve", "--port", str(PORT)])
    try:
        url = f"http://127.0.0.1:{PORT}"
        transport = httpx.HTTPTransport(retries=10)  # connection attempts with growing pauses, about a minute
        with httpx.Client(transport=transport, timeout=START_TIMEOUT_S) as client:
            client.get(f"{url}/health/ready").raise_for_status()
        load = [stentor, "bench", "load", "--url", url, "--manifest", str(assets), "--model", "base"]
        return subprocess.run(
            [*load, "--concurrency", "1,4", "--pid", str(server.pid)], check=False
        ).returncode
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
