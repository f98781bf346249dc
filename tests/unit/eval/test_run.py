"""An evaluation from the files to the table, the JSON and the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from rich.console import Console

from stentor.bench.manifest import Utterance
from stentor.engine.fake import FakeEngine
from stentor.errors import SetupError
from stentor.eval.joined import cuts_of, joined
from stentor.eval.listeners import Ask, Here, ListenerError, Server
from stentor.eval.page import write_page
from stentor.eval.results import Subject, points_more, read_rates, show, write_json
from stentor.eval.run import Group, evaluate, grouped
from stentor.types import EngineRequest, Segment, Word
from support.audio import bursts, noise, write
from support.server import serving

Say = Callable[..., Utterance]


@pytest.fixture
def say(tmp_path: Path) -> Say:
    """Makes a file of noise that is said to hold some words."""

    def make(
        text: str | None, *, language: str | None = "en", corpus: str = "calls", seconds: float = 2.0
    ) -> Utterance:
        path = write(tmp_path / f"{len(list(tmp_path.iterdir()))}.flac", noise(seconds))
        return Utterance(path, seconds, language, text, corpus)

    return make


def saying(text: str) -> FakeEngine:
    """An engine that hears the same everywhere."""

    def script(request: EngineRequest) -> list[Segment]:
        words = text.split()
        step_s = request.chunk.duration_s / max(1, len(words))
        timed = tuple(Word(f" {word}", at * step_s, (at + 1) * step_s, 1.0) for at, word in enumerate(words))
        return [Segment(f" {text}", 0.0, request.chunk.duration_s, words=timed)] if words else []

    return FakeEngine(script)


async def heard(utterances: list[Utterance], text: str, ask: Ask = Ask()) -> Group:  # noqa: B008 - frozen
    listener = Here(saying(text), ask, workers=1)
    try:
        return await evaluate("calls", "en", utterances, listener, vad=ask.vad)
    finally:
        await listener.close()


async def test_rates_are_the_groups(say: Say) -> None:
    group = await heard([say("hello big world"), say("hello world"), say("")], "hello world")
    assert (group.count.deletions, group.count.insertions, group.count.references) == (1, 2, 5)
    assert (group.dreamt, group.wordless, group.failures) == (1, 1, 0)
    assert group.audio_s == 6.0


async def test_a_file_that_fails_is_counted_as_unheard(say: Say, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no audio")
    group = await heard([say("hello"), Utterance(tmp_path / "text.wav", 1.0, "en", "lost words")], "hello")
    assert (group.failures, group.count.deletions) == (1, 2)


async def test_words_are_timed_where_they_were_asked_for(say: Say) -> None:
    for words in (True, False):
        (verdict,) = (await heard([say("hello world")], "hello world", Ask(words=words))).verdicts
        assert verdict.heard is not None
        assert verdict.heard.timed == words
        assert [word.start_s for word in verdict.heard.words] == pytest.approx([0.0, 1.0])


def test_groups_are_of_one_corpus_and_one_language(say: Say) -> None:
    found = grouped(
        [say("a"), say("b", language="de"), say("c", corpus="talks"), say(None), say("", language=None)]
    )
    assert {name: len(members) for name, members in found.items()} == {
        ("calls", "de"): 1, ("calls", "en"): 1, ("calls", "none"): 1, ("talks", "en"): 1,
    }  # fmt: skip


def test_joined_files_are_marked_where_each_is_spoken(tmp_path: Path) -> None:
    parts = []
    for at, loud_s in enumerate((1.0, 2.0)):
        quiet = np.zeros(8000, np.float32)
        path = write(tmp_path / f"{at}.flac", np.concatenate([quiet, noise(loud_s), quiet]))
        parts.append(Utterance(path, 1 + loud_s, "en", f"part {at}", "calls"))
    recording = joined(parts, 0.5, tmp_path / "joined.flac")
    assert recording is not None
    assert (recording.text, recording.corpus) == ("part 0 part 1", "calls joined")
    assert [mark.text for mark in recording.marks] == ["part 0", "part 1"]
    spans = [(mark.start_s, mark.end_s) for mark in recording.marks]
    assert spans == [pytest.approx((0.03, 1.03), abs=0.011), pytest.approx((1.59, 3.59), abs=0.021)]
    assert soundfile.info(recording.path).duration == pytest.approx(recording.seconds)


def test_what_cannot_be_joined_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "broken.mp3").write_bytes(b"no audio")
    write(tmp_path / "silent.wav", np.zeros(8000, np.float32))
    write(tmp_path / "empty.wav", np.zeros(0, np.float32))
    names = ("broken.mp3", "missing.wav", "silent.wav", "empty.wav")
    unfit = [Utterance(tmp_path / name, None, "en", "words", "calls") for name in names]
    path = write(tmp_path / "loud.wav", noise(1))
    unfit.append(Utterance(path, 1.0, "en", None, "calls"))
    fit = [Utterance(path, 1.0, "en", text, "calls") for text in ("one", "two")]
    recording = joined([*unfit, *fit], 0.5, tmp_path / "joined.flac")
    assert recording is not None
    assert [mark.text for mark in recording.marks] == ["one", "two"]
    assert joined([*unfit, fit[0]], 0.5, tmp_path / "none.flac") is None


def test_cuts_are_where_the_chunks_meet(tmp_path: Path) -> None:
    path = write(tmp_path / "long.flac", bursts(70))
    first, second = cuts_of(path, vad=False)
    assert 25 < first <= 30
    assert 50 < second <= 60
    path.write_text("no audio")
    assert cuts_of(path, vad=False) == ()


async def test_figures_texts_and_diffs_are_written(say: Say, tmp_path: Path) -> None:
    group = await heard([say("hello big world")], "hello small world")
    console = Console(record=True, width=250)
    show([group], console, {"calls/en": 0.1})
    assert "+23.33" in console.export_text()
    write_json(tmp_path / "out.json", Subject("fake", "here", Ask()), [group])
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["groups"]["calls/en"]["substitutions"] == 1
    assert record["files"][0]["text"] == "hello small world"
    assert read_rates(tmp_path / "out.json") == {"calls/en": pytest.approx(1 / 3)}
    assert points_more(group, {"other/en": 0.1}) is None
    write_page(tmp_path / "out.html", "Transcripts", [group])
    page = (tmp_path / "out.html").read_text()
    assert "<del>big</del>" in page
    assert "<ins>small</ins>" in page
    assert "http" not in page


def test_another_files_figures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(SetupError, match=r"other\.json is no result"):
        read_rates(tmp_path / "other.json")


async def test_a_server_is_asked_as_openais_client_would(say: Say) -> None:
    async with serving(saying("hello world")) as served:
        listener = Server(f"http://127.0.0.1:{served.port}/v1", "whisper-1", Ask(words=True))
        heard = await listener.hear(say("hello world"))
        assert (heard.text, heard.language, heard.timed) == ("hello world", "en", True)
        assert [word.start_s for word in heard.words] == pytest.approx([0.0, 1.0])
        broken = say("x")
        broken.path.write_text("no audio")
        with pytest.raises(ListenerError, match="400"):
            await listener.hear(broken)
        await listener.close()


async def test_a_server_that_is_not_there_is_said_so(say: Say) -> None:
    listener = Server("http://127.0.0.1:9", "m", Ask())
    with pytest.raises(ListenerError, match=httpx.ConnectError.__name__):
        await listener.hear(say("x"))
    await listener.close()
