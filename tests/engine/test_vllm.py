"""The vLLM engine over a scripted vLLM: what it asks, what it makes of the answers, how it stops and dies."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stentor.engine.choice import load_engine
from stentor.engine.vllm.arguments import engine_arguments
from stentor.engine.vllm.engine import VllmEngine, load_vllm
from stentor.engine.vllm.passes import Answer, Ask
from stentor.engine.vllm.speech import SpeechEar
from stentor.engine.vllm.timestamps import MAX_INITIAL_STEPS, Room, room
from stentor.engine.vllm.whisper import WhisperEar
from stentor.errors import EngineAborted, EngineError, InvalidValue, ModelError, SetupError
from stentor.models import ModelFiles, resolve
from stentor.types import SAMPLE_RATE, Chunk, DecodeOptions, EngineRequest, Samples, Segment
from stentor.whisper.tokenizer import WhisperTokenizer
from stentor.whisper.vocabulary import no_speech_token
from support.hearing import heard
from support.waiting import until

Requests = Callable[..., EngineRequest]


class FakeRuntime:
    """A vLLM whose answers are scripted, given the tokens or the prompt that it is asked to go on from."""

    def __init__(self, script: Callable[[Ask], Answer], *, languages: tuple[str, ...] = ()) -> None:
        self.slots, self.reserved = 2, 0
        self.failure: str | None = None
        self.languages = languages
        self.asked: list[tuple[str, Ask]] = []
        self.rendered: list[Any] = []
        self.urgent: list[str] = []
        self.aborted: list[str] = []
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = 0
        self.die: Callable[[], None] = lambda: None
        self._script = script

    @property
    def speech(self) -> FakeRuntime:
        return self

    def prompt(self, samples: Samples, options: DecodeOptions) -> Any:
        if options.keywords:
            raise ValueError("no keywords")
        return {"language": options.language, "prompt": options.prompt}

    def text_of(self, written: str) -> str:
        return written.removeprefix("<text>")

    def watch(self, on_failure: Callable[[], None]) -> None:
        self.die = on_failure

    async def render(self, prompt: Any) -> Any:
        self.rendered.append(prompt)
        return {"type": "enc_dec", "decoder_prompt": {"prompt_token_ids": [0, 0]}, **prompt}

    async def answer(self, request_id: str, ask: Ask, *, urgent: bool) -> Answer:
        self.asked.append((request_id, ask))
        self.urgent += [request_id] if urgent else []
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request_id)
            raise
        if self.failure:
            raise EngineError(self.failure)
        return self._script(ask)

    async def abort(self, request_ids: Collection[str]) -> None:
        self.aborted += request_ids

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture(scope="module")
def multilingual(tmp_path_factory: pytest.TempPathFactory) -> WhisperTokenizer:
    return WhisperTokenizer(resolve("base", cache_dir=tmp_path_factory.mktemp("cache")).directory)


@pytest.fixture(scope="module")
def english() -> WhisperTokenizer:
    return WhisperTokenizer(resolve("tiny.en").directory)


def whisper(tokenizer: WhisperTokenizer, runtime: FakeRuntime, *, multilingual: bool = True) -> VllmEngine:
    return VllmEngine(
        "fake",
        runtime,
        lambda asked: WhisperEar(
            tokenizer, runtime, asked, multilingual=multilingual, no_speech=no_speech_token(tokenizer)
        ),
        translates=multilingual,
        logprobs=True,
    )


def saying(tokenizer: WhisperTokenizer, text: str, from_s: float, to_s: float) -> list[int]:
    begin = tokenizer.timestamp_begin
    return [begin + round(from_s / 0.02), *tokenizer.encode(text), begin + round(to_s / 0.02)]


def answer(
    tokenizer: WhisperTokenizer,
    ask: Ask,
    tokens: list[int],
    *,
    logprob: float = -0.2,
    no_speech: float = 0.01,
    end: float = -10.0,
) -> Answer:
    """As vLLM would tell it: the logprobs of the tokens, and those of no-speech and the end."""
    token = no_speech_token(tokenizer)
    assert token is not None
    tokens = [*tokens, tokenizer.eot]
    told = {token: math.log(no_speech), tokenizer.eot: end}
    prompt = ask.prompt["decoder_prompt"]["prompt_token_ids"]
    return Answer(
        tokens,
        "",
        [told | {each: logprob} for each in tokens],
        [told if before == tokenizer.sot else {} for before in [-1, *prompt[:-1]]]
        if ask.prompt_logprobs
        else (),
    )


def spans(segments: Sequence[Segment]) -> list[tuple[str, float, float]]:
    return [(segment.text, segment.start_s, segment.end_s) for segment in segments]


@pytest.fixture
def quiet_noise() -> Samples:
    return np.full(10 * SAMPLE_RATE, 0.01, np.float32)


async def test_a_pass_begins_with_our_prompt_and_becomes_segments(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    said = [*saying(multilingual, " One,", 0.0, 2.0), *saying(multilingual, " two.", 2.0, 4.5)]
    runtime = FakeRuntime(lambda ask: answer(multilingual, ask, said))
    engine = whisper(multilingual, runtime)
    request = make_request("r", quiet_noise, language="de", task="translate", prompt="Before.", logprobs=True)
    segments = await heard(engine, request)
    assert [(each.text, each.start_s, each.end_s) for each in segments] == [
        (" One,", 0, 2),
        (" two.", 2, 4.5),
    ]
    assert b"".join(token.text for each in segments for token in each.logprobs) == b" One, two."
    assert segments[0].no_speech_prob == pytest.approx(0.01)
    (engine_id, ask), names = runtime.asked[0], ("<|startoftranscript|>", "<|de|>", "<|translate|>")
    prompt = ask.prompt["decoder_prompt"]["prompt_token_ids"]
    assert engine_id == "r"
    assert prompt[0] == multilingual.sot_prev
    assert prompt[-3:] == [multilingual.special(name) for name in names]
    assert ask.timestamps
    assert ask.temperature == 0
    await engine.close()


async def test_a_model_for_english_is_asked_without_language_and_hears_silence_in_its_first_step(
    english: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    runtime = FakeRuntime(
        lambda ask: answer(english, ask, saying(english, " Thanks.", 0, 1), logprob=-1.5, no_speech=0.9)
    )
    engine = whisper(english, runtime, multilingual=False)
    assert await heard(engine, make_request("r", quiet_noise, language="en")) == []
    assert runtime.asked[0][1].prompt["decoder_prompt"]["prompt_token_ids"] == [english.sot]
    assert (await engine.detect_language(make_request("r-lang", quiet_noise))).language == "en"
    assert len(runtime.asked) == 1
    await engine.close()


async def test_a_doubtful_window_is_heard_again_and_its_features_are_computed_once(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    said = saying(multilingual, " Mumble.", 0, 5)

    def script(ask: Ask) -> Answer:
        return answer(multilingual, ask, said, logprob=-0.3 if ask.temperature >= 0.4 else -2)

    runtime = FakeRuntime(script)
    engine = whisper(multilingual, runtime)
    request = make_request("r", quiet_noise, language="en")
    (segment,) = await heard(engine, request)
    assert segment.temperature == 0.4
    assert request.report.fallbacks == ["unsure", "unsure"]
    assert [ask.temperature for _, ask in runtime.asked] == [0, 0.2, 0.4]
    assert len(runtime.rendered) == 1
    await engine.close()


async def test_the_rest_of_a_window_that_stops_early_is_heard_again(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    begin = multilingual.timestamp_begin
    first = [*saying(multilingual, " One,", 0, 4), begin + 200]
    answers = iter([first, saying(multilingual, " two.", 0, 6)])
    runtime = FakeRuntime(lambda ask: answer(multilingual, ask, next(answers)))
    engine = whisper(multilingual, runtime)
    segments = await heard(engine, make_request("r", quiet_noise, language="en"))
    assert spans(segments) == [(" One,", 0, 4), (" two.", 4, 10)]
    lengths = [len(prompt["encoder_prompt"]["multi_modal_data"]["audio"][0]) for prompt in runtime.rendered]
    assert lengths == [10 * SAMPLE_RATE, 6 * SAMPLE_RATE]
    await engine.close()


@pytest.mark.parametrize(("end", "said"), [(-0.1, [" One,"]), (-5.0, [" One,", " two."])])
async def test_what_stands_in_place_of_a_likelier_end_is_left_out_where_nobody_speaks(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples, end: float, said: list[str]
) -> None:
    written = [*saying(multilingual, " One,", 0, 4), *saying(multilingual, " two.", 4, 6)]
    runtime = FakeRuntime(lambda ask: answer(multilingual, ask, written, end=end))
    engine = whisper(multilingual, runtime)

    async def nobody(from_s: float) -> float:
        return 0.0

    request = replace(make_request("r", quiet_noise, language="en"), speech_s=nobody)
    assert [segment.text for segment in await heard(engine, request)] == said
    (_, ask) = runtime.asked[0]
    assert ask.words_before == multilingual.timestamp(9.5)
    assert len(runtime.asked) == 1
    await engine.close()


async def test_words_that_nobody_timed_are_spread_over_their_segment(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    runtime = FakeRuntime(lambda ask: answer(multilingual, ask, saying(multilingual, " aa bb aa bb", 2, 6)))
    engine = whisper(multilingual, runtime)
    (segment,) = await heard(engine, make_request("r", quiet_noise, language="en", words=True))
    assert [word.text for word in segment.words] == [" aa", " bb", " aa", " bb"]
    assert [word.start_s for word in segment.words] == pytest.approx([2, 3, 4, 5], abs=0.3)
    assert not engine.info.words
    await engine.close()


async def test_the_probe_weighs_the_candidates(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    likely = {multilingual.special("<|de|>"): math.log(0.3), multilingual.special("<|nl|>"): math.log(0.1)}
    runtime = FakeRuntime(
        lambda ask: Answer([0], "", [{token: likely.get(token, -20.0) for token in ask.logprobs_of}])
    )
    engine = whisper(multilingual, runtime)
    guess = await engine.detect_language(make_request("r-lang", quiet_noise, languages=("de", "nl")))
    assert (guess.language, round(guess.probability, 3)) == ("de", 0.75)
    guess = await engine.detect_language(make_request("r-lang", quiet_noise))
    assert (guess.language, round(guess.probability, 2)) == ("de", 0.75)
    assert all(ask.max_tokens == 1 and not ask.timestamps for _, ask in runtime.asked)
    await engine.close()


@pytest.fixture
async def held(multilingual: WhisperTokenizer) -> AsyncIterator[tuple[VllmEngine, FakeRuntime]]:
    """An engine whose passes do not end by themselves."""
    runtime = FakeRuntime(lambda ask: answer(multilingual, ask, saying(multilingual, " One.", 0, 1)))
    runtime.gate.clear()
    engine = whisper(multilingual, runtime)
    yield engine, runtime
    await engine.close()


async def test_an_abort_reaches_vllm_and_frees_the_slot(
    held: tuple[VllmEngine, FakeRuntime], make_request: Requests, quiet_noise: Samples
) -> None:
    engine, runtime = held
    requests = [make_request(f"r-{number}", quiet_noise, language="en") for number in range(3)]
    tasks = [asyncio.create_task(heard(engine, request)) for request in requests]
    await until(lambda: engine.health().running == len(runtime.asked) == 2)
    await engine.abort(["r-0", "r-1", "r-2", "never-heard-of"])
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, EngineAborted) for result in results)
    await until(lambda: engine.health().running == engine.health().queued == 0)
    assert runtime.aborted[:3] == ["r-0", "r-1", "r-2"]
    assert runtime.cancelled == ["r-0", "r-1"]


async def test_a_clip_finds_a_row_beside_a_long_file_and_goes_first_in_it(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    runtime = FakeRuntime(lambda ask: answer(multilingual, ask, saying(multilingual, " One.", 0, 1)))
    runtime.slots, runtime.reserved = 3, 1
    runtime.gate.clear()
    engine = whisper(multilingual, runtime)
    assert engine.info.slots == 2
    options = DecodeOptions(language="en")
    chunks = [EngineRequest(f"long-{n}", "long", Chunk(n, 0, quiet_noise), options) for n in range(1, 5)]
    tasks = [asyncio.create_task(heard(engine, chunk)) for chunk in chunks]
    await until(lambda: len(runtime.asked) == 2)
    tasks.append(asyncio.create_task(heard(engine, make_request("clip", quiet_noise, language="en"))))
    await until(lambda: len(runtime.asked) == 3)
    assert runtime.asked[-1][0] == "clip"
    runtime.gate.set()
    await asyncio.gather(*tasks)
    assert runtime.urgent == ["clip"]
    await engine.close()


async def test_a_cancelled_caller_cancels_the_pass(
    held: tuple[VllmEngine, FakeRuntime], make_request: Requests, quiet_noise: Samples
) -> None:
    engine, runtime = held
    task = asyncio.create_task(heard(engine, make_request("r", quiet_noise, language="en")))
    await until(lambda: len(runtime.asked) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: engine.health().running == 0)
    assert runtime.cancelled == ["r"]


async def test_a_dead_core_is_seen_in_the_health_and_ends_everybody(
    held: tuple[VllmEngine, FakeRuntime], make_request: Requests, quiet_noise: Samples
) -> None:
    engine, runtime = held
    requests = [make_request(f"r-{number}", quiet_noise, language="en") for number in range(3)]
    tasks = [asyncio.create_task(heard(engine, request)) for request in requests]
    await until(lambda: len(runtime.asked) == 2)
    runtime.failure = "the core has ended"
    runtime.die()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, EngineError) for result in results)
    assert not engine.health().alive
    assert engine.health().reason == "the core has ended"
    with pytest.raises(EngineError, match="core has ended"):
        await heard(engine, make_request("late", quiet_noise, language="en"))


async def test_a_core_that_dies_while_nobody_asks_is_seen_in_the_health(
    multilingual: WhisperTokenizer,
) -> None:
    runtime = FakeRuntime(lambda ask: Answer([], "", []))
    engine = whisper(multilingual, runtime)
    runtime.failure = "the core has ended"
    assert not engine.health().alive
    await engine.close()


async def test_a_pass_that_vllm_refuses_fails_its_request_alone(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    def refuse(ask: Ask) -> Answer:
        raise EngineError("vLLM: no")

    engine = whisper(multilingual, FakeRuntime(refuse))
    with pytest.raises(EngineError, match="vLLM: no"):
        await heard(engine, make_request("r", quiet_noise, language="en"))
    assert engine.health().alive
    await engine.close()


async def test_a_pass_that_vllm_gives_up_is_an_error(
    multilingual: WhisperTokenizer, make_request: Requests, quiet_noise: Samples
) -> None:
    engine = whisper(multilingual, FakeRuntime(lambda ask: Answer([], "", [], aborted=True)))
    with pytest.raises(EngineError, match="gave up r"):
        await heard(engine, make_request("r", quiet_noise, language="en"))
    await engine.close()


def speaking(runtime: FakeRuntime) -> VllmEngine:
    return VllmEngine(
        "fake", runtime, lambda asked: SpeechEar(runtime, asked), translates=False, logprobs=False
    )


async def test_another_model_gives_one_segment_for_a_chunk(
    make_request: Requests, quiet_noise: Samples
) -> None:
    runtime = FakeRuntime(
        lambda ask: Answer([7, 8], "<text>One two.", [{7: -0.1}, {8: -0.3}]), languages=("de", "en")
    )
    engine = speaking(runtime)
    (segment,) = await heard(engine, make_request("r", quiet_noise, language="de", prompt="Before."))
    assert (segment.text, segment.start_s, segment.end_s) == ("One two.", 0, 10)
    assert segment.avg_logprob == pytest.approx(-0.2)
    assert runtime.rendered == [{"language": "de", "prompt": "Before."}]
    assert engine.info.languages == ("de", "en")
    await engine.close()


async def test_a_model_that_does_not_tell_the_language_is_not_told_one(quiet_noise: Samples) -> None:
    runtime = FakeRuntime(lambda ask: Answer([7], " ", [{7: -0.1}]), languages=("de", "en"))
    engine = speaking(runtime)
    chunk = Chunk(0, 0, quiet_noise, last=True)
    guess = await engine.detect_language(EngineRequest("r-lang", "r", chunk, DecodeOptions()))
    assert guess.language == "und"
    assert await heard(engine, EngineRequest("r", "r", chunk, DecodeOptions(language=guess.language))) == []
    assert runtime.rendered[0]["language"] is None
    await engine.close()


async def test_what_another_model_cannot_do_is_the_callers_to_mend(
    make_request: Requests, quiet_noise: Samples
) -> None:
    engine = speaking(FakeRuntime(lambda ask: Answer([], "", []), languages=("en",)))
    with pytest.raises(InvalidValue, match="no keywords"):
        await heard(engine, make_request("r", quiet_noise, language="en", keywords=("Stentor",)))
    assert engine.health().alive
    await engine.close()


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ([], Room(100, 100, 100, 100 + MAX_INITIAL_STEPS + 1)),
        ([100], Room(0, 100, 200, 200)),  # after the first timestamp comes text, or the end
        ([100, 5], Room(0, 100, 101, 200)),  # then text, or a later timestamp
        ([100, 5, 120], Room(90, 100, 120, 200)),  # a segment ends: its pair, or the end
        ([100, 5, 120, 120], Room(0, 90, 200, 200)),  # another begins, early enough to need words
        ([100, 5, 120, 120, 6], Room(0, 100, 121, 200)),
        ([100, 5, 120, 120, 6, 150, 150], Room(0, 100, 200, 200)),
    ],
)
def test_the_grammar_of_timestamps(written: list[int], left: Room) -> None:
    assert room(written, eot=90, begin=100, end=200, words_before=150) == left


def test_the_operators_arguments_go_before_ours() -> None:
    known = ("model", "dtype", "max_num_seqs", "additional_config")
    ours = {"model": "m", "dtype": "auto", "additional_config": {"ours": 1}}
    joined = engine_arguments({"dtype": "float32", "additional_config": {"theirs": 2}}, ours, known=known)
    assert joined == {"model": "m", "dtype": "float32", "additional_config": {"ours": 1, "theirs": 2}}
    with pytest.raises(SetupError, match="no engine argument dtypo, max_seqs"):
        engine_arguments({"max_seqs": 1, "dtypo": 1}, ours, known=known)
    with pytest.raises(SetupError, match="sets model itself"):
        engine_arguments({"model": "other"}, ours, known=known)


def test_a_model_in_the_wrong_form_is_told_how_to_convert(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(ModelError, match="stentor convert tiny DIRECTORY"):
        load_vllm(ModelFiles("tiny", tmp_path, ""), max_batch=1, arguments={})


def test_beams_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="BEAM_SIZE"):
        load_engine(
            ModelFiles("tiny", tmp_path, ""), name="vllm", slots=1, device="cpu", max_batch=1, beam_size=5
        )


def test_without_vllm_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"stentor\[vllm\]"):
        load_vllm(ModelFiles("qwen", tmp_path, ""), max_batch=1, arguments={})
