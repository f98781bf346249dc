"""The page in a browser, against a real server with a scripted engine."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="Playwright is not installed")

from playwright.async_api import FileChooser, FilePayload, Page, expect

from page.conftest import AXE, OTHER_NAME, Open
from stentor.engine.fake import FakeEngine
from stentor.text.subtitles import to_srt, to_vtt
from stentor.types import EngineRequest, Segment, Word
from support.audio import bursts, noise, write
from support.forms import form
from support.server import Served, serving
from support.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60)]

GARBAGE: FilePayload = {"name": "notes.mp3", "mimeType": "audio/mpeg", "buffer": b"no audio" * 999}

WORD_S = 6.0
"""Long enough for a word to be the one that is heard when the test looks."""


def script(request: EngineRequest) -> list[Segment]:
    """Two lines in each chunk, of two words, with what subtitles have to watch out for."""
    lines = []
    for line in range(2):
        begin_s = 2 * line * WORD_S
        texts = (f" left{2 * line}", f" <right{2 * line}> & -->")
        words = tuple(
            Word(text, begin_s + WORD_S * place, begin_s + WORD_S * (place + 1), 0.9)
            for place, text in enumerate(texts)
        )
        lines.append(Segment("".join(texts), begin_s, begin_s + 2 * WORD_S + 0.5, words=words))
    return lines


@pytest_asyncio.fixture(loop_scope="module")
async def engine() -> FakeEngine:
    return FakeEngine(script, slots=1, languages=("en", "de"))


@pytest_asyncio.fixture(loop_scope="module")
async def served(engine: FakeEngine) -> AsyncIterator[Served]:
    async with serving(engine) as served:
        yield served


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """70 s: three chunks."""
    return write(tmp_path_factory.mktemp("audio") / "speech.flac", bursts(70))


def _filmed(path: Path) -> Path:
    """Three seconds of grey with a sound."""
    with av.open(path, "w") as film:
        picture = film.add_stream("libvpx", rate=5, width=64, height=48, pix_fmt="yuv420p")
        sound = film.add_stream("libopus", rate=48_000, layout="mono")
        for _ in range(15):
            grey = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 128, np.uint8), format="rgb24")
            film.mux(picture.encode(grey))
        for start in range(0, 3 * 48_000, 960):
            piece = av.AudioFrame.from_ndarray(noise(0.06)[None, :960], format="flt", layout="mono")
            piece.sample_rate, piece.pts = 48_000, start
            film.mux(sound.encode(piece))
        film.mux(picture.encode(None))
        film.mux(sound.encode(None))
    return path


async def finished(page: Page) -> None:
    await expect(page.locator("#state")).to_contain_text("real time")


async def active(page: Page) -> str:
    """What has the focus, by its id or its name."""
    told = await page.evaluate(
        "() => document.activeElement.id || document.activeElement.getAttribute('aria-label')"
        " || document.activeElement.textContent"
    )
    return str(told).strip()


async def test_text_comes_while_the_rest_is_still_heard(
    visit: Open, served: Served, engine: FakeEngine, audio: Path
) -> None:
    page = await visit(served)
    engine.close_gate_after(2)  # the language probe and the first chunk
    await page.set_input_files("#file", audio)
    await expect(page.locator("#segments li")).to_have_count(2)
    assert engine.finished[1:] == [engine.begun[1]]
    await expect(page.locator("#segments li").first).to_contain_text("left0 <right0> & -->")
    await expect(page.get_by_role("progressbar")).to_have_attribute("value", re.compile(r"^[1-9]\d$"))
    await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    engine.gate.set()
    await finished(page)
    await expect(page.locator("#segments li")).to_have_count(6)
    await expect(page.get_by_role("log")).to_have_attribute("aria-live", "polite")
    await expect(page.get_by_role("progressbar")).to_be_hidden()
    await expect(page.get_by_role("button", name="Again")).to_be_visible()


async def test_the_bar_knows_a_length_that_the_browser_finds_out_late(
    visit: Open, served: Served, engine: FakeEngine, audio: Path
) -> None:
    page = await visit(served)
    await page.evaluate(
        """() => {
          const media = HTMLMediaElement.prototype;
          const known = Object.getOwnPropertyDescriptor(media, "duration");
          Object.defineProperty(media, "duration", { configurable: true, get: () => NaN });
          window.findOut = () => {
            Object.defineProperty(media, "duration", known);
            document.querySelector("#player audio").dispatchEvent(new Event("durationchange"));
          };
        }"""
    )
    engine.close_gate_after(2)  # the language probe and the first chunk
    await page.set_input_files("#file", audio)
    await expect(page.locator("#segments li")).to_have_count(2)
    await page.wait_for_function("document.querySelector('#player audio').readyState > 0")
    bar = page.get_by_role("progressbar")
    assert await bar.get_attribute("value") is None
    await page.evaluate("findOut()")
    await expect(bar).to_have_attribute("value", re.compile(r"^[1-9]\d$"))
    engine.gate.set()
    await finished(page)


async def test_a_click_on_a_word_plays_from_there_and_marks_it(
    visit: Open, served: Served, audio: Path
) -> None:
    page = await visit(served)
    await page.set_input_files("#file", audio)
    await finished(page)
    await page.get_by_text("left2").nth(1).click()
    await expect(page.locator(".heard")).to_have_text("left2")
    playing, at_s = await page.locator("audio").evaluate("audio => [!audio.paused, audio.currentTime]")
    start_s = await page.locator(".heard").evaluate("word => Number(word.dataset.start)")
    assert playing
    assert start_s > 30
    assert start_s <= at_s < start_s + WORD_S
    await expect(page.locator("li[aria-current]")).to_have_count(1)
    await page.get_by_role("button", name="Play from 0:12").click()
    await expect(page.locator(".heard")).to_have_text("left2")
    assert await page.locator("audio").evaluate("audio => audio.currentTime") == pytest.approx(12, abs=3)


async def test_cancel_ends_the_work_at_the_server(
    visit: Open, served: Served, engine: FakeEngine, audio: Path
) -> None:
    page = await visit(served)
    engine.close_gate_after(2)
    await page.set_input_files("#file", audio)
    await expect(page.locator("#segments li")).to_have_count(2)
    await expect(page.locator("#requests")).to_have_text("1")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator("#state")).to_contain_text("Cancelled")
    await engine.until(lambda engine: bool(engine.aborted))
    await until(lambda: served.services.admission.active == 0)
    health = engine.health()
    assert (health.running, health.queued, served.services.admission.stored_bytes) == (0, 0, 0)
    assert served.counted("stentor_requests_cancelled_total", stage="transcribing") == 1
    await expect(page.locator("#requests")).to_have_text("0")
    await expect(page.locator("#segments li")).to_have_count(2)  # what has come stays
    engine.gate.set()
    await page.get_by_role("button", name="Again").click()
    await finished(page)
    await expect(page.locator("#segments li")).to_have_count(6)


async def test_an_upload_shows_how_far_it_is_and_can_be_cancelled(
    visit: Open, served: Served, tmp_path: Path
) -> None:
    page = await visit(served)
    network = await page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 400_000}
    await network.send("Network.emulateNetworkConditions", slow)
    wave = tmp_path / "long.wav"
    wave.touch()
    os.truncate(wave, 8_000_000)
    await page.set_input_files("#file", wave)
    await expect(page.locator("#state")).to_have_text("Sending")
    await expect(page.get_by_role("progressbar")).to_have_attribute("value", re.compile(r"^[1-9]\d?$"))
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator("#state")).to_contain_text("Cancelled")
    await until(lambda: served.services.admission.active == 0)
    assert served.counted("stentor_requests_cancelled_total", stage="uploading") == 1


async def test_what_is_saved_is_what_the_server_would_have_sent(
    visit: Open, served: Served, audio: Path
) -> None:
    page = await visit(served)
    await page.select_option("#language", "en")
    await page.set_input_files("#file", audio)
    await finished(page)
    saved = {}
    for kind in ("srt", "vtt", "json"):
        async with page.expect_download() as download:
            await page.get_by_role("button", name=f"Save as {kind}").click()
        file = await download.value
        assert file.suggested_filename == f"speech.{kind}"
        saved[kind] = await asyncio.to_thread((await file.path()).read_text, encoding="utf-8")
    content = await asyncio.to_thread(audio.read_bytes)
    async with httpx.AsyncClient(base_url=served.url) as http:

        async def sent(response_format: str, **more: Any) -> httpx.Response:
            fields = {"language": "en", "response_format": response_format, **more}
            return await http.post("/v1/audio/transcriptions", **form(content, **fields))

        for kind in ("srt", "vtt"):
            assert saved[kind] == (await sent(kind)).text
        verbose = (await sent("verbose_json", **{"timestamp_granularities[]": ["word", "segment"]})).json()
    told = json.loads(saved["json"])
    assert {key: told[key] for key in ("task", "language", "duration", "text", "words")} == {
        key: verbose[key] for key in ("task", "language", "duration", "text", "words")
    }
    assert told["segments"] == [
        {key: segment[key] for key in ("id", "start", "end", "text")} for segment in verbose["segments"]
    ]


async def test_the_text_can_be_copied(visit: Open, served: Served, audio: Path) -> None:
    page = await visit(served, permissions=["clipboard-read", "clipboard-write"])
    await page.set_input_files("#file", audio)
    await finished(page)
    await page.get_by_role("button", name="Copy").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = await page.evaluate("() => navigator.clipboard.readText()")
    assert copied.startswith("left0 <right0> & --> left2 <right2> & --> left0")
    assert copied.count("left") == 6


async def test_subtitles_are_those_of_the_server_to_the_letter(visit: Open, served: Served) -> None:
    page = await visit(served)
    random = np.random.default_rng(3)
    pieces = [" a", " -->", "&<b>", "\n", "\r\n", "\u2028", "  ", "é", "。", "\x0b", "\x85", " 1\n\n2"]
    many = []
    for _ in range(200):
        starts_s = np.sort(random.integers(0, 16_000 * 4000, 6)) / 16_000
        lengths_s = random.choice([-1.0, 0.0, 0.0004, 0.0105, 3.0, 90.0], 6)
        texts = ["".join(random.choice(pieces, random.integers(0, 5))) for _ in range(6)]
        many.append(
            [
                Segment(
                    text, round(float(start_s) * 1000) / 1000, round(float(start_s + length_s) * 1000) / 1000
                )
                for start_s, length_s, text in zip(starts_s, lengths_s, texts, strict=True)
            ]
        )
    told = [
        [{"start": segment.start_s, "end": segment.end_s, "text": segment.text} for segment in segments]
        for segments in many
    ]
    written = await page.evaluate(
        """async (many) => {
          const { toSrt, toVtt } = await import("/page/subtitles.js");
          return many.map((segments) => [toSrt(segments), toVtt(segments)]);
        }""",
        told,
    )
    assert written == [[to_srt(segments), to_vtt(segments)] for segments in many]


async def test_what_a_person_chooses_reaches_the_engine(
    visit: Open, served: Served, engine: FakeEngine, audio: Path
) -> None:
    page = await visit(served)
    await expect(page.locator("#language option")).to_have_text(["Detect", "English", "German"])
    await page.get_by_label("Language").select_option("German")
    await page.get_by_text("More").click()
    await page.get_by_label("Prompt").fill("Chapter one.")
    await page.get_by_label("Keywords").fill("Stentor, Juno,")
    await page.set_input_files("#file", audio)
    await finished(page)
    options = next(iter(engine.options.values()))
    assert (options.language, options.task, options.words) == ("de", "transcribe", True)
    assert (options.prompt, options.keywords) == ("Chapter one.", ("Stentor", "Juno"))
    engine.options.clear()
    await page.get_by_label("Write it").select_option("in English")
    await page.get_by_role("button", name="Again").click()
    await engine.until(lambda engine: bool(engine.options))
    assert {options.task for options in engine.options.values()} == {"translate"}
    await finished(page)
    await page.get_by_label("Leave out what is not speech").check()
    await page.get_by_role("button", name="Again").click()
    await expect(page.locator("#state")).to_have_text("Nothing was said in it.")  # it is noise


async def test_a_dropped_file_is_heard(visit: Open, served: Served, tmp_path: Path) -> None:
    page = await visit(served)
    content = await asyncio.to_thread(write(tmp_path / "clip.flac", noise(1)).read_bytes)
    dropped = await page.evaluate_handle(
        """bytes => {
          const dropped = new DataTransfer();
          dropped.items.add(new File([new Uint8Array(bytes)], "dropped.flac", { type: "audio/flac" }));
          return dropped;
        }""",
        list(content),
    )
    await page.dispatch_event("#drop", "dragover", {"dataTransfer": dropped})
    await expect(page.locator("#drop")).to_have_class(re.compile("over"))
    await page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})
    await expect(page.locator("#drop")).not_to_have_class(re.compile("over"))
    await expect(page.locator("#name")).to_have_text("dropped.flac")
    await expect(page.locator("#segments li").first).to_be_visible()


async def test_the_microphone_is_recorded_and_heard(visit: Open, served: Served) -> None:
    page = await visit(served)
    await page.get_by_role("button", name="Record").click()
    await page.get_by_role("button", name="Stop, 0:01").click()
    await expect(page.locator("#name")).to_contain_text("recording")
    await finished(page)
    await page.get_by_text("left0").click()
    await expect(page.locator(".heard")).to_have_text("left0")
    duration_s = await page.locator("audio").evaluate("audio => audio.duration")
    assert 0.5 < duration_s < 10  # known, though the recording itself does not tell it
    await expect(page.get_by_role("button", name="Record")).to_be_visible()


async def test_a_page_that_is_not_secure_says_why_it_cannot_record(visit: Open, served: Served) -> None:
    page = await visit(served, host=OTHER_NAME)
    await page.get_by_role("button", name="Record").click()
    await expect(page.get_by_role("alert")).to_contain_text("secure pages only")


async def test_a_file_that_the_browser_cannot_play_is_read_all_the_same(
    visit: Open, served: Served, tmp_path: Path
) -> None:
    page = await visit(served)
    await page.set_input_files("#file", write(tmp_path / "speech.aiff", bursts(5)))
    await finished(page)
    await expect(page.locator("#player")).to_contain_text("cannot play")
    await page.get_by_text("left0").click()
    await expect(page.locator(".heard")).to_have_count(0)


async def test_a_video_is_seen_and_heard(visit: Open, served: Served, tmp_path: Path) -> None:
    page = await visit(served)
    await page.set_input_files("#file", _filmed(tmp_path / "film.webm"))
    await finished(page)
    await page.get_by_text("left0").click()
    await expect(page.locator(".heard")).to_have_text("left0")
    assert await page.locator("video").evaluate("video => [video.videoWidth, video.paused]") == [64, False]


async def test_refusals_are_told_in_the_words_of_the_server(visit: Open, served: Served) -> None:
    page = await visit(served)
    await page.set_input_files("#file", GARBAGE)
    await expect(page.get_by_role("alert")).to_contain_text("not audio in a format")
    await expect(page.get_by_role("button", name="Again")).to_be_enabled()
    await expect(page.get_by_role("button", name="Cancel")).to_be_hidden()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_upload_bytes": 1_000_000}, "larger than 1,000,000 bytes"),
        ({"max_requests": 1}, "the limit is 1"),
    ],
)
async def test_a_refusal_before_the_upload_has_ended_is_told_as_well(
    visit: Open, engine: FakeEngine, tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    large = tmp_path / "large.wav"
    large.touch()
    os.truncate(large, 40_000_000)
    async with serving(engine, **settings) as served:
        page = await visit(served)
        with served.services.admission.request(None):  # somebody else
            await page.set_input_files("#file", large)
            await expect(page.get_by_role("alert")).to_contain_text(words)


async def test_a_full_server_says_when_to_come_back(visit: Open, engine: FakeEngine, tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.flac", noise(2))
    content = await asyncio.to_thread(clip.read_bytes)
    async with (
        serving(engine, max_requests=1) as served,
        httpx.AsyncClient(base_url=served.url) as http,
    ):
        page = await visit(served)
        engine.gate.clear()
        other = asyncio.create_task(http.post("/v1/audio/transcriptions", **form(content)))
        await engine.until(lambda engine: len(engine.started) == 1)
        await page.set_input_files("#file", clip)
        await expect(page.get_by_role("alert")).to_contain_text("the limit is 1; try again later")
        again = page.get_by_role("button", name="Again")
        await expect(again).to_have_text(re.compile(r"Again in \d+ s"))
        await expect(again).to_be_disabled()
        engine.gate.set()
        await other
        await again.click()  # once it is enabled
        await finished(page)
        await expect(page.get_by_role("alert")).to_be_empty()


async def test_an_error_in_mid_stream_leaves_what_has_come(visit: Open, audio: Path) -> None:
    def breaks(request: EngineRequest) -> list[Segment]:
        if request.chunk.index == 1:
            raise RuntimeError("worker lost")
        return script(request)

    async with serving(FakeEngine(breaks, slots=1, languages=("en",))) as served:
        page = await visit(served)
        await page.set_input_files("#file", audio)
        await expect(page.get_by_role("alert")).to_contain_text("worker lost")
        await expect(page.locator("#segments li")).to_have_count(2)
        await expect(page.locator("#requests")).to_contain_text("engine dead")


async def test_a_server_that_is_gone_is_called_gone(visit: Open, engine: FakeEngine, audio: Path) -> None:
    async with serving(engine) as served:
        page = await visit(served)
        await expect(page.locator("#model")).to_have_text("fake")
    await page.set_input_files("#file", audio)
    await expect(page.get_by_role("alert")).to_have_text("The server does not answer.")
    await expect(page.locator("#model")).to_have_text("no answer")


async def test_a_key_is_asked_for_and_kept_in_the_tab_only(
    visit: Open, engine: FakeEngine, audio: Path
) -> None:
    async with serving(engine, api_keys=("sk-right",)) as served:
        page = await visit(served)
        key = page.get_by_role("textbox", name="API key")
        await expect(key).to_be_focused()
        await key.fill("sk-clé")
        await key.press("Enter")
        assert not await key.evaluate("key => key.checkValidity()")
        await key.fill("sk-wrong")
        await key.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("not known here")
        await key.fill("sk-right")
        await page.get_by_role("button", name="Use it").click()
        await expect(page.locator("#model")).to_have_text("fake")
        await expect(key).to_be_hidden()
        await expect(page.get_by_role("alert")).to_be_empty()
        await page.set_input_files("#file", audio)
        await finished(page)
        stored = "() => [sessionStorage.length, localStorage.length, document.cookie]"
        assert await page.evaluate(stored) == [1, 0, ""]
        other = await page.context.new_page()
        await other.goto(served.url)
        await expect(other.get_by_role("textbox", name="API key")).to_be_visible()


async def test_everything_works_with_the_keyboard_alone(
    visit: Open, served: Served, engine: FakeEngine, audio: Path
) -> None:
    page = await visit(served)
    # Asked for now: an Enter pressed right behind the request can be quicker than the browser is to heed it.
    chooser: asyncio.Future[FileChooser] = asyncio.get_running_loop().create_future()
    page.once("filechooser", lambda shown: chooser.set_result(shown))
    await expect(page.locator("#model")).to_have_text("fake")
    seen = []
    for _ in range(5):
        await page.keyboard.press("Tab")
        seen.append(await active(page))
    assert seen == ["choose", "record", "language", "task", "More"]
    for _ in range(4):
        await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await (await chooser).set_files(audio)
    await finished(page)
    await page.keyboard.press("Shift+Tab")
    assert await active(page) == "skip"
    seen = []
    while (here := await active(page)) != "Play from 0:00":
        seen.append(here)
        await page.keyboard.press("Tab")
    assert seen[-5:] == ["again", "copy", "Save as srt", "Save as vtt", "Save as json"]
    assert len(seen) == 11
    await page.keyboard.press("ArrowDown")
    assert await active(page) == "Play from 0:12"
    await page.keyboard.press("Enter")
    await expect(page.locator(".heard")).to_have_text("left2")
    await page.keyboard.press("ArrowRight")
    await expect(page.locator(".heard")).to_have_text("<right2> & -->")
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(".heard")).to_have_text("<right0> & -->")
    assert await active(page) == "Play from 0:00"
    await page.keyboard.press("End")
    last = await active(page)
    await page.keyboard.press("Tab")  # the whole text is one stop
    assert await page.evaluate("() => document.activeElement.tagName") == "AUDIO"
    await page.keyboard.press("Shift+Tab")
    assert await active(page) == last
    await page.get_by_role("button", name="Again").focus()
    engine.gate.clear()
    await page.keyboard.press("Enter")
    assert await active(page) == "cancel"
    await page.keyboard.press("Enter")
    await expect(page.locator("#state")).to_contain_text("Cancelled")
    assert await active(page) == "again"


@pytest.mark.parametrize(
    "look",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark"},
        {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
    ],
    ids=["light", "dark", "phone"],
)
async def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    visit: Open, served: Served, audio: Path, look: dict[str, Any]
) -> None:
    if not AXE.exists():
        pytest.skip("axe is not installed; `make check` does it")
    axe = await asyncio.to_thread(AXE.read_text, encoding="utf-8")
    page = await visit(served, reduced_motion="reduce", **look)
    await page.evaluate(f"() => {{ {axe} }}")

    async def judge() -> None:
        found = await page.evaluate(
            """async () => {
              const { violations } = await axe.run({ resultTypes: ["violations"] });
              return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
            }"""
        )
        assert found == []
        wide, window = await page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide == window

    await expect(page.locator("#model")).to_have_text("fake")
    await page.get_by_text("More").click()
    await judge()
    await page.set_input_files("#file", audio)
    await finished(page)
    await page.get_by_text("left0").first.click()
    await expect(page.locator(".heard")).to_have_text("left0")
    await page.locator("audio").evaluate("audio => audio.pause()")
    await judge()
    await page.set_input_files("#file", GARBAGE)
    await expect(page.get_by_role("alert")).not_to_be_empty()
    await page.locator("#key-section").evaluate("section => (section.hidden = false)")
    await judge()


async def test_light_and_dark_follow_the_system(visit: Open, served: Served) -> None:
    page = await visit(served, color_scheme="light")
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(paper)
    await page.emulate_media(color_scheme="dark")
    assert sum(map(int, re.findall(r"\d+", light))) > 700
    assert sum(map(int, re.findall(r"\d+", await page.evaluate(paper)))) < 100


async def test_the_server_is_asked_only_while_somebody_looks(visit: Open, served: Served) -> None:
    page = await visit(served)
    await expect(page.locator("#model")).to_have_text("fake")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    look = "() => document.dispatchEvent(new Event('visibilitychange'))"
    await page.evaluate("() => Object.defineProperty(document, 'hidden', { value: true, writable: true })")
    await page.evaluate(look)
    await page.evaluate("() => fetch('page/icon.svg')")  # comes behind what was asked before
    assert asked == [f"{served.url}/page/icon.svg"]
    await page.evaluate("() => (document.hidden = false)")
    async with page.expect_request("**/status"):
        await page.evaluate(look)
