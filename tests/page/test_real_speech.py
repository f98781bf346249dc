"""The page in a browser with real weights and real speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="Playwright is not installed")

from playwright.async_api import expect

from page.conftest import Open
from stentor.config import Settings
from stentor.engine.choice import load_engine
from stentor.models import resolve
from support.forms import form
from support.server import Served, serving

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(120),  # CTranslate2, where the native engine does not run, takes its time
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    settings = Settings()
    engine = load_engine(
        resolve("tiny.en"),
        slots=settings.resolved_engine_slots,
        device="cpu",
        max_batch=settings.max_batch,
    )
    async with serving(engine) as served:
        yield served


async def test_speech_becomes_text_that_is_heard_where_it_is_clicked(
    visit: Open, served: Served, two_cities: Path
) -> None:
    page = await visit(served)
    await page.set_input_files("#file", two_cities)
    await expect(page.locator("#segments li").first).to_contain_text("best of times")
    await expect(page.locator("#state")).to_contain_text("44 s heard in", timeout=60_000)
    for said in ("the season of darkness", "all going direct the other way", "in the superlative degree"):
        await expect(page.get_by_role("log")).to_contain_text(said)
    word = page.locator("#segments span", has_text="incredulity")
    start_s = float(await word.get_attribute("data-start") or "nan")
    assert 11 < start_s < 13  # when it is said
    await page.locator("audio").evaluate("audio => (audio.playbackRate = 0.1)")
    await word.click()
    await expect(word).to_have_class("heard")
    playing, at_s = await page.locator("audio").evaluate("audio => [!audio.paused, audio.currentTime]")
    assert playing
    assert at_s == pytest.approx(start_s, abs=0.5)


async def test_subtitles_are_those_of_the_server(visit: Open, served: Served, two_cities: Path) -> None:
    page = await visit(served)
    await page.set_input_files("#file", two_cities)
    await expect(page.locator("#state")).to_contain_text("real time", timeout=60_000)
    content = await asyncio.to_thread(two_cities.read_bytes)
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as http:
        for kind in ("srt", "vtt"):
            async with page.expect_download() as download:
                await page.get_by_role("button", name=f"Save as {kind}").click()
            saved = await asyncio.to_thread(Path(await (await download.value).path()).read_bytes)
            # Whole segments, whose times are those of their words, as on the page.
            fields = {"response_format": kind, "max_cue_s": "3600"}
            answer = await http.post("/v1/audio/transcriptions", **form(content, **fields))
            assert saved.decode() == answer.text
