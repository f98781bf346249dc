"""What is posted: by httpx, and byte by byte over raw sockets."""

from __future__ import annotations

from typing import Any


def form(audio: bytes, **fields: str) -> dict[str, Any]:
    """Arguments for a post of some audio with fields."""
    return {"data": fields, "files": {"file": ("a.flac", audio)}}


def head(length: int, *, host: str = "localhost", more: str = "") -> bytes:
    """The head of a post of `form_bytes`, with `more` lines in it."""
    return (
        f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: {host}\r\n{more}"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def form_bytes(audio: bytes, **fields: str) -> bytes:
    """A form as it is on the wire: English unless a field says otherwise, and the file last."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in {"language": "en", **fields}.items()
    ]
    file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.flac"\r\n\r\n'
    return b"".join([*parts, file, audio, b"\r\n--x--\r\n"])
