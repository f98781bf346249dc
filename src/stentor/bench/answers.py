"""What servers answer to a transcription: whole, in any of OpenAI's formats, or piece by piece."""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import httpx

ERROR_CHARACTERS = 200
"""How much of a body that is no OpenAI error is kept to tell what happened."""

EVENT_STREAM = "text/event-stream"
UNSCORED = frozenset({"srt", "vtt"})
"""Formats whose text stands between times, so that word error rates of it would be those of the times too."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer read to its end.

    Attributes:
        text: None where there is none, or none to score.
        error: Why there is none.
        first_delta_s: When the first text came, as `perf_counter`; None where none came.
        streamed: Whether it came piece by piece.
    """

    text: str | None
    error: str | None
    first_delta_s: float | None = None
    streamed: bool = False


async def read_answer(response: httpx.Response, response_format: str) -> Heard:
    """Read an answer whose headers are there.

    Raises:
        httpx.HTTPError: The server went away.
    """
    if response.is_success and response.headers.get("content-type", "").startswith(EVENT_STREAM):
        return await _read_events(response)
    await response.aread()
    text, error = _read_whole(response, response_format)
    return Heard(text, error, None if error is not None else perf_counter())


def _read_whole(response: httpx.Response, response_format: str) -> tuple[str | None, str | None]:
    """Take the text or the error out of an answer; without an error, None is a text that is not scored."""
    if response.is_success and response_format in UNSCORED:
        return None, None
    if response.is_success and response_format == "text":
        return response.text.strip(), None
    said: object
    try:
        body = response.json()
        said = body["text"] if response.is_success else body["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = None
    if not isinstance(said, str):
        return None, response.text[:ERROR_CHARACTERS] or response.reason_phrase
    return (said, None) if response.is_success else (None, said)


async def _read_events(response: httpx.Response) -> Heard:
    """Read server-sent events; an answer that ends without a whole text is all its pieces."""
    deltas: list[str] = []
    whole = error = first_delta_s = None
    async for line in response.aiter_lines():
        data = line.removeprefix("data:").strip()
        if data == line or data == "[DONE]":  # a comment, a blank line, another field
            continue
        try:
            event = json.loads(data)
            error = _error_of(event) or error
            delta = _delta_of(event)
            whole = event["text"] if event.get("type") == "transcript.text.done" else whole
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            error = f"not an event of a transcription: {data[:ERROR_CHARACTERS]}"
            continue
        if delta:
            first_delta_s = first_delta_s or perf_counter()
            deltas.append(delta)
    if error is not None:
        return Heard(None, error, streamed=True)
    return Heard(whole if isinstance(whole, str) else "".join(deltas), None, first_delta_s, streamed=True)


def _delta_of(event: dict[str, Any]) -> str:
    """The text that an event adds.

    Source: openai's TranscriptionTextDeltaEvent; vLLM's TranscriptionStreamResponse, which has `choices` as a
    chat's stream does.
    """
    if choices := event.get("choices"):
        return str(choices[0]["delta"].get("content") or "")
    return str(event["delta"]) if event.get("type") == "transcript.text.delta" else ""


def _error_of(event: dict[str, Any]) -> str | None:
    """What an event says went wrong."""
    error = event.get("error")
    return None if error is None else str(error["message"])
