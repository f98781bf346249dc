"""The road: order, window, language, and that whoever leaves it aborts what has begun."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stentor.audio.reader import ReaderLimits
from stentor.engine.fake import FakeEngine
from stentor.errors import AudioError, AudioTooLong, EngineError, InvalidValue
from stentor.preprocess import PreprocessPool
from stentor.transcriber import AudioRequest, Transcriber
from stentor.types import SAMPLE_RATE, DecodeOptions, EngineRequest, LanguageGuess, Part, Segment, Word
from support.audio import bursts, noise, speech, write
from support.waiting import until


@pytest.fixture
def pool() -> Iterator[PreprocessPool]:
    pool = PreprocessPool(2)
    yield pool
    pool.close()


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine()
    yield engine
    await engine.close()


@pytest.fixture
def short(tmp_path: Path) -> Iterator[int]:
    """A second of sound."""
    yield from _opened(write(tmp_path / "short.wav", noise(1)))


@pytest.fixture
def long(tmp_path: Path) -> Iterator[int]:
    """Two and a half minutes of sound: six chunks."""
    yield from _opened(write(tmp_path / "long.flac", bursts(150)))


@pytest.fixture
def pauseless(tmp_path: Path) -> Iterator[int]:
    """As long, and quiet nowhere."""
    yield from _opened(write(tmp_path / "pauseless.flac", noise(150)))


def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def road(engine: FakeEngine, pool: PreprocessPool, window: int | None = None) -> Transcriber:
    return Transcriber(engine, pool, ReaderLimits(), window=window)


ENGLISH = DecodeOptions(language="en")


async def test_one_chunk_is_one_engine_request_under_the_requests_own_id(
    engine: FakeEngine, pool: PreprocessPool, short: int
) -> None:
    transcript = await road(engine, pool).transcribe(AudioRequest("r", short, ENGLISH))
    assert (transcript.text, transcript.duration_s, transcript.language) == ("chunk 0", 1.0, "en")
    assert engine.begun == ["r"]
    assert engine.aborted == []


async def test_chunks_come_out_in_order_and_cover_the_file(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    parts: list[Part] = []

    async def on_part(part: Part) -> None:
        parts.append(part)

    transcript = await road(engine, pool).transcribe(AudioRequest("r", long, ENGLISH), on_part)
    assert transcript.text == " ".join(f"chunk {index}" for index in range(len(parts)))
    assert transcript.duration_s == pytest.approx(150)
    assert [segment for part in parts for segment in part.segments] == list(transcript.segments)
    for before, after in pairwise(transcript.segments):
        assert before.end_s == after.start_s
    assert engine.begun == [f"r-{index}" for index in range(len(parts))]


async def test_where_chunks_overlap_words_are_asked_for_and_given_only_to_who_wants_them(
    pool: PreprocessPool, pauseless: int
) -> None:
    def script(request: EngineRequest) -> list[Segment]:
        """Somebody counts the seconds of the file."""
        start_s, end_s = request.chunk.start_s, request.chunk.end_s
        words = tuple(
            Word(f" {second}", second - start_s, second + 0.9 - start_s, 1.0)
            for second in range(150)
            if start_s <= second and second + 0.9 <= end_s
        )
        text = "".join(word.text for word in words)
        return [Segment(text, words[0].start_s, words[-1].end_s, words=words)]

    engine = FakeEngine(script)
    transcript = await road(engine, pool).transcribe(AudioRequest("r", pauseless, ENGLISH))
    assert [int(text) for text in transcript.text.split()] == list(range(150))
    assert all(options.words for options in engine.options.values())
    assert not any(segment.words for segment in transcript.segments)
    await engine.close()


async def test_an_engine_without_words_is_asked_for_none_by_callers_and_joined_by_its_text(
    pool: PreprocessPool, pauseless: int
) -> None:
    def script(request: EngineRequest) -> list[Segment]:
        """Somebody counts the seconds of the file, in one segment."""
        start_s, end_s = request.chunk.start_s, request.chunk.end_s
        text = "".join(f" {n}" for n in range(100, 250) if start_s <= n - 100 and n - 99.1 <= end_s)
        return [Segment(text, 0.0, request.chunk.duration_s)]

    engine = FakeEngine(script, words=False, logprobs=False)
    transcript = await road(engine, pool).transcribe(AudioRequest("r", pauseless, ENGLISH))
    assert [int(text) for text in transcript.text.split()] == list(range(100, 250))
    words = DecodeOptions(language="en", words=True)
    logprobs = DecodeOptions(language="en", logprobs=True)
    for options, param in ((words, "timestamp_granularities"), (logprobs, "include")):
        with pytest.raises(InvalidValue) as refused:
            await road(engine, pool).transcribe(AudioRequest("r", pauseless, options))
        assert refused.value.param == param
    await engine.close()


async def test_a_later_chunk_that_is_done_first_waits_for_its_turn(pool: PreprocessPool, long: int) -> None:
    second_done = threading.Event()

    def script(request: EngineRequest) -> list[Segment]:
        if request.chunk.index == 0:
            second_done.wait()
        if request.chunk.index == 1:
            second_done.set()
        return [Segment(f" {request.chunk.index}", 0, request.chunk.duration_s)]

    engine = FakeEngine(script)
    transcript = await road(engine, pool).transcribe(AudioRequest("r", long, ENGLISH))
    assert transcript.text.split() == [str(index) for index in range(len(transcript.segments))]
    await engine.close()


async def test_the_window_bounds_what_is_under_way(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    engine.gate.clear()
    task = asyncio.create_task(road(engine, pool, window=3).transcribe(AudioRequest("r", long, ENGLISH)))
    await engine.until(lambda e: len(e.begun) == 3)
    await until(lambda: pool.running == 0 and pool.waiting == 0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(engine.begun) == 3
    engine.gate.set()
    assert (await task).text.startswith("chunk 0 chunk 1")


class ByChunk(FakeEngine):
    """Hears the language given for each chunk, the last one in all that follow."""

    def __init__(self, *heard: str) -> None:
        super().__init__()
        self._heard = heard

    async def detect_language(self, request: EngineRequest) -> LanguageGuess:
        await super().detect_language(request)
        return LanguageGuess(self._heard[min(request.chunk.index, len(self._heard) - 1)], 0.9)

    @property
    def heard_as(self) -> list[str | None]:
        """The languages of the chunks, in their order."""
        chunks = {name: options for name, options in self.options.items() if "lang" not in name}
        return [chunks[name].language for name in sorted(chunks, key=lambda name: int(name[2:]))]


@pytest.fixture
def speaking(two_cities: Path, tmp_path: Path) -> Iterator[int]:
    """More than two minutes of speech: five chunks."""
    yield from _opened(write(tmp_path / "speech.flac", np.tile(speech(two_cities), 3)))


@pytest.fixture
def late(two_cities: Path, tmp_path: Path) -> Iterator[int]:
    """Half a minute of no speech, then speech."""
    samples = np.concatenate([bursts(30), np.tile(speech(two_cities), 2)])
    yield from _opened(write(tmp_path / "late.flac", samples))


@pytest.mark.parametrize(
    ("heard", "language"), [(("de",), "de"), (("en", "de"), "de"), (("de", "de", "fr", "en"), "de")]
)
async def test_the_language_of_most_of_the_first_speech_is_that_of_all_chunks(
    heard: tuple[str, ...], language: str, pool: PreprocessPool, speaking: int
) -> None:
    engine = ByChunk(*heard)
    transcript = await road(engine, pool).transcribe(AudioRequest("r", speaking, DecodeOptions()))
    assert (transcript.language, transcript.languages) == (language, (language,))
    assert engine.heard_as == [language] * 5
    probes = [name for name in engine.begun if "lang" in name]
    assert probes == ["r-lang", "r-lang-1", "r-lang-2"]
    await engine.close()


async def test_noise_before_the_speech_does_not_decide_its_language(pool: PreprocessPool, late: int) -> None:
    engine = ByChunk("de", "fr")
    transcript = await road(engine, pool).transcribe(AudioRequest("r", late, DecodeOptions()))
    assert transcript.languages == ("fr", "de")
    assert engine.heard_as[0] == "de"
    assert set(engine.heard_as[1:]) == {"fr"}
    await engine.close()


async def test_with_code_switching_every_chunk_has_a_language_of_its_own(
    pool: PreprocessPool, speaking: int
) -> None:
    engine = ByChunk("de", "fr", "de", "ja")
    request = AudioRequest("r", speaking, DecodeOptions(), code_switching=True)
    transcript = await road(engine, pool).transcribe(request)
    assert engine.heard_as == ["de", "fr", "de", "ja", "ja"]
    assert set(transcript.languages) == {"de", "fr", "ja"}
    await engine.close()


@pytest.mark.parametrize(
    ("options", "condition", "other"), [(ENGLISH, False, "language"), (DecodeOptions(), True, "condition")]
)
async def test_code_switching_does_not_go_with_one_language_or_with_one_text(
    options: DecodeOptions, condition: bool, other: str, engine: FakeEngine, pool: PreprocessPool
) -> None:
    request = AudioRequest("r", -1, options, condition=condition, code_switching=True)
    with pytest.raises(InvalidValue, match=other) as refused:
        await road(engine, pool).transcribe(request)
    assert refused.value.param == "code_switching"


async def test_on_condition_each_chunk_waits_for_what_is_said_before_it(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    await road(engine, pool).transcribe(AudioRequest("r", long, ENGLISH, condition=True))
    assert engine.begun == engine.finished  # none began before the one before it had ended
    said = [[segment.text for segment in engine.options[name].previous] for name in engine.begun]
    assert said == [[f" chunk {before}" for before in range(index)] for index in range(len(said))]


async def test_without_condition_no_chunk_knows_what_was_said(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    await road(engine, pool).transcribe(AudioRequest("r", long, ENGLISH))
    assert {options.previous for options in engine.options.values()} == {()}


async def test_cancelling_on_condition_aborts_the_one_chunk_that_is_heard(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    engine.close_gate_after(2)
    request = AudioRequest("r", long, ENGLISH, condition=True)
    await _cancelled_when(engine, road(engine, pool), request, ["r-0", "r-1", "r-2"])
    assert engine.aborted == ["r-2"]


async def test_leading_silence_is_not_asked_about(
    engine: FakeEngine, pool: PreprocessPool, tmp_path: Path
) -> None:
    samples = np.concatenate([np.zeros(40 * SAMPLE_RATE, np.float32), noise(10)])
    for fd in _opened(write(tmp_path / "late.wav", samples)):
        transcript = await road(engine, pool).transcribe(AudioRequest("r", fd, DecodeOptions()))
    assert engine.begun == ["r-lang-1", "r-1"]
    assert transcript.text == "chunk 1"
    assert transcript.duration_s == 50.0


async def test_silence_is_an_empty_transcript(
    engine: FakeEngine, pool: PreprocessPool, tmp_path: Path
) -> None:
    for fd in _opened(write(tmp_path / "silence.wav", np.zeros(5 * SAMPLE_RATE, np.float32))):
        transcript = await road(engine, pool).transcribe(AudioRequest("r", fd, DecodeOptions()))
    assert (transcript.text, transcript.segments, transcript.duration_s) == ("", (), 5.0)
    assert engine.begun == []


async def test_languages_without_spaces_are_joined_without(pool: PreprocessPool, long: int) -> None:
    engine = FakeEngine(lambda request: [Segment("字", 0, 1)], language="ja")
    transcript = await road(engine, pool).transcribe(AudioRequest("r", long, DecodeOptions()))
    assert set(transcript.text) == {"字"}
    await engine.close()


async def test_what_the_model_cannot_do_is_refused_before_anything_is_read(
    engine: FakeEngine, pool: PreprocessPool
) -> None:
    with pytest.raises(InvalidValue, match="language 'xx'") as refused:
        await road(engine, pool).transcribe(AudioRequest("r", -1, DecodeOptions(language="xx")))
    assert refused.value.param == "language"


async def test_bad_audio_is_an_audio_error_and_aborts_nothing(
    engine: FakeEngine, pool: PreprocessPool, tmp_path: Path
) -> None:
    path = tmp_path / "text.mp3"
    path.write_bytes(b"this is no audio" * 100)
    for fd in _opened(path):
        with pytest.raises(AudioError):
            await road(engine, pool).transcribe(AudioRequest("r", fd, ENGLISH))
    assert engine.begun == []


async def test_too_long_audio_is_refused_and_what_has_begun_is_aborted(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    engine.gate.clear()
    transcriber = Transcriber(engine, pool, ReaderLimits(max_audio_s=60))
    with pytest.raises(AudioTooLong):
        await transcriber.transcribe(AudioRequest("r", long, ENGLISH))
    assert engine.aborted == engine.begun


async def test_an_engine_fault_fails_the_request(pool: PreprocessPool, long: int) -> None:
    def script(request: EngineRequest) -> list[Segment]:
        if request.chunk.index == 2:
            raise RuntimeError("worker lost")
        return [Segment(" ok", 0, 1)]

    engine = FakeEngine(script)
    with pytest.raises(EngineError, match="worker lost"):
        await road(engine, pool).transcribe(AudioRequest("r", long, ENGLISH))
    assert not engine.health().alive
    await engine.close()


async def test_cancelling_a_request_of_one_chunk_aborts_its_one_id(
    engine: FakeEngine, pool: PreprocessPool, short: int
) -> None:
    engine.gate.clear()
    await _cancelled_when(engine, road(engine, pool), AudioRequest("r", short, ENGLISH), begun=["r"])
    assert engine.aborted == ["r"]


async def test_cancelling_a_request_of_many_chunks_aborts_exactly_those_begun(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    engine.gate.clear()
    begun = [f"r-{index}" for index in range(4)]  # the window: all advanced before the cancel
    await _cancelled_when(engine, road(engine, pool, 4), AudioRequest("r", long, ENGLISH), begun=begun)
    assert engine.aborted == begun
    assert (engine.health().running, engine.health().queued) == (0, 0)


async def test_cancelling_in_language_detection_aborts_the_probe(
    engine: FakeEngine, pool: PreprocessPool, long: int
) -> None:
    engine.gate.clear()
    await _cancelled_when(engine, road(engine, pool), AudioRequest("r", long, DecodeOptions()), ["r-lang"])
    assert engine.aborted == ["r-lang"]


async def test_finished_chunks_are_not_aborted(pool: PreprocessPool, long: int) -> None:
    engine = FakeEngine(slots=1)
    done = asyncio.Event()

    async def on_part(part: Part) -> None:
        engine.gate.clear()
        done.set()
        await asyncio.Event().wait()

    transcriber = road(engine, pool, 3)
    task = asyncio.create_task(transcriber.transcribe(AudioRequest("r", long, ENGLISH), on_part))
    await done.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set(engine.aborted) == set(engine.begun) - set(engine.finished)
    assert "r-0" not in engine.aborted
    await engine.close()


async def _cancelled_when(
    engine: FakeEngine, transcriber: Transcriber, request: AudioRequest, begun: list[str]
) -> None:
    task = asyncio.create_task(transcriber.transcribe(request))
    await engine.until(lambda e: e.begun == begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
