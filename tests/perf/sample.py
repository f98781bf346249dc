"""What `make bench` runs: a server of our own under the tests' speech, at one and at four in flight."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.command import STENTOR, packaged_speech, serve_command

PORT = 8019


def main() -> int:
    """Serve, load, stop; returns the load's exit code."""
    with serve_command(PORT) as server:
        load = [STENTOR, "bench", "load", "--url", server.url, "--manifest", str(packaged_speech())]
        options = ["--model", "base", "--concurrency", "1,4", "--pid", str(server.pid)]
        return subprocess.run([*load, *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
