"""`stentor health`: ask a running server, as containers and supervisors do that have no curl."""

from __future__ import annotations

import http.client
import ipaddress
import json
import sys
from typing import Annotated

import typer

from stentor.config import Settings


def health(
    host: Annotated[str | None, typer.Option(help="Where it listens. [default: STENTOR_HOST]")] = None,
    port: Annotated[int | None, typer.Option(help="Its port. [default: STENTOR_PORT]")] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether new work is welcome, not whether it lives.")
    ] = False,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="How long it may take to answer.")] = 3.0,
) -> None:
    """Exit with 0 when a running server is well and with 1 when it is not; print what it says."""
    settings = Settings.load()
    path = "/health/ready" if ready else "/health/live"
    keys = sorted(settings.known_api_keys)
    # STENTOR_KEYLESS may lock the probes too.
    headers = {"Authorization": f"Bearer {keys[0]}"} if keys else {}
    connection = http.client.HTTPConnection(
        _reachable(host or settings.host), settings.port if port is None else port, timeout=timeout_s
    )
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        print(f"stentor: {connection.host}:{connection.port} does not answer: {error}", file=sys.stderr)
        sys.exit(1)
    finally:
        connection.close()
    print(said.get("status", said))
    sys.exit(0 if answer.status == 200 else 1)


def _reachable(host: str) -> str:
    """The address at which a server that listens on every interface answers here."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"
