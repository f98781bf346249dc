"""The machine that a figure was taken on, and what else it was doing meanwhile."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import psutil

from stentor.errors import SetupError

CPU_FACTS = Path("/proc/cpuinfo")
"""Where Linux names the CPU; `platform` does not know it there."""

LEAST_WINDOW_S = 0.2
"""Systems count CPU time in ticks of 10 ms: over less than twenty of them a share says nothing."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a figure is worth nothing without. `memory_bytes` is all that there is."""

    cpu: str
    cores: int
    memory_bytes: int
    python: str
    platform: str

    @classmethod
    def here(cls) -> Machine:
        """Describe this machine; the server's is another one when its URL says so."""
        facts = CPU_FACTS.read_text(encoding="utf-8") if CPU_FACTS.exists() else ""
        named = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
        cpu = named[1] if named else platform.processor() or platform.machine()
        memory_bytes = psutil.virtual_memory().total
        return cls(cpu, os.cpu_count() or 1, memory_bytes, platform.python_version(), platform.platform())


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """How busy the machine was with other things.

    `average_1m` is the system's load average over a minute, before anything was measured. `others_cpu` is the
    share of all processors' time (0 to 1) that programs other than the bench and its server used while it
    measured. None is what cannot be known: on this system, or without the pid of a server that might run
    here.
    """

    average_1m: float | None
    others_cpu: float | None


class LoadWatch:
    """Tells from time to time what else the machine does.

    Args:
        pid: The server's, where it is no child of this program.
        server_here: Whether there is a server whose time cannot be told from others' without a pid.

    Raises:
        SetupError: There is no such pid.
    """

    def __init__(self, pid: int | None = None, *, server_here: bool = False) -> None:
        self._known = pid is not None or not server_here
        try:
            self._roots = [psutil.Process(), *([] if pid is None else [psutil.Process(pid)])]
        except psutil.NoSuchProcess as error:
            raise SetupError(f"there is no pid {pid}") from error
        self._average_1m = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        self._latest: float | None = None
        self._mark()

    def read(self) -> MachineLoad:
        """Tell of the time since the last reading; readings in quick succession tell the same."""
        if not self._known:
            return MachineLoad(self._average_1m, None)
        wall_s = perf_counter() - self._since_s
        if self._latest is None or wall_s >= LEAST_WINDOW_S:
            busy_s, own_s = _busy_s() - self._busy_s, _used_s(self._roots) - self._own_s
            offered_s = wall_s * (psutil.cpu_count() or 1)
            self._latest = min(1.0, max(0.0, (busy_s - own_s) / offered_s))
            self._mark()
        return MachineLoad(self._average_1m, round(self._latest, 4))

    def _mark(self) -> None:
        self._since_s, self._busy_s, self._own_s = perf_counter(), _busy_s(), _used_s(self._roots)


def _busy_s() -> float:
    """CPU seconds of all processors that were not idle. What a hypervisor took away was others' as well."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times.get(kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq", "steal")))


def _used_s(roots: list[psutil.Process]) -> float:
    """CPU seconds of some pids and their descendants, those included that have ended and were waited for."""
    members: set[psutil.Process] = set()
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            members.update((root, *root.children(recursive=True)))
    used_s = 0.0
    for member in members:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            times = member.cpu_times()
            used_s += times.user + times.system + times.children_user + times.children_system
    return used_s
