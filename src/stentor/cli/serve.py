"""`stentor serve`: the server in this process."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from stentor.config import Settings
from stentor.observe.logs import set_up_logs

CLEAN_UP_S = 1
"""What is still running after the drain gets this long to notice that its connection was closed, then it is
cancelled; its clean-up (aborts, temporary files) is awaited by the engine's and the pool's own close."""


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
    preprocess_workers: Annotated[int | None, typer.Option(min=1, help="Threads that decode audio.")] = None,
    max_audio_s: Annotated[float | None, typer.Option(min=1, help="Longest audio in seconds.")] = None,
    drain_timeout_s: Annotated[float | None, typer.Option(min=0, help="Grace for running work.")] = None,
    log_json: Annotated[bool | None, typer.Option(help="Log as JSON.")] = None,
) -> None:
    """Serve OpenAI's audio API. Every option also has an environment variable (STENTOR_HOST, …)."""
    given: dict[str, Any] = {name: value for name, value in locals().items() if value is not None}
    settings = Settings.load(**given)
    set_up_logs(as_json=settings.log_json)

    import uvicorn

    from stentor.api.app import create_app
    from stentor.cli.drain import DrainingServer
    from stentor.cli.engines import engine_of

    app = create_app(settings, engine_of(settings))  # no model: fail here, before a port is taken
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=CLEAN_UP_S,
    )
    server = DrainingServer(
        config, app, drain_timeout_s=settings.drain_timeout_s, send_timeout_s=settings.send_timeout_s
    )
    server.run()
    sys.exit(0 if server.started else 1)
