"""What `make bench` runs: a server of our own under the tests' speech, at one and at four in flight."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from stentor.bench.servers import serving_model
from support.audio import packaged_speech


def main() -> int:
    """Serve, load, stop; returns the load's exit code."""
    stentor = str(Path(sys.executable).with_name("stentor"))
    with serving_model("base") as server:
        load = [stentor, "bench", "load", "--url", server.url, "--manifest", str(packaged_speech())]
        options = ["--model", server.model, "--concurrency", "1,4", "--pid", str(server.pid)]
        return subprocess.run([*load, *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
