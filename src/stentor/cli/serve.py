"""`stentor serve`: the server in this process, and its engine here or on Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any

import typer

from stentor.config import Settings
from stentor.engine.base import Engine
from stentor.errors import SetupError
from stentor.observe.logs import set_up_logs


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one. [default: 8000]")] = None,
    model: Annotated[
        str | None, typer.Option(help="Directory, packaged name or hub id; see `stentor models`.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto.")] = None,
    engine: Annotated[str | None, typer.Option(help="auto, native, ctranslate2 or vllm.")] = None,
    engine_slots: Annotated[
        int | None, typer.Option(min=1, help="Chunks CTranslate2 computes at once.")
    ] = None,
    max_batch: Annotated[
        int | None, typer.Option(min=1, help="Chunks the native engine or vLLM computes at once.")
    ] = None,
    ray: Annotated[
        bool | None, typer.Option("--ray", help="Run the engine in processes of Ray's; needs stentor[ray].")
    ] = None,
    ray_engines: Annotated[int | None, typer.Option(min=1, help="How many of them. [default: 1]")] = None,
    preprocess_workers: Annotated[int | None, typer.Option(min=1, help="Threads that decode audio.")] = None,
    max_audio_s: Annotated[float | None, typer.Option(min=1, help="Longest audio in seconds.")] = None,
    drain_timeout_s: Annotated[float | None, typer.Option(min=0, help="Grace for running work.")] = None,
    log_json: Annotated[bool | None, typer.Option(help="Log as JSON.")] = None,
) -> None:
    """Serve OpenAI's audio API. Every option also has an environment variable (STENTOR_HOST, …)."""
    given: dict[str, Any] = {name: value for name, value in locals().items() if value is not None}
    settings = Settings.load(**given)
    set_up_logs(as_json=settings.log_json)

    from stentor.edge.engines import engine_of

    load = engine_of(settings)  # no model: fail here, before a port is taken
    if not settings.ray:
        sys.exit(0 if run_server(settings, load) else 1)
    with _on_ray(settings, load) as connect:
        started = run_server(settings, connect)
    sys.exit(0 if started else 1)


def run_server(settings: Settings, make_engine: Callable[[], Engine]) -> bool:
    """Serve until a signal; returns whether it came so far."""
    from stentor.api.app import create_app
    from stentor.edge.server import DrainingServer

    server = DrainingServer(
        create_app(settings, make_engine),
        drain_timeout_s=settings.drain_timeout_s,
        send_timeout_s=settings.send_timeout_s,
        host=settings.host,
        port=settings.port,
    )
    server.run()
    return server.started


def _on_ray(settings: Settings, load: Callable[[], Engine]) -> AbstractContextManager[Callable[[], Engine]]:
    try:
        from stentor.scale.local import engines_on_ray
    except ImportError as error:
        raise SetupError(f"{error.name} is not installed: pip install stentor[ray]") from error
    return engines_on_ray(load, replicas=settings.ray_engines, drain_timeout_s=settings.drain_timeout_s)
