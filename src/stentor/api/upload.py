"""Receives a multipart body: fields in memory, the audio in an unlinked temporary file.

The body is parsed while it comes, so that bounds hold during the upload, and fields that come before the
file are checked before any audio is read (OpenAI's client sends `file` last).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from stentor.errors import (
    BadRequest,
    ClientDisconnected,
    InvalidValue,
    Unavailable,
    UploadTooLarge,
    UploadTooSlow,
)
from stentor.structured import to_its_end

MAX_FIELD_BYTES = 64 * 1024
"""A field other than the file. The longest that makes sense is a prompt, and Whisper reads 223 tokens."""

MAX_FIELDS = 256
MIN_BYTES_PER_S = 1_000
"""Slower than any telephone line: a client that wants to hold a place, not to send audio."""

WRITE_BYTES = 1 << 18
"""The file is written in a thread, as a disk may stall, and in pieces that make the hop worth its 0.1 ms."""

Fields = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Upload:
    """A received form. `audio` is open, positioned anywhere, and gone when the context is left."""

    fields: Fields
    audio: IO[bytes]
    size_bytes: int


@asynccontextmanager
async def receive_upload(
    request: Request,
    *,
    max_bytes: int,
    pause_s: float,
    check: Callable[[Fields], object],
    received: Callable[[int], object],
) -> AsyncIterator[Upload]:
    """Receive the whole body of a transcription request.

    Args:
        request: Its body must not have been read yet.
        max_bytes: Bound on the body, by its declared length and while it comes.
        pause_s: Longest time in which nothing comes. The body as a whole must come at `MIN_BYTES_PER_S` at
            least, counted from this long after its beginning.
        check: Called with the fields so far when the file begins; raises to refuse the upload there.
        received: Called with the bytes so far; raises to refuse the upload there.

    Raises:
        UploadTooLarge: The body is larger than `max_bytes`.
        UploadTooSlow: It came slower than it must.
        BadRequest: It is not a well-formed form with one file.
        ClientDisconnected: The client left during the upload.
        Unavailable: The disk is full.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    with tempfile.TemporaryFile(prefix="stentor-") as audio:
        form = _Form(_boundary(request), check)
        size_bytes = 0
        try:
            async for data in _paced(request.stream(), pause_s):
                size_bytes += len(data)
                if size_bytes > max_bytes:
                    raise _too_large(max_bytes)
                received(size_bytes)
                form.feed(data)
                if form.audio_bytes >= WRITE_BYTES:
                    await _write(audio, form.take_audio())
        except ClientDisconnect as error:
            raise ClientDisconnected("the client disconnected during the upload") from error
        form.finish()
        await _write(audio, form.take_audio())
        yield Upload(form.fields, audio, size_bytes)


async def _paced(stream: AsyncGenerator[bytes, None], pause_s: float) -> AsyncGenerator[bytes, None]:
    """Pass a body on, as long as it keeps coming."""
    loop = asyncio.get_running_loop()
    began_s, total_bytes = loop.time(), 0
    while True:
        try:
            async with asyncio.timeout(pause_s):
                data = await anext(stream, None)
        except TimeoutError as error:
            raise UploadTooSlow(f"nothing of the upload came for {pause_s:g} s") from error
        if data is None:
            return
        total_bytes += len(data)
        overdue_s = loop.time() - began_s - pause_s
        if total_bytes < overdue_s * MIN_BYTES_PER_S:
            raise UploadTooSlow(f"the upload comes at less than {MIN_BYTES_PER_S:,} bytes a second")
        yield data


async def _write(file: IO[bytes], pieces: list[bytes]) -> None:
    def write() -> None:
        file.writelines(pieces)
        file.flush()

    try:
        # To its end: the file must not be closed while a thread writes into it.
        await to_its_end(asyncio.get_running_loop().run_in_executor(None, write))
    except OSError as error:
        raise Unavailable(f"the upload cannot be stored: {error.strerror}") from error


def _too_large(max_bytes: int) -> UploadTooLarge:
    return UploadTooLarge(
        f"the request body is larger than {max_bytes:,} bytes; send compressed audio or raise "
        "STENTOR_MAX_UPLOAD_BYTES"
    )


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        raise BadRequest("send the audio as multipart/form-data with a field named file", param="file")
    return options[b"boundary"]


class _Form:
    """Turns the parser's events into fields and pieces of the file."""

    def __init__(self, boundary: bytes, check: Callable[[Fields], object]) -> None:
        self.fields: Fields = []
        self.audio_bytes = 0
        self._audio: list[bytes] = []
        self._check = check
        self._seen_file = False
        self._complete = False
        self._in_file = False
        self._header, self._value = b"", b""
        self._disposition = b""
        self._name, self._data = "", bytearray()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise BadRequest(f"the multipart boundary is malformed: {error}") from error

    def feed(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise BadRequest(f"the multipart body is malformed: {error}") from error

    def finish(self) -> None:
        """Check that the form is whole."""
        if not self._complete:
            raise BadRequest("the multipart body ends before its last boundary")
        self._check(self.fields)
        if not self._seen_file:
            raise BadRequest("the form has no field named file that holds the audio", param="file")

    def take_audio(self) -> list[bytes]:
        pieces, self._audio, self.audio_bytes = self._audio, [], 0
        return pieces

    def _part_begin(self) -> None:
        self._disposition, self._data = b"", bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header, self._value = b"", b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if not self._name:
            raise BadRequest("a part of the form has no name")
        self._in_file = self._name == "file"
        if self._in_file:
            if self._seen_file:
                raise InvalidValue("send one file at a time", param="file")
            self._seen_file = True
            self._check(self.fields)
        elif b"filename" in options:
            raise InvalidValue(f"unexpected file {self._name!r}: the audio goes into file", param=self._name)
        elif len(self.fields) >= MAX_FIELDS:
            raise BadRequest(f"the form has more than {MAX_FIELDS} fields")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._audio.append(data[start:end])
            self.audio_bytes += end - start
            return
        self._data += data[start:end]
        if len(self._data) > MAX_FIELD_BYTES:
            raise InvalidValue(f"{self._name} is longer than {MAX_FIELD_BYTES:,} bytes", param=self._name)

    def _part_end(self) -> None:
        if not self._in_file:
            self.fields.append((self._name, self._data.decode("utf-8", "replace")))

    def _end(self) -> None:
        self._complete = True
