"""What OpenAPI says about the audio endpoints, from the declarations that the server itself goes by.

FastAPI sees a handler that takes a request and gives a response: the form is parsed while it comes
(`upload.py`) and the answer has five formats and a stream. So the form is described from `TranscriptionForm`,
the answers from the models of `wire.py`, and the errors from the tree in `errors.py`. Whoever adds a field or
an error there need not come here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from stentor import errors
from stentor.api.form import TranscriptionForm
from stentor.api.wire import (
    DeltaEvent,
    DoneEvent,
    ErrorBody,
    SegmentEvent,
    TimedDoneEvent,
    TranscriptionJson,
    VerboseJson,
)
from stentor.errors import SetupError, StentorError

FILE = {
    "type": "string",
    "format": "binary",
    "description": "Any audio or video file; its content decides what it is. May be the last part.",
}
TEXTS = {
    "text/plain": "The text alone (response_format=text).",
    "application/x-subrip": "Subtitles (response_format=srt).",
    "text/vtt": "Subtitles (response_format=vtt).",
}
STREAM = (
    "Server-sent events (stream=true): one JSON object after each `data:`, then `[DONE]`. Lines that begin "
    "with a colon keep the connection open. An error in mid-stream is an event with `error`, and the last."
)
RETRY_AFTER = {
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds after which to come back."},
    "retry-after-ms": {"schema": {"type": "integer"}, "description": "The same in milliseconds."},
}
CHALLENGE = {"WWW-Authenticate": {"schema": {"type": "string", "const": "Bearer"}}}
REQUEST_ID = {
    "x-request-id": {"schema": {"type": "string"}, "description": "The call's id, in every log line."}
}


def audio_route() -> dict[str, Any]:
    """Arguments for the decorator of a route that takes a form and gives a transcript."""
    return {
        "openapi_extra": {
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form_schema()}}}
        },
        "responses": {200: _success(), **error_responses()},
    }


def form_schema() -> dict[str, Any]:
    """The form, as it is on the wire: everything optional but the file, and nothing null."""
    schema = TranscriptionForm.model_json_schema()
    definitions = schema.get("$defs", {})
    fields = {name: _on_the_wire(value, definitions) for name, value in schema["properties"].items()}
    return {
        "type": "object",
        "required": ["file"],
        "properties": {"file": FILE, **fields},
        "additionalProperties": False,
    }


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Every error that can come, or those of some statuses, each with its codes."""
    codes: dict[int, list[str]] = {}
    for kind in _kinds(StentorError):
        if not issubclass(kind, (SetupError, errors.ClientDisconnected)):
            codes.setdefault(kind.status, []).append(kind.code)
    return {
        status: {
            "model": ErrorBody,
            "description": " or ".join(f"`{code}`" for code in dict.fromkeys(codes[status])),
            "headers": REQUEST_ID
            | (RETRY_AFTER if status in (429, 503) else {})
            | (CHALLENGE if status == 401 else {}),
        }
        for status in sorted(codes)
        if not statuses or status in statuses
    }


def _success() -> dict[str, Any]:
    return {
        "description": "The transcript, as `response_format` and `stream` ask.",
        "headers": REQUEST_ID,
        "content": {
            "application/json": {"schema": _one_of(VerboseJson, TranscriptionJson)},
            **{
                media_type: {"schema": {"type": "string", "description": description}}
                for media_type, description in TEXTS.items()
            },
            "text/event-stream": {"itemSchema": _event()},
        },
    }


def _event() -> dict[str, Any]:
    """What `itemSchema` (OpenAPI 3.2, and read by tools for 3.1) says of each event of a stream."""
    event = _one_of(DeltaEvent, SegmentEvent, TimedDoneEvent, DoneEvent, ErrorBody)
    json_event = {"type": "string", "contentMediaType": "application/json", "contentSchema": event}
    data = {"anyOf": [{"type": "string", "const": "[DONE]"}, json_event]}
    return {"type": "object", "description": STREAM, "required": ["data"], "properties": {"data": data}}


def _one_of(*models: type[BaseModel]) -> dict[str, Any]:
    """A choice of models, each whole: they appear in no place that FastAPI would collect them from."""
    _, schema = models_json_schema([(model, "serialization") for model in models])
    definitions = schema["$defs"]
    return {"anyOf": [_inlined(definitions[model.__name__], definitions) for model in models]}


def _on_the_wire(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A field's schema without null, which a form cannot say, and without references."""
    schema = _inlined(schema, definitions)
    choices = [choice for choice in schema.pop("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        schema |= choices[0]
    elif choices:
        schema["anyOf"] = choices
    if schema.get("default", "") is None:
        del schema["default"]
    return schema


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(entry, definitions) for entry in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        node = definitions[name] | {key: value for key, value in node.items() if key != "$ref"}
    return {key: _inlined(value, definitions) for key, value in node.items()}


def _kinds(kind: type[StentorError]) -> Iterator[type[StentorError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
