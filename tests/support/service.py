"""A server process with a scripted engine, for tests that send it signals. Prints its port."""

from __future__ import annotations

import socket
from typing import Annotated

import typer
from starlette.requests import Request
from starlette.responses import Response

from stentor.api.app import create_app
from stentor.config import Settings
from stentor.edge.server import DrainingServer
from stentor.engine.fake import FakeEngine
from stentor.observe.logs import set_up_logs


class Announcing(DrainingServer):
    """Prints the port."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


def main(
    drain_timeout_s: Annotated[float, typer.Option()] = 30.0,
    gate: Annotated[str, typer.Option(help="open, or held until POST /gate/open.")] = "open",
) -> None:
    """Serve until a signal."""
    set_up_logs(as_json=False)
    engine = FakeEngine()
    if gate == "held":
        engine.gate.clear()
    app = create_app(Settings(), lambda: engine)

    async def open_gate(request: Request) -> Response:
        engine.gate.set()
        return Response()

    app.add_route("/gate/open", open_gate, methods=["POST"])
    Announcing(app, drain_timeout_s=drain_timeout_s, send_timeout_s=60, port=0).run()


if __name__ == "__main__":
    typer.run(main)
