"""The OpenAPI document says what the server does: the form's fields, the formats, the errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stentor.api.form import TranscriptionForm, parse_form
from stentor.api.wire import DeltaEvent, DoneEvent, ResponseFormat, SegmentEvent, TimedDoneEvent
from stentor.engine.fake import FakeEngine
from stentor.errors import InvalidValue
from support.audio import noise, write
from support.server import Served, serving

PATHS = ("/v1/audio/transcriptions", "/v1/audio/translations")


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(FakeEngine()) as served:
        yield served


async def operation(http: httpx.AsyncClient, path: str = PATHS[0]) -> dict[str, Any]:
    document = (await http.get("/openapi.json")).json()
    return dict(document["paths"][path]["post"])


def form_of(described: dict[str, Any]) -> dict[str, Any]:
    return dict(described["requestBody"]["content"]["multipart/form-data"]["schema"])


@pytest.mark.parametrize("path", PATHS)
async def test_the_fields_are_those_of_the_form(http: httpx.AsyncClient, path: str) -> None:
    form = form_of(await operation(http, path))
    assert set(form["properties"]) == {"file", *TranscriptionForm.model_fields}
    assert form["required"] == ["file"]
    assert form["additionalProperties"] is False
    assert form["properties"]["response_format"]["enum"] == [str(known) for known in ResponseFormat]
    for field in form["properties"].values():
        assert field["description"]
        assert "null" not in str(field).lower()
        assert "$ref" not in str(field)


async def test_what_is_not_described_is_refused(http: httpx.AsyncClient) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_form([("nothing_of_the_kind", "1")])
    form = form_of(await operation(http))
    assert all(name in refused.value.message for name in form["properties"])


@pytest.mark.parametrize("response_format", list(ResponseFormat))
async def test_each_format_answers_with_a_described_media_type(
    http: httpx.AsyncClient, tmp_path: Path, response_format: ResponseFormat
) -> None:
    described = (await operation(http))["responses"]["200"]["content"]
    audio = write(tmp_path / "audio.flac", noise(1)).read_bytes()
    answer = await http.post(
        PATHS[0], data={"response_format": str(response_format)}, files={"file": ("a", audio)}
    )
    assert answer.headers["content-type"].partition(";")[0] in described


async def test_events_are_described_by_their_types(http: httpx.AsyncClient) -> None:
    stream = (await operation(http))["responses"]["200"]["content"]["text/event-stream"]
    done, event = stream["itemSchema"]["properties"]["data"]["anyOf"]
    assert done["const"] == "[DONE]"
    kinds = [choice["properties"].get("type", {}).get("const") for choice in event["contentSchema"]["anyOf"]]
    events = (DeltaEvent, SegmentEvent, TimedDoneEvent, DoneEvent)
    assert kinds == [model.model_fields["type"].default for model in events] + [None]


async def test_errors_are_described_with_their_codes(http: httpx.AsyncClient) -> None:
    responses = (await operation(http))["responses"]
    assert list(responses) == ["200", "400", "401", "404", "408", "413", "429", "500", "503", "504"]
    assert "`invalid_audio`" in responses["400"]["description"]
    assert "`draining`" in responses["503"]["description"]
    assert set(responses["429"]["headers"]) == {"x-request-id", "Retry-After", "retry-after-ms"}
    assert "WWW-Authenticate" in responses["401"]["headers"]
    for status, response in responses.items():
        if status != "200":
            schema = response["content"]["application/json"]["schema"]
            assert schema["$ref"].endswith("/ErrorBody")


async def test_keys_are_a_scheme_where_there_are_keys(http: httpx.AsyncClient) -> None:
    assert "security" not in await operation(http)
    async with (
        serving(FakeEngine(), api_keys=("sk-one",)) as locked,
        httpx.AsyncClient(base_url=locked.url) as client,
    ):
        described = (await client.get("/openapi.json")).json()
    assert described["components"]["securitySchemes"]["ApiKey"]["scheme"] == "bearer"
    assert described["paths"][PATHS[0]]["post"]["security"] == [{"ApiKey": []}]
    assert "security" not in described["paths"]["/health"]["get"]
