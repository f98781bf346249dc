from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from stentor.bench.machine import LEAST_WINDOW_S, LoadWatch, Machine
from stentor.errors import SetupError
from support.waiting import until

START = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "while True: pass"], stdout=subprocess.DEVNULL).pid)
"""


def test_machine_is_described() -> None:
    here = Machine.here()
    assert here.cpu
    assert here.cores >= 1
    assert here.memory_bytes > 1 << 30
    assert here.python.startswith("3.")


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@pytest.fixture
def stranger() -> Iterator[int]:
    """A busy program that is no child of this one: whoever started it has ended."""
    pid = int(subprocess.run([sys.executable, "-c", START], stdout=subprocess.PIPE, check=True).stdout)
    yield pid
    os.kill(pid, signal.SIGKILL)


async def test_a_strangers_work_is_others_unless_it_is_the_server(stranger: int) -> None:
    alone, with_server = LoadWatch(), LoadWatch(stranger)
    enough_s = cpu_s(stranger) + LEAST_WINDOW_S  # so much takes as long at least
    await until(lambda: cpu_s(stranger) > enough_s)
    others, fewer = alone.read().others_cpu, with_server.read().others_cpu
    assert others is not None
    assert fewer is not None
    assert 0 <= fewer < others <= 1


def test_readings_in_quick_succession_tell_the_same() -> None:
    watch = LoadWatch()
    assert watch.read() == watch.read()


def test_a_server_without_a_pid_could_be_any_of_the_others() -> None:
    assert LoadWatch(server_here=True).read().others_cpu is None
    with pytest.raises(SetupError, match="no pid"):
        LoadWatch(2**30)
