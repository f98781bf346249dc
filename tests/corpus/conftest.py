"""Where the shared test data lies. It is no part of the repository, so tests that need it may be skipped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The data folder: STENTOR_TEST_DATA, or shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(os.environ.get("STENTOR_TEST_DATA", beside))
    if not (path / "manifest.jsonl").is_file():
        pytest.skip(f"no test data at {path}; set STENTOR_TEST_DATA")
    return path


@pytest.fixture(scope="session")
def manifest(corpus: Path) -> dict[str, dict[str, Any]]:
    """What the data says about each file, by its path inside the folder."""
    lines = (corpus / "manifest.jsonl").read_text().splitlines()
    return {entry["path"]: entry for entry in map(json.loads, lines)}


@pytest.fixture
def open_fd(corpus: Path) -> Iterator[Callable[[str], int]]:
    """Opens a file of the corpus for reading."""
    fds: list[int] = []

    def make(path: str) -> int:
        fds.append(os.open(corpus / path, os.O_RDONLY))
        return fds[-1]

    yield make
    for fd in fds:
        os.close(fd)
