"""A burst far over the limit, from OpenAI's client as it comes: its own retries carry everyone through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import openai
import pytest

from stentor.engine.fake import FakeEngine
from support.audio import noise, write
from support.server import Dial, serving


@pytest.mark.timeout(60)
async def test_two_hundred_at_once_over_a_limit_of_sixteen(tmp_path: Path) -> None:
    content = await asyncio.to_thread(write(tmp_path / "clip.flac", noise(1)).read_bytes)
    async with (
        serving(FakeEngine(), max_requests=16) as served,
        openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none") as client,
    ):
        calls = [
            client.audio.transcriptions.create(file=("a.flac", content), model="whisper-1", language="en")
            for _ in range(200)
        ]
        answers = await asyncio.gather(*calls)
        assert [answer.text for answer in answers] == ["chunk 0"] * 200
        count = {
            outcome: served.counted(
                "stentor_requests_ended_total", endpoint="transcribe", outcome=outcome, reason=reason
            )
            for outcome, reason in [("finished", "ok"), ("rejected", "rate_limit_exceeded")]
        }
        received = served.counted("stentor_requests_received_total", endpoint="transcribe")
    assert count["finished"] == 200
    assert count["rejected"] > 0
    assert received == count["finished"] + count["rejected"]


async def test_the_refused_need_not_send_their_body(dial: Dial, tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.gate.clear()
    content = await asyncio.to_thread(write(tmp_path / "clip.flac", noise(1)).read_bytes)
    async with (
        serving(engine, max_requests=1) as served,
        httpx.AsyncClient(base_url=served.url, timeout=20) as http,
    ):
        path = "/v1/audio/transcriptions"
        running = asyncio.create_task(http.post(path, files={"file": ("a.flac", content)}))
        await engine.until(lambda e: len(e.started) == 1)
        reader, writer = await dial(served)
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode()
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 429")
        writer.close()
        engine.gate.set()
        assert (await running).status_code == 200
