"""What a server says of itself, so that a figure is not of "some server"."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import httpx

from stentor.bench.calls import Target
from stentor.bench.records import Subject
from stentor.errors import SetupError

ASK_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known of a server; None is what it does not say.

    Attributes:
        server: Its software and version.
        engine: What computes in it.
        model: The model that it serves, by its own name.
        digest: SHA-256 of the model's weights.
    """

    server: str | None = None
    engine: str | None = None
    model: str | None = None
    digest: str | None = None


def subject_of(target: Target, name: str | None) -> Subject:
    """Ask a server who it is. One that does not answer has its address for a name.

    Raises:
        SetupError: Its URL is none.
    """
    try:
        url = httpx.URL(target.url).copy_with(userinfo=b"")  # results are for others to read
    except httpx.InvalidURL as error:
        raise SetupError(f"--url {target.url}: {error}") from error
    identity = identify(target)
    server = identity.server or url.netloc.decode()
    versions = {"server": identity.server, "engine": identity.engine}
    return Subject(
        name=name or " ".join(filter(None, (server.split(" ")[0], identity.engine))),
        url=str(url),
        model=identity.model or target.model,
        digest=identity.digest,
        versions={key: value for key, value in versions.items() if value is not None},
    )


def identify(target: Target) -> Identity:
    """Ask a Stentor's `/status`, or vLLM's `/version`; others do not say."""
    with httpx.Client(headers=target.headers, timeout=ASK_TIMEOUT_S, trust_env=False) as client:
        status = _asked(client, f"{target.base_url}/status")
        version, engine = _text(status, "version"), _text(status, "engine")
        if version is not None and engine is not None:
            return Identity(f"stentor {version}", engine, _text(status, "model"), _text(status, "digest"))
        # Source: vllm/entrypoints/openai/api_server.py, show_version.
        if (version := _text(_asked(client, f"{target.base_url}/version"), "version")) is not None:
            return Identity(f"vllm {version}")
    return Identity()


def _asked(client: httpx.Client, url: str) -> Mapping[str, object]:
    with suppress(httpx.HTTPError, ValueError):
        response = client.get(url)
        answer = response.json() if response.is_success else None
        if isinstance(answer, dict):
            return answer
    return {}


def _text(answer: Mapping[str, object], name: str) -> str | None:
    value = answer.get(name)
    return value if isinstance(value, str) and value else None
