"""The server under test: Stentor as it is, but for what only a bench wants. `python -m stentor.bench.served`.

It listens on 127.0.0.1, says on standard output, in one line, on which port, and ends when its standard
input is closed: so it does not outlive a bench that is killed. Everything that is not an option here is as
`stentor serve` has it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal, TypeVar

import typer
import uvicorn
from fastapi import FastAPI

from stentor.api.app import create_app
from stentor.api.services import make_services
from stentor.config import Settings
from stentor.edge.engines import engine_of
from stentor.engine.fake import FakeEngine
from stentor.observe.logs import set_up_logs
from stentor.preprocess import PreprocessPool
from stentor.process import set_up_process

T = TypeVar("T")

STDIN_FD = 0

GRACE_S = 1
"""For requests under way when the server is told to end. A bench ends it when there are none."""


class InlinePool(PreprocessPool):
    """Runs every step on the loop's own thread, as a server does that decodes in its handler.

    It gives way before each step, so that one request does not decode its whole file at one go: that is
    the kindest form of the mistake.
    """

    def __init__(self) -> None:
        super().__init__(workers=1)  # whose thread is never needed, and so never started

    async def run(self, step: Callable[[], T], unwanted: threading.Event | None = None) -> T:
        await asyncio.sleep(0)
        return step()


def inlined(app: FastAPI) -> FastAPI:
    """Let an app's requests go through an `InlinePool`, from its start on."""
    start = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with start(app) as state:
            services = app.state.services
            app.state.services = make_services(services.settings, services.engine, InlinePool())
            yield state

    app.router.lifespan_context = lifespan
    return app


class LeashedServer(uvicorn.Server):
    """Says where it listens as soon as it does, and lives no longer than its standard input."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)
        threading.Thread(target=self._end_with_input, daemon=True).start()

    def _end_with_input(self) -> None:
        while os.read(STDIN_FD, 1024):  # not sys.stdin, whose lock a thread may not hold when Python ends
            pass
        self.should_exit = True


def serve(
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads that decode audio.")] = None,
    inline: Annotated[bool, typer.Option("--inline", help="Decode on the event loop instead.")] = False,
    engine: Annotated[
        Literal["fake", "ct2"], typer.Option(help="fake answers at once; ct2 is CTranslate2.")
    ] = "fake",
    model: Annotated[str, typer.Option(help="With ct2.")] = "tiny.en",
) -> None:
    """Serve until told to end."""
    settings = Settings(port=port, preprocess_workers=workers, model=model, engine="ctranslate2")
    set_up_logs(as_json=False, level=logging.WARNING)
    if engine == "fake":
        app = create_app(settings, lambda: FakeEngine(slots=settings.resolved_engine_slots))
    else:
        app = create_app(settings, engine_of(settings))
    config = uvicorn.Config(
        inlined(app) if inline else app,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    LeashedServer(config).run()


if __name__ == "__main__":
    set_up_process()  # as the command line does
    typer.run(serve)
