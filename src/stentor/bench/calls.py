"""One HTTP request over a socket of its own, which can be left at any byte, by FIN or by RST.

httpx and asyncio's streams buffer what they send and close in good order: with them, half an upload is
whatever a buffer held at that moment. Here `send` returns when the kernel has every byte, and nothing of
ours follows a disconnect. h11 writes the head and reads the answer.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

import h11

from stentor.errors import SetupError

TRANSCRIPTIONS_PATH = "/v1/audio/transcriptions"
BOUNDARY = "stentor-bench-boundary"
READ_BYTES = 1 << 16
RST_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger: `close` throws away what is unsent and resets the connection."""


class Disconnect(StrEnum):
    """How a client leaves: FIN is a program that ends or closes, RST one that is killed or gives up."""

    FIN = "fin"
    RST = "rst"


@dataclass(frozen=True, slots=True)
class Target:
    """A server and how to speak to it.

    `pid` is the server's, when it runs on this machine and shall be watched. `metrics_path` is None for a
    server that does not count as Stentor does.
    """

    url: str
    model: str
    pid: int | None = None
    metrics_path: str | None = "/metrics"
    api_key: str | None = field(default=None, repr=False)

    @property
    def base_url(self) -> str:
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port.

        Raises:
            SetupError: The URL has none, or wants TLS, whose closing alert would precede every disconnect.
        """
        parts = urlsplit(self.base_url)
        if parts.scheme != "http" or not parts.hostname:
            raise SetupError(f"{self.url}: only http://HOST[:PORT] can be left abruptly")
        return parts.hostname, parts.port or 80

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    body: bytes

    @property
    def json(self) -> object:
        """The body's JSON; None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def text(self) -> str | None:
        """The transcript; None when there is none."""
        said = self.json
        text = said.get("text") if self.status == 200 and isinstance(said, dict) else None
        return text if isinstance(text, str) else None


def form(fields: Mapping[str, str], audio: bytes | None, name: str = "audio") -> bytes:
    """Build a multipart body: the fields first, as OpenAI's client does, then the file if there is one."""
    opening = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="'
    parts = [f'{opening}{key}"\r\n\r\n{value}\r\n'.encode() for key, value in fields.items()]
    if audio is not None:
        parts += [f'{opening}file"; filename="{name}"\r\n\r\n'.encode(), audio, b"\r\n"]
    return b"".join((*parts, f"--{BOUNDARY}--\r\n".encode()))


class Call:
    """A connected request of which nothing has been sent yet: send `head` and then the form.

    Attributes:
        head: The request's line and headers.
    """

    def __init__(self, sock: socket.socket, target: Target, length: int | None) -> None:
        self._sock = sock
        self._parser = h11.Connection(h11.CLIENT)
        headers = {
            "Host": "{}:{}".format(*target.address),
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
            **({"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}),
            **target.headers,
        }
        path = urlsplit(target.base_url).path + TRANSCRIPTIONS_PATH
        self.head = self._parser.send(h11.Request(method="POST", target=path, headers=list(headers.items())))

    async def send(self, data: bytes | memoryview) -> None:
        """Hand all of `data` to the kernel.

        Raises:
            OSError: The server has closed the connection.
        """
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def answer(self) -> Answer:
        """Read the answer to its end; it may come before all was sent.

        Raises:
            OSError: The server has closed the connection, or what it says is not HTTP.
        """
        loop = asyncio.get_running_loop()
        status, body = 0, bytearray()
        try:
            while True:
                event = self._parser.next_event()
                if event is h11.NEED_DATA:
                    self._parser.receive_data(await loop.sock_recv(self._sock, READ_BYTES))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    return Answer(status, bytes(body))
        except h11.RemoteProtocolError as error:
            raise ConnectionError(str(error)) from error

    def disconnect(self, how: Disconnect) -> None:
        """Leave now."""
        if how is Disconnect.RST:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
        self._sock.close()


@asynccontextmanager
async def calling(target: Target, *, length: int | None) -> AsyncIterator[Call]:
    """Connect for one request, and close the connection at the end.

    Args:
        target: Whom to call.
        length: The form's, in bytes; None announces a chunked body, which the caller then frames.

    Raises:
        OSError: Nobody takes the call.
    """
    host, port = target.address
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        yield Call(sock, target, length)


async def call_whole(target: Target, body: bytes) -> Answer:
    """Send a form in one go and read the answer.

    Raises:
        OSError: There is no answer.
    """
    async with calling(target, length=len(body)) as call:
        with suppress(OSError):  # a server that refuses early may close before it has read all
            await call.send(call.head)
            await call.send(body)
        return await call.answer()
