"""How far the files have come: bars in audio seconds on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text


class Display(AbstractContextManager["Display"], Protocol):
    """Shows files on their way."""

    def begin(self, name: str, duration_s: float | None) -> None: ...
    def advance(self, name: str, done_s: float) -> None: ...
    def finish(self, name: str, duration_s: float) -> None: ...
    def fail(self, name: str, reason: str) -> None: ...


def display() -> Display:
    """The display that suits standard error."""
    return Bars() if sys.stderr.isatty() else Lines()


class Lines:
    """One plain line for each file that ends, and one for all of them."""

    def __init__(self) -> None:
        self._began_s: dict[str, float] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        pass

    def begin(self, name: str, duration_s: float | None) -> None:
        self._began_s[name] = time.perf_counter()

    def advance(self, name: str, done_s: float) -> None:
        pass

    def finish(self, name: str, duration_s: float) -> None:
        wall_s = time.perf_counter() - self._began_s[name]
        print(
            f"{name}: {duration_s:.1f} s in {wall_s:.1f} s, RTFx {duration_s / wall_s:.1f}", file=sys.stderr
        )

    def fail(self, name: str, reason: str) -> None:
        print(f"{name}: {reason}", file=sys.stderr)


class _Rtfx(ProgressColumn):
    def render(self, task: Task) -> Text:
        elapsed_s = task.finished_time or task.elapsed
        return Text(f"RTFx {task.completed / elapsed_s:5.1f}" if elapsed_s else "", style="cyan")


class Bars:
    """A bar for each file."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} s"),
            _Rtfx(),
            console=Console(stderr=True),
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str, duration_s: float | None) -> None:
        self._bars[name] = self._progress.add_task(name, total=duration_s or 0)

    def advance(self, name: str, done_s: float) -> None:
        self._progress.update(self._bars[name], completed=done_s)

    def finish(self, name: str, duration_s: float) -> None:
        self._progress.update(self._bars[name], completed=duration_s, total=duration_s)

    def fail(self, name: str, reason: str) -> None:
        if name in self._bars:
            self._progress.remove_task(self._bars[name])
        self._progress.console.print(f"[red]{name}: {reason}", highlight=False)
