"""What `make clients` runs: other people's clients, by their own PYTHON, against a server of our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from stentor.bench.servers import serving_model
from support.audio import TWO_CITIES_TEXT, packaged_speech


def main(python: str) -> int:
    """Serve, check, stop; returns the check's exit code."""
    with serving_model("tiny.en") as server:
        check = [python, str(Path(__file__).with_name("check.py")), server.url]
        return subprocess.run(
            [*check, str(packaged_speech() / "two_cities.wav"), TWO_CITIES_TEXT], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
