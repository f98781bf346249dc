"""Streamed answers: OpenAI's transcription events, written while the road goes on.

The response owns the request: it runs the road itself and writes each part as it becomes final, so that back
pressure reaches the road and whatever ends the response ends the work. Nothing is sent before the first part
is there (or a keep-alive is due), so that what fails before it is still answered with its proper status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from itertools import count

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stentor.api.disconnect import cancel_on_disconnect
from stentor.api.errors import error_body
from stentor.api.wire import DeltaEvent, LogprobJson, done_event, logprobs_of, segment_event
from stentor.errors import ClientDisconnected, StentorError
from stentor.structured import task_group
from stentor.types import Part, Segment, Transcript

KEEP_ALIVE_S = 15.0
"""Pause after which a comment is sent. Proxies give up on a silent connection after 30 to 60 s."""

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would collect the events and send them at the end
}

Transcribe = Callable[[Callable[[Part], Awaitable[None]]], Awaitable[Transcript]]


class Deltas:
    """Cuts a growing transcript into pieces whose concatenation is its final text.

    The final text has no white space around it; so leading space is dropped, and trailing space is held back
    until something follows.
    """

    def __init__(self) -> None:
        self._held = ""
        self._begun = False

    def feed(self, part: Part) -> str:
        """The text to send for a part, which may be empty."""
        text = self._held + "".join(segment.text for segment in part.segments)
        if not self._begun:
            text = text.lstrip()
        sent = text.rstrip()
        self._held = text[len(sent) :]
        self._begun = self._begun or bool(sent)
        return sent


class EventStream(Response):
    """Runs a transcription and streams it.

    Args:
        owned: What the request holds (place, upload, entry in the books); left when the work ends.
        transcribe: Runs the road, given what to call with each part.
        send_timeout_s: A client that takes in nothing for this long counts as gone.
        logprobs: Whether each token's log-probability comes with the text.
        timed: Whether each segment comes with its times, after the delta that has its text.
    """

    def __init__(
        self,
        owned: AsyncExitStack,
        transcribe: Transcribe,
        *,
        send_timeout_s: float,
        logprobs: bool = False,
        timed: bool = False,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._owned = owned
        self._transcribe = transcribe
        self._send_timeout_s = send_timeout_s
        self._logprobs = logprobs
        self._timed = timed
        self._started = False
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        try:
            async with self._owned, cancel_on_disconnect(receive), task_group() as group:
                keep_alive = group.create_task(self._keep_alive())
                deltas, numbers = Deltas(), count()

                async def on_part(part: Part) -> None:
                    delta = deltas.feed(part)
                    if delta:
                        await self._event(DeltaEvent(delta=delta, logprobs=self._told(part.segments)))
                    for segment in part.segments if self._timed else ():
                        await self._event(segment_event(next(numbers), segment))

                transcript = await self._transcribe(on_part)
                keep_alive.cancel()
                await self._event(done_event(transcript, logprobs=self._logprobs, timed=self._timed))
                await self._write("data: [DONE]\n\n")
        except StentorError as error:
            if not self._started:
                raise
            if isinstance(error, ClientDisconnected):
                return  # nobody reads: closing in good order could wait for ever
            await self._event(error_body(error))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _told(self, segments: Iterable[Segment]) -> list[LogprobJson] | None:
        return logprobs_of(segments) if self._logprobs else None

    async def _event(self, event: BaseModel) -> None:
        await self._write(f"data: {event.model_dump_json(exclude_none=True)}\n\n")

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE_S)
            await self._write(": keep-alive\n\n")

    async def _write(self, text: str) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s), self._lock:
                if not self._started:
                    self._started = True
                    await self._send(
                        {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                    )
                await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        except TimeoutError as error:
            raise ClientDisconnected(f"the client read nothing for {self._send_timeout_s:g} s") from error
