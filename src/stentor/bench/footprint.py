"""What a pid tree holds: what leaks shows as growth of it between two moments of rest."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from stentor.errors import SetupError

DELETED = " (deleted)"
"""What Linux adds to the name of an open file that has none any more, as an upload's file has none."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory, threads, open files and those of them that are temporary, of a pid and its descendants."""

    rss_bytes: int
    fds: int
    threads: int
    temp_files: int

    @classmethod
    def of(cls, pid: int) -> Footprint:
        """Look now.

        Raises:
            SetupError: There is no such pid.
        """
        try:
            root = psutil.Process(pid)
            members = [root, *root.children(recursive=True)]
            return cls(
                sum(member.memory_info().rss for member in members),
                sum(member.num_fds() for member in members),
                sum(member.num_threads() for member in members),
                sum(_temp_files(member.pid) for member in members),
            )
        except psutil.NoSuchProcess as error:
            raise SetupError(f"the server's pid {error.pid} is gone") from error


def _temp_files(pid: int) -> int:
    """Open files without a name; 0 where there is no /proc."""
    names = []
    for fd in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # closed meanwhile
            names.append(str(fd.readlink()))
    return sum(name.endswith(DELETED) for name in names)
