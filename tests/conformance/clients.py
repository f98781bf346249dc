"""Callers of the server, each of which turns a case into a call and what comes back into plain data."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import openai
from openai.types.audio import TranscriptionStreamEvent
from pydantic import BaseModel, TypeAdapter

from conformance.cases import Answer, Case, Refusal

HERE = Path(__file__).parent
NODE_CLIENT = HERE / "node_modules" / "openai"
"""Where `make check` puts OpenAI's client for Node."""

EVENTS: TypeAdapter[Any] = TypeAdapter(TranscriptionStreamEvent)


async def with_the_async_client(url: str, case: Case, audio: Path) -> Answer | Refusal:
    """OpenAI's asynchronous client for Python."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        try:
            answer = await getattr(client.audio, case.endpoint).create(**_arguments(case, audio))
            if isinstance(answer, openai.AsyncStream):
                return [_event(event) async for event in answer]
        except openai.APIStatusError as error:
            return _refusal(error)
    return _plain(answer)


async def with_the_client(url: str, case: Case, audio: Path) -> Answer | Refusal:
    """OpenAI's synchronous client for Python."""

    def call() -> Answer | Refusal:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            try:
                answer = getattr(client.audio, case.endpoint).create(**_arguments(case, audio))
                if isinstance(answer, openai.Stream):
                    return [_event(event) for event in answer]
            except openai.APIStatusError as error:
                return _refusal(error)
        return _plain(answer)

    return await asyncio.to_thread(call)


async def with_curl(url: str, case: Case, audio: Path) -> Answer | Refusal:
    """curl, lists with brackets and objects as JSON, as people write them."""
    form = ["-F", f"file=@{audio}"]
    for name, value in _fields(case):
        form += ["--form-string", f"{name}={value}"]
    command = [
        "curl",
        "-sS",
        "-w",
        "\n%{http_code} %{content_type}",
        *form,
        f"{url}/v1/audio/{case.endpoint}",
    ]
    out = await _run(command)
    body, _, told = out.rpartition("\n")
    status, _, media_type = told.partition(" ")
    if status != "200":
        error = json.loads(body)["error"]
        return Refusal(int(status), error["code"], error["param"])
    if media_type == "application/json":
        answer: dict[str, Any] = json.loads(body)
        return answer
    return _events(body) if media_type.startswith("text/event-stream") else body


async def with_node(url: str, cases: Sequence[Case], audio: Mapping[str, Path]) -> list[Answer | Refusal]:
    """OpenAI's client for Node, all cases in one process."""
    calls = [
        {"endpoint": case.endpoint, "file": str(audio[case.audio]), "fields": {**_sent(case), **case.own}}
        for case in cases
    ]
    out = await _run(["node", str(HERE / "round.mjs"), f"{url}/v1"], json.dumps(calls))
    answers: list[Answer | Refusal] = []
    for told in json.loads(out):
        refused, answer = told.get("refused"), told.get("answer")
        if refused:
            answers.append(Refusal(refused["status"], refused["code"], refused["param"]))
        else:
            answers.append(
                _events(answer) if isinstance(answer, str) and answer.startswith("data:") else answer
            )
    return answers


def no_node() -> str | None:
    """Why Node's client cannot be asked here."""
    if shutil.which("node") is None:
        return "there is no Node here"
    return None if NODE_CLIENT.is_dir() else "OpenAI's client for Node is not installed; `make check` does it"


def _sent(case: Case) -> dict[str, Any]:
    return {"model": "whisper-1", **case.sends}


def _arguments(case: Case, audio: Path) -> dict[str, Any]:
    return {"file": audio, **_sent(case), "extra_body": dict(case.own) or None}


def _fields(case: Case) -> Iterable[tuple[str, str]]:
    for name, value in {**_sent(case), **case.own}.items():
        match value:
            case list():
                yield from ((f"{name}[]", item) for item in value)
            case dict():
                yield name, json.dumps(value)
            case bool():
                yield name, str(value).lower()
            case _:
                yield name, str(value)


def _plain(answer: Any) -> Answer:
    """As plain data, after a strict look at the types that the client promises."""
    if isinstance(answer, str):  # a raw body; also a stream of translations, which the client does not know
        return _events(answer) if answer.startswith("data:") else answer
    return _checked(TypeAdapter(type(answer)), answer)


def _event(event: Any) -> dict[str, Any]:
    return _checked(EVENTS, event)


def _checked(types: TypeAdapter[Any], answer: Any) -> dict[str, Any]:
    assert isinstance(answer, BaseModel)
    plain = answer.model_dump(mode="json", exclude_unset=True)
    types.validate_python(plain, strict=True)
    return plain


def _events(body: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line and not line.startswith(":")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def _refusal(error: openai.APIStatusError) -> Refusal:
    return Refusal(error.status_code, error.code or "", error.param)


async def _run(command: Sequence[str], given: str = "") -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(given.encode())
    assert process.returncode == 0, err.decode()
    return out.decode()
