"""What `stentor bench chaos` sends: a table of cases, each with its weight and what it must come to.

A case sends one request, takes every choice from the random source that it is given, and returns what was
wrong, or None. An `OSError` out of it (no connection, no answer) is wrong too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TypeAlias

from stentor.bench.calls import Answer, Disconnect, Target, call_whole, calling, form

UNKNOWN_LIMIT_BYTES = 1 << 40
"""Declared to a server whose limit nobody told: a terabyte is too much for any."""

SAID_CHARACTERS = 120
PIECES = 8
PIECE_BYTES = 1 << 16

GARBAGE: Mapping[str, bytes] = {
    "nothing": b"",
    "zeros": bytes(20_000),
    "words": b"This is no audio at all. " * 400,
    "page": b"<!doctype html><html><body>404</body></html>",
    "wav": b"RIFF\xff\xff\xff\x7fWAVEjunk" + b"\x55" * 5_000,
    "flac": b"fLaC" + b"\xaa" * 5_000,
    "ogg": b"OggS" + b"\xaa" * 5_000,
    "mp4": b"\0\0\0\x20ftypM4A " + b"\xaa" * 5_000,
}
"""Files that are none, some of which begin as one."""

BAD_FIELDS: tuple[Mapping[str, str], ...] = (
    {"temperature": "hot"},
    {"response_format": "pdf"},
    {"language": "klingon"},
)


@dataclass(frozen=True, slots=True)
class Clip:
    """A good form, and the text that it was answered with when nothing else was to do."""

    form: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Material:
    """What all cases draw on.

    Attributes:
        target: Whom to call.
        clips: Good forms.
        max_upload_bytes: The server's limit for a body, where it is known.
        slow_s: What a slow upload takes at most.
        stay_s: How long a caller stays at most that leaves after its upload.
    """

    target: Target
    clips: tuple[Clip, ...]
    max_upload_bytes: int | None
    slow_s: float
    stay_s: float

    @property
    def fields(self) -> dict[str, str]:
        return {"model": self.target.model, "language": "en"}


Send: TypeAlias = Callable[[Material, Random], Awaitable[str | None]]


class Kind(StrEnum):
    """What a case is to come to; also the name of the check that fails when it does not."""

    ANSWER = "answers"
    REFUSAL = "refusals"
    DISCONNECT = "disconnects"


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table. Of all requests, `weight` in a hundred are of this case."""

    weight: int
    kind: Kind
    send: Send


async def good(material: Material, random: Random) -> str | None:
    """A clip, sent at once."""
    clip = random.choice(material.clips)
    return _transcribed(await call_whole(material.target, clip.form), clip)


async def slow(material: Material, random: Random) -> str | None:
    """A clip that comes in pieces with pauses between them."""
    clip = random.choice(material.clips)
    pause_s = random.uniform(0, material.slow_s) / PIECES
    step = -(-len(clip.form) // PIECES)
    async with calling(material.target, length=len(clip.form)) as call:
        await call.send(call.head)
        for start in range(0, len(clip.form), step):
            await asyncio.sleep(pause_s)
            await call.send(clip.form[start : start + step])
        return _transcribed(await call.answer(), clip)


async def left_uploading(material: Material, random: Random) -> str | None:
    """A clip whose caller leaves before all is sent, be it in the middle of the head."""
    clip = random.choice(material.clips)
    async with calling(material.target, length=len(clip.form)) as call:
        request = call.head + clip.form
        await call.send(request[: random.randrange(len(request))])
        await asyncio.sleep(random.choice((0.0, random.uniform(0, material.stay_s))))
        call.disconnect(random.choice(tuple(Disconnect)))
    return None


async def left_waiting(material: Material, random: Random) -> str | None:
    """A clip whose caller leaves when all is sent: before, while or after it is answered."""
    clip = random.choice(material.clips)
    async with calling(material.target, length=len(clip.form)) as call:
        await call.send(call.head + clip.form)
        await asyncio.sleep(random.uniform(0, material.stay_s))
        call.disconnect(random.choice(tuple(Disconnect)))
    return None


async def corrupt(material: Material, random: Random) -> str | None:
    """A file that is no audio."""
    body = form(material.fields, GARBAGE[random.choice(tuple(GARBAGE))])
    return _refused(await call_whole(material.target, body), 400)


async def oversize_declared(material: Material, random: Random) -> str | None:
    """A body that says itself that it is too large: the answer comes before any of it is read."""
    limit = material.max_upload_bytes or UNKNOWN_LIMIT_BYTES
    async with calling(material.target, length=limit + 1) as call:
        await call.send(call.head)
        return _refused(await call.answer(), 413)


async def oversize_chunked(material: Material, random: Random) -> str | None:
    """A body without a declared length that goes on past the limit."""
    limit = material.max_upload_bytes
    if limit is None:  # to send a terabyte is out of the question
        return await oversize_declared(material, random)
    head, _, tail = form(material.fields, bytes(1)).rpartition(b"\0")
    pieces = [head, *[bytes(PIECE_BYTES)] * (limit // PIECE_BYTES + 2), tail]
    async with calling(material.target, length=None) as call:
        with suppress(OSError):  # refused early and closed: the answer is on its way all the same
            await call.send(call.head)
            for piece in pieces:
                await call.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await call.send(b"0\r\n\r\n")
        return _refused(await call.answer(), 413)


async def unknown_model(material: Material, random: Random) -> str | None:
    """A model that nobody serves."""
    body = form({**material.fields, "model": "no-such-model"}, GARBAGE["zeros"])
    return _refused(await call_whole(material.target, body), 404)


async def bad_field(material: Material, random: Random) -> str | None:
    """A field with a value that no server can honour, or no file."""
    bad = random.choice((None, *BAD_FIELDS))
    body = form({**material.fields, **(bad or {})}, GARBAGE["zeros"] if bad else None)
    return _refused(await call_whole(material.target, body), 400)


CASES: Mapping[str, Case] = {
    "good": Case(30, Kind.ANSWER, good),
    "slow": Case(5, Kind.ANSWER, slow),
    "left_uploading": Case(15, Kind.DISCONNECT, left_uploading),
    "left_waiting": Case(20, Kind.DISCONNECT, left_waiting),
    "corrupt": Case(10, Kind.REFUSAL, corrupt),
    "oversize_declared": Case(5, Kind.REFUSAL, oversize_declared),
    "oversize_chunked": Case(5, Kind.REFUSAL, oversize_chunked),
    "unknown_model": Case(5, Kind.REFUSAL, unknown_model),
    "bad_field": Case(5, Kind.REFUSAL, bad_field),
}


def _transcribed(answer: Answer, clip: Clip) -> str | None:
    if answer.text == clip.text:
        return None
    return f"not transcribed as before: {_said(answer)}"


def _refused(answer: Answer, status: int) -> str | None:
    """What is wrong with a refusal: its status, or that its body is none of OpenAI's errors."""
    if answer.status != status:
        return f"not refused with {status}: {_said(answer)}"
    body = answer.json
    error = body.get("error") if isinstance(body, dict) else None
    whole = (
        isinstance(error, dict)
        and {"message", "type", "param", "code"} <= error.keys()
        and isinstance(error["message"], str)
        and error["type"] == "invalid_request_error"
    )
    return None if whole else f"no OpenAI error: {_said(answer)}"


def _said(answer: Answer) -> str:
    return f"{answer.status} {answer.body.decode('utf-8', 'replace')[:SAID_CHARACTERS]}"
