"""The configuration for nginx, in a real one before a real server: as if it were not there."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stentor.engine.fake import FakeEngine
from support.audio import bursts, write
from support.forms import form_bytes, head
from support.server import Served, serving
from support.waiting import until

CONFIG = Path(__file__).parents[2] / "deploy" / "nginx" / "stentor.conf"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(
    not (NGINX and shutil.which("openssl")), reason="nginx or openssl is not installed"
)

AROUND = """
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/unused;
    uwsgi_temp_path {folder}/unused;
    scgi_temp_path {folder}/unused;
    include {folder}/stentor.conf;
}}
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running nginx; it listens on sockets in its folder, so that no port has to be found for it."""

    folder: Path

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        trusting = ssl.create_default_context(cafile=self.folder / "cert.pem")
        return await asyncio.open_unix_connection(
            self.folder / "tls", ssl=trusting, server_hostname="speech.example"
        )

    def spooled(self) -> list[Path]:
        """Files with bodies of requests or of answers."""
        return [
            path
            for kind in ("bodies", "answers")
            for path in (self.folder / kind).rglob("*")
            if path.is_file()
        ]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Holds a certificate. Not pytest's own, whose path may be too long for a socket."""
    with TemporaryDirectory(prefix="nginx-") as name:
        made = Path(name)
        subprocess.run(
            [
                *(
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:prime256v1",
                    "-nodes",
                ),
                *("-subj", "/CN=speech.example", "-addext", "subjectAltName=DNS:speech.example"),
                *("-keyout", made / "key.pem", "-out", made / "cert.pem"),
            ],
            check=True,
            capture_output=True,
        )
        yield made


@asynccontextmanager
async def proxied(folder: Path, served: Served) -> AsyncIterator[Proxy]:
    """The shipped file, with sockets, certificate and server of the test's own."""
    text = CONFIG.read_text(encoding="utf-8")
    for shipped, own in [
        ("listen 80;", f"listen unix:{folder}/plain;"),
        ("listen 443 ssl http2;", f"listen unix:{folder}/tls ssl http2;"),
        ("/etc/ssl/stentor/fullchain.pem", f"{folder}/cert.pem"),
        ("/etc/ssl/stentor/key.pem", f"{folder}/key.pem"),
        ("server 127.0.0.1:8000;", f"server 127.0.0.1:{served.port};"),
    ]:
        assert text.count(shipped) == 1
        text = text.replace(shipped, own)
    (folder / "stentor.conf").write_text(text, encoding="utf-8")
    user = "user root root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder, user=user), encoding="utf-8")
    assert NGINX is not None
    process = await asyncio.create_subprocess_exec(
        NGINX, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")
    )
    try:
        # It writes its number when its sockets listen.
        await until(lambda: process.returncode is not None or (folder / "pid").exists())
        assert process.returncode is None, (folder / "error.log").read_text(encoding="utf-8")
        yield Proxy(folder)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        for name in ("plain", "tls"):
            (folder / name).unlink(missing_ok=True)


@pytest.fixture
def engine() -> FakeEngine:
    engine = FakeEngine()
    engine.gate.clear()
    return engine


@pytest.fixture
async def served(engine: FakeEngine) -> AsyncIterator[Served]:
    async with serving(engine, max_requests=1) as served:
        yield served


@pytest.fixture
async def proxy(folder: Path, served: Served) -> AsyncIterator[Proxy]:
    async with proxied(folder, served) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("audio") / "long.wav", bursts(150)).read_bytes()


async def headers_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    status = int((await reader.readline()).split()[1])
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    return status, {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }


def left(served: Served) -> float:
    return served.counted(
        "stentor_requests_ended_total",
        endpoint="transcribe",
        outcome="cancelled",
        reason="client_disconnected",
    )


async def test_a_file_goes_there_and_its_text_comes_back(
    proxy: Proxy, engine: FakeEngine, audio: bytes
) -> None:
    engine.gate.set()
    reader, writer = await proxy.dial()
    sent = form_bytes(audio)
    writer.write(head(len(sent), host="speech.example") + sent)
    status, headers = await headers_of(reader)
    assert status == 200
    assert headers["x-request-id"]
    assert b"chunk 0 chunk 1" in await reader.readuntil(b"}")
    writer.close()


async def test_an_upload_reaches_the_server_while_it_comes(
    proxy: Proxy, served: Served, audio: bytes
) -> None:
    """And not after nginx has it all, in a file of its own."""
    sent = form_bytes(audio)
    half = len(sent) // 2
    assert half > 2_000_000, "less than that would fit into the buffers of two sockets"
    _, writer = await proxy.dial()
    writer.write(head(len(sent), host="speech.example") + sent[:half])
    await until(lambda: served.counted("stentor_stored_bytes") > half - 100_000)
    assert proxy.spooled() == []
    writer.transport.abort()
    await until(lambda: left(served) == 1)


async def test_texts_come_one_by_one(proxy: Proxy, served: Served, engine: FakeEngine, audio: bytes) -> None:
    engine.gate.set()
    engine.close_gate_after(1)
    sent = form_bytes(audio, stream="true")
    reader, writer = await proxy.dial()
    writer.write(head(len(sent), host="speech.example") + sent)
    assert b"chunk 0" in await reader.readuntil(b"}\n\n")
    assert len(engine.finished) <= engine.info.slots
    engine.gate.set()
    assert b"transcript.text.done" in await reader.readuntil(b"[DONE]\n\n")
    writer.close()
    await until(lambda: served.counted("stentor_requests_active") == 0)


@pytest.mark.parametrize("stream", ["true", "false"])
async def test_who_leaves_aborts_the_work(
    proxy: Proxy, served: Served, engine: FakeEngine, audio: bytes, stream: str
) -> None:
    sent = form_bytes(audio, stream=stream)
    _, writer = await proxy.dial()
    writer.write(head(len(sent), host="speech.example") + sent)
    await engine.until(lambda e: len(e.begun) == 4)
    writer.transport.abort()
    await engine.until(lambda e: len(e.aborted) == 4)
    await until(lambda: left(served) == 1)
    await until(lambda: served.counted("stentor_requests_active") == 0)


async def test_a_no_comes_before_the_body(
    proxy: Proxy, served: Served, engine: FakeEngine, audio: bytes
) -> None:
    sent = form_bytes(audio)
    _, first = await proxy.dial()
    first.write(head(len(sent), host="speech.example") + sent)
    await until(lambda: served.counted("stentor_requests_active") == 1)
    reader, second = await proxy.dial()
    second.write(head(len(sent), host="speech.example") + sent[:1000])
    status, headers = await headers_of(reader)
    assert status == 429
    assert int(headers["retry-after"]) >= 1
    assert b"rate_limit_exceeded" in await reader.readuntil(b"}")
    for writer in (first, second):
        writer.transport.abort()
    await until(lambda: left(served) == 1)


async def test_a_body_that_is_too_large_is_refused_by_the_server(folder: Path, engine: FakeEngine) -> None:
    async with serving(engine) as served, proxied(folder, served) as proxy:
        reader, writer = await proxy.dial()
        writer.write(head(served.services.settings.max_upload_bytes + 1, host="speech.example"))
        status, _ = await headers_of(reader)
        assert status == 413
        assert b'"error"' in await reader.readuntil(b"}")
        writer.close()


async def test_metrics_are_not_for_the_world(proxy: Proxy) -> None:
    reader, writer = await proxy.dial()
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: speech.example\r\nConnection: close\r\n\r\n")
    assert (await headers_of(reader))[0] == 404
    writer.close()


async def test_plain_http_is_sent_to_tls(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_unix_connection(proxy.folder / "plain")
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: speech.example\r\nConnection: close\r\n\r\n")
    status, headers = await headers_of(reader)
    assert (status, headers["location"]) == (308, "https://speech.example/v1/models")
    writer.close()
