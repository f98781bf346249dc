"""The OpenAI endpoints: transcriptions, translations, models."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from stentor.admission import Place
from stentor.api.description import audio_route, error_responses
from stentor.api.disconnect import cancel_on_disconnect
from stentor.api.events import EventStream
from stentor.api.form import TranscriptionForm, parse_form
from stentor.api.request_ids import unique_id_of
from stentor.api.services import Services, services_of
from stentor.api.upload import Fields, receive_upload
from stentor.api.wire import ModelCard, ModelList, ResponseFormat, render
from stentor.errors import DeadlineExceeded, ModelNotFound
from stentor.observe.metrics import Entry
from stentor.transcriber import AudioRequest, OnPart
from stentor.types import Part, Task, Transcript

router = APIRouter(prefix="/v1")


_ROUTE = audio_route()


@router.post("/audio/transcriptions", **_ROUTE)
async def create_transcription(request: Request) -> Response:
    """Write down what is said, in its own language."""
    return await _answer(request, "transcribe")


@router.post("/audio/translations", **_ROUTE)
async def create_translation(request: Request) -> Response:
    """Write down what is said, in English."""
    return await _answer(request, "translate")


@router.get("/models", responses=error_responses(401))
async def list_models(request: Request) -> ModelList:
    """The names under which the model answers."""
    services = services_of(request)
    return ModelList(data=[_card(services, name) for name in services.model_names])


@router.get("/models/{model:path}", responses=error_responses(401, 404))
async def get_model(request: Request, model: str) -> ModelCard:
    """One model by name, which may have slashes as the names of hub repositories do."""
    services = services_of(request)
    _check_model(services, model)
    return _card(services, model)


async def _answer(request: Request, task: Task) -> Response:
    """One request from its first byte to its answer."""
    services = services_of(request)
    settings = services.settings

    def check(fields: Fields) -> TranscriptionForm:
        form = parse_form(fields)
        _check_model(services, form.model)
        return form

    async with AsyncExitStack() as stack:
        entry = stack.enter_context(services.metrics.request(task))
        place = stack.enter_context(services.admission.request(_declared_bytes(request)))
        entry.stage = "uploading"
        upload = await stack.enter_async_context(
            receive_upload(
                request,
                max_bytes=settings.max_upload_bytes,
                pause_s=settings.upload_pause_s,
                check=check,
                received=place.receive,
            )
        )
        entry.stage = "transcribing"
        form = check(upload.fields)
        audio = AudioRequest(
            unique_id_of(request),
            upload.audio.fileno(),
            form.options(task),
            vad=form.vad,
            condition=form.condition,
            code_switching=form.code_switching,
        )
        place.duration_s = lambda: audio.report.duration_s
        transcribe = partial(_transcribe, services, entry, place, audio)
        if form.stream:
            return EventStream(
                stack.pop_all(),
                transcribe,
                send_timeout_s=settings.send_timeout_s,
                logprobs=bool(form.include),
                timed=form.response_format is ResponseFormat.VERBOSE_JSON,
            )
        async with cancel_on_disconnect(request.receive):
            transcript = await transcribe()
        entry.stage = "answering"
        body, media_type = render(
            transcript,
            form.response_format,
            granularities=form.timestamp_granularities or ("segment",),
            logprobs=bool(form.include),
            limits=form.cue_limits,
        )
    return Response(body, media_type=media_type)


async def _transcribe(
    services: Services, entry: Entry, place: Place, audio: AudioRequest, on_part: OnPart | None = None
) -> Transcript:
    """Run the road within the deadline, and keep admission informed of how far it has come."""

    async def advance(part: Part) -> None:
        place.advance(part.end_s)
        if part.segments:
            entry.wrote()
        if on_part is not None:
            await on_part(part)

    try:
        async with asyncio.timeout(services.settings.request_timeout_s):
            transcript = await services.transcriber.transcribe(audio, advance)
    except TimeoutError as error:
        raise DeadlineExceeded("the request took longer than this server allows") from error
    entry.audio_s = transcript.duration_s
    entry.tokens = sum(len(segment.tokens) for segment in transcript.segments)
    return transcript


def _declared_bytes(request: Request) -> int | None:
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdigit() else None


def _check_model(services: Services, name: str | None) -> None:
    if name is not None and name not in services.model_names:
        served = ", ".join(services.model_names)
        raise ModelNotFound(f"the model {name!r} is not served here; served: {served}", param="model")


def _card(services: Services, name: str) -> ModelCard:
    return ModelCard(id=name, created=services.started_at)
