"""Which pass of the decoder is believed, and what of a chunk is heard again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stentor.engine.windows import Decoded, convincing, hear, read_window
from stentor.models import resolve
from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineRequest
from stentor.whisper import rules
from stentor.whisper.alignment import Alignment
from stentor.whisper.tokenizer import WhisperTokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> WhisperTokenizer:
    return WhisperTokenizer(resolve("tiny.en", cache_dir=tmp_path_factory.mktemp("cache")).directory)


def request(temperature: float = 0.0) -> EngineRequest:
    chunk = Chunk(0, 0, np.zeros(SAMPLE_RATE, np.float32), last=True)
    return EngineRequest("r", "r", chunk, DecodeOptions(language="en", temperature=temperature))


async def believed(
    tokenizer: WhisperTokenizer,
    asked: EngineRequest,
    passes: dict[float, tuple[str, float]],
    *,
    no_speech_prob: float = 0.1,
) -> float | None:
    """The temperature of the pass that is believed."""

    async def decode(temperature: float) -> Decoded:
        text, avg_logprob = passes[temperature]
        return Decoded(tokenizer.encode(text), temperature, avg_logprob, no_speech_prob)

    decoded = await convincing(tokenizer, asked, decode)
    return None if decoded is None else decoded.temperature


async def test_the_first_that_convinces(tokenizer: WhisperTokenizer) -> None:
    asked = request()
    passes = {0.0: (" and so on" * 40, -0.1), 0.2: (" mumble", -1.5), 0.4: (" and so on.", -0.4)}
    assert await believed(tokenizer, asked, passes) == 0.4
    assert asked.report.fallbacks == ["repetition", "unsure"]


async def test_the_likeliest_without_a_loop_when_none_does(tokenizer: WhisperTokenizer) -> None:
    asked = request()
    passes = {0.0: (" and so on" * 40, -0.1), 0.2: (" one", -1.5), 0.4: (" two", -1.2), 0.6: (" three", -1.4)}
    passes |= {0.8: (" four", -2.0), 1.0: (" five", -3.0)}
    assert await believed(tokenizer, asked, passes) == 0.4
    assert len(asked.report.fallbacks) == 5


async def test_a_temperature_asked_for_is_the_only_one(tokenizer: WhisperTokenizer) -> None:
    asked = request(temperature=0.6)
    assert await believed(tokenizer, asked, {0.6: (" mumble", -1.5)}) == 0.6
    assert asked.report.fallbacks == []


async def test_people_who_repeat_themselves_are_believed(tokenizer: WhisperTokenizer) -> None:
    said = " Ever tried, ever failed. No matter, try again. Fail again, fail better."
    passes = {0.0: (said * 3, -0.15), 0.2: (said * 3, -0.4), 0.4: (said * 3, -0.5), 0.6: (said * 2, -1.5)}
    passes |= {0.8: (" Never mind.", -1.8), 1.0: (" Eifel", -3.0)}
    # The model thinks that nobody speaks, and at high temperatures doubts its words as well.
    assert await believed(tokenizer, request(), passes, no_speech_prob=0.72) == 0.0


async def test_nothing_is_believed_over_silence(tokenizer: WhisperTokenizer) -> None:
    for dream in ((" Thank you.", -1.7), (" and so on" * 40, -0.1)):
        asked = request()
        assert await believed(tokenizer, asked, {0.0: dream}, no_speech_prob=0.8) is None
        assert asked.report.fallbacks == []


def listened(speech_s: float) -> tuple[EngineRequest, list[float]]:
    """A request beside which somebody hears so much speech, and from where on he was asked."""
    asked_from: list[float] = []

    async def hear(offset_s: float) -> float:
        asked_from.append(offset_s)
        return speech_s

    return replace(request(), speech_s=hear), asked_from


@pytest.mark.parametrize("dream", [(" Thank you.", -0.4), (" and so on" * 40, -0.1), (" mumble", -1.5)])
async def test_a_dream_over_music_is_told_by_who_hears_no_speech(
    tokenizer: WhisperTokenizer, dream: tuple[str, float]
) -> None:
    asked, asked_from = listened(0.0)
    assert await believed(tokenizer, asked, {0.0: dream}, no_speech_prob=0.4) is None
    assert asked_from == [0.0]


async def test_speech_that_the_model_takes_for_silence_is_heard_again(tokenizer: WhisperTokenizer) -> None:
    asked, _ = listened(26.0)
    passes = {0.0: (" The", -2.0), 0.2: (" The stone, the river", -0.6)}
    assert await believed(tokenizer, asked, passes, no_speech_prob=0.8) == 0.2


async def test_a_little_speech_does_not_outweigh_a_model_that_hears_none(tokenizer: WhisperTokenizer) -> None:
    asked, _ = listened(0.5)
    assert await believed(tokenizer, asked, {0.0: (" Thank you.", -1.7)}, no_speech_prob=0.8) is None


async def test_nobody_is_asked_about_a_window_that_is_beyond_doubt(tokenizer: WhisperTokenizer) -> None:
    asked, asked_from = listened(0.0)
    assert await believed(tokenizer, asked, {0.0: (" Well, yes.", -0.3)}, no_speech_prob=0.1) == 0.0
    assert asked_from == []


def cut_off(tokenizer: WhisperTokenizer) -> Decoded:
    """Three segments, before the last two of which the model would have ended."""
    stamp = tokenizer.timestamp
    first = [stamp(0.0), *tokenizer.encode(" Well, yes."), stamp(2.0)]
    second = [stamp(2.0), *tokenizer.encode(" And so on,"), stamp(6.0)]
    third = [stamp(6.0), *tokenizer.encode(" Thank you."), stamp(9.0)]
    tokens = [*first, *second, *third]
    went_on = [len(first) + 1, len(first) + len(second) + 1]
    return Decoded(tokens, 0.0, -0.2, 0.1, logprobs=[-0.2] * len(tokens), went_on=went_on)


@pytest.mark.parametrize(
    ("speech_after_s", "said", "asked_at"),
    [
        ({2.0: 3.0, 6.0: 2.0}, " Well, yes. And so on, Thank you.", [6.0]),
        ({2.0: 3.0, 6.0: 0.0}, " Well, yes. And so on,", [6.0, 2.0]),
        ({2.0: 0.1, 6.0: 0.0}, " Well, yes.", [6.0, 2.0]),
    ],
)
async def test_words_past_the_end_are_believed_where_somebody_speaks(
    tokenizer: WhisperTokenizer, speech_after_s: dict[float, float], said: str, asked_at: list[float]
) -> None:
    asked_from: list[float] = []

    async def listen(offset_s: float) -> float:
        asked_from.append(offset_s)
        return speech_after_s[offset_s]

    async def decode(temperature: float) -> Decoded:
        return cut_off(tokenizer)

    decoded = await convincing(tokenizer, replace(request(), speech_s=listen), decode)
    assert decoded is not None
    assert tokenizer.decode(decoded.tokens) == said
    assert asked_from == asked_at
    # As if it had ended by itself: one time at the end, so that the rest is not heard again.
    window = read_window(tokenizer, decoded, 30.0, offset_s=0.0, logprobs=True)
    assert window.seek_s == 30.0
    assert len(decoded.logprobs) == len(decoded.tokens)
    assert decoded.avg_logprob == pytest.approx(-0.2, abs=0.05)


async def test_words_past_the_end_stay_where_nobody_listens(tokenizer: WhisperTokenizer) -> None:
    async def decode(temperature: float) -> Decoded:
        return cut_off(tokenizer)

    assert await convincing(tokenizer, request(), decode) == cut_off(tokenizer)


Said = tuple[str | float, ...]
"""What a pass of the decoder writes: texts, and times from where its window begins."""


async def said_in(tokenizer: WhisperTokenizer, passes: dict[float, Said]) -> list[str]:
    """What is heard of 28 s by a decoder that writes so in the windows that begin there, and no others do."""

    async def decode(offset_s: float, temperature: float) -> Decoded:
        pieces = (
            tokenizer.encode(piece) if isinstance(piece, str) else [tokenizer.timestamp(piece)]
            for piece in passes.pop(offset_s)
        )
        return Decoded([token for piece in pieces for token in piece], temperature, -0.3, 0.0)

    async def align(offset_s: float, window: rules.Window) -> Alignment:
        raise AssertionError("nobody asked for words")

    chunk = Chunk(0, 0, np.zeros(28 * SAMPLE_RATE, np.float32), last=True)
    asked = EngineRequest("r", "r", chunk, DecodeOptions(language="en"))
    outputs = [output async for output in hear(tokenizer, asked, decode, align)]
    assert not passes
    return [segment.text for output in outputs for segment in output.segments]


async def test_a_short_rest_is_heard_with_the_sentences_before_it(tokenizer: WhisperTokenizer) -> None:
    first: Said = (0.0, " One.", 10.0, 10.0, " Two.", 17.0, 17.0, " Thee.", 25.0, 25.0)
    passes: dict[float, Said] = {0.0: first, 17.0: (0.0, " Three.", 8.0, 8.0, " And", 11.0)}
    assert await said_in(tokenizer, passes) == [" One.", " Two.", " Three.", " And"]


async def test_a_rest_of_some_length_is_heard_by_itself(tokenizer: WhisperTokenizer) -> None:
    first: Said = (0.0, " One.", 10.0, 10.0, " Two.", 17.0, 17.0)
    passes: dict[float, Said] = {0.0: first, 17.0: (0.0, " Three.", 11.0)}
    assert await said_in(tokenizer, passes) == [" One.", " Two.", " Three."]


async def test_a_rest_becomes_as_long_as_it_can(tokenizer: WhisperTokenizer) -> None:
    first: Said = (0.0, " One.", 21.0, 21.0, " Two.", 23.0, 23.0, " Thee.", 25.0, 25.0)
    passes: dict[float, Said] = {0.0: first, 21.0: (0.0, " Two three.", 7.0)}
    assert await said_in(tokenizer, passes) == [" One.", " Two three."]


async def test_a_single_sentence_is_not_heard_twice(tokenizer: WhisperTokenizer) -> None:
    passes: dict[float, Said] = {0.0: (0.0, " One.", 25.0, 25.0), 25.0: (0.0, " Two.", 3.0)}
    assert await said_in(tokenizer, passes) == [" One.", " Two."]
