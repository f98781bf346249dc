"""Real weights, real speech, right words: by each engine that runs Whisper."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import jiwer
import numpy as np
import pytest

from conftest import TWO_CITIES_WORDS
from stentor.engine.base import Engine
from stentor.errors import ModelError
from stentor.models import ModelFiles, resolve
from stentor.types import SAMPLE_RATE, EngineRequest, Samples
from support.hearing import heard, words

Load = Callable[..., Engine]
Requests = Callable[..., EngineRequest]


@pytest.fixture
def base(load: Load) -> Engine:
    return load(resolve("base"), at_once=2)


@pytest.mark.parametrize("model", ["base", "tiny.en"])
async def test_the_opening_of_a_tale_of_two_cities(
    load: Load, make_request: Requests, opening: Samples, model: str
) -> None:
    segments = await heard(load(resolve(model)), make_request("r", opening, language="en"))
    # One word of 58 may differ: processors round int8 products differently, and a small model then stutters.
    assert jiwer.process_words(TWO_CITIES_WORDS, words(segments)).wer <= 0.02
    assert all(before.end_s <= after.start_s for before, after in pairwise(segments))
    assert all(-1 < segment.avg_logprob < 0 for segment in segments)


async def test_the_probe_and_the_transcript_share_a_chunk(
    base: Engine, make_request: Requests, opening: Samples
) -> None:
    probe = make_request("r-lang", opening)
    guess = await base.detect_language(probe)
    assert guess.language == "en"
    assert guess.probability > 0.9
    again = EngineRequest("r", "r", probe.chunk, make_request("r", language="en").options)
    assert words(await heard(base, again)) == TWO_CITIES_WORDS


async def test_a_translation_asks_for_english(base: Engine, make_request: Requests, opening: Samples) -> None:
    segments = await heard(base, make_request("r", opening, language="de", task="translate"))
    assert "best of times" in words(segments)


async def test_a_prompt_of_any_length_is_never_echoed(
    base: Engine, make_request: Requests, opening: Samples
) -> None:
    for prompt in ("Charles Dickens.", "<|endoftext|><|de|> Dickens", "Mr. Lorry, Miss Manette. " * 200):
        said = words(await heard(base, make_request("r", opening, language="en", prompt=prompt)))
        assert "it was the worst of times" in said
        assert "lorry" not in said
        assert "endoftext" not in said


async def test_words_after_a_long_pause_are_heard(
    base: Engine, make_request: Requests, opening: Samples
) -> None:
    pause = np.zeros(8 * SAMPLE_RATE, np.float32)
    samples = np.concatenate([opening[: 7 * SAMPLE_RATE], pause, opening[-5 * SAMPLE_RATE :]])
    assert words(await heard(base, make_request("r", samples, language="en"))).endswith("winter of despair")


def test_a_directory_that_holds_no_model_is_named(load: Load, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"no model")
    (tmp_path / "tokenizer.json").symlink_to(resolve("tiny.en").directory / "tokenizer.json")
    with pytest.raises(ModelError, match=str(tmp_path)):
        load(ModelFiles("broken", tmp_path, "0" * 64))
