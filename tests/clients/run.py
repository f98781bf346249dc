"""What `make clients` runs: other people's clients, by their own PYTHON, against a server of our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from stentor.bench.servers import serving_model
from support.audio import packaged_speech

SAID = """
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,
it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the season of
darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had
nothing before us, we were all going direct to heaven, we were all going direct the other way. In short, the
period was so far like the present period, that some of its noisiest authorities insisted on its being
received, for good or for evil, in the superlative degree of comparison only.
"""
"""Charles Dickens, A Tale of Two Cities, as it is read in the recording."""


def main(python: str) -> int:
    """Serve, check, stop; returns the check's exit code."""
    with serving_model("tiny.en") as server:
        check = [python, str(Path(__file__).with_name("check.py")), server.url]
        return subprocess.run(
            [*check, str(packaged_speech() / "two_cities.wav"), SAID], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
