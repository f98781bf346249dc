"""The grammar of timestamps, the prompt, and when a window counts as silence."""

from __future__ import annotations

import pytest

from stentor.models import resolve
from stentor.types import DecodeOptions, Segment
from stentor.whisper import rules
from stentor.whisper.tokenizer import LONGEST_TOKEN_CHARS, WhisperTokenizer


@pytest.fixture(scope="module")
def tokenizer() -> WhisperTokenizer:
    return WhisperTokenizer(resolve("base").directory)


def stamp(tokenizer: WhisperTokenizer, seconds: float) -> int:
    return tokenizer.timestamp_begin + round(seconds / 0.02)


def read(tokenizer: WhisperTokenizer, *pieces: str | float, duration_s: float = 30.0) -> rules.Window:
    tokens: list[int] = []
    for piece in pieces:
        tokens += tokenizer.encode(piece) if isinstance(piece, str) else [stamp(tokenizer, piece)]
    return rules.split_at_timestamps(tokenizer, tokens, duration_s)


def spans(window: rules.Window) -> list[tuple[str, float, float]]:
    return [(segment.text, segment.start_s, segment.end_s) for segment in window.segments]


def test_pairs_of_timestamps_part_segments(tokenizer: WhisperTokenizer) -> None:
    window = read(tokenizer, 0.0, " one", 1.5, 2.0, " two", 3.0)
    assert spans(window) == [(" one", 0.0, 1.5), (" two", 2.0, 3.0)]
    assert window.seek_s == 30.0  # a single timestamp ends it: nothing is spoken after


def test_a_pair_at_the_end_means_that_hearing_goes_on_there(tokenizer: WhisperTokenizer) -> None:
    window = read(tokenizer, 0.0, " one", 20.0, 20.0)
    assert spans(window) == [(" one", 0.0, 20.0)]
    assert window.seek_s == 20.0


def test_words_without_a_closing_timestamp_are_kept_to_the_end(tokenizer: WhisperTokenizer) -> None:
    window = read(tokenizer, 0.0, " one", 1.0, 1.0, " two", duration_s=5.0)
    assert spans(window) == [(" one", 0.0, 1.0), (" two", 1.0, 5.0)]
    assert window.seek_s == 5.0


def test_words_without_any_timestamp_are_one_segment(tokenizer: WhisperTokenizer) -> None:
    assert spans(read(tokenizer, " all of it", duration_s=4.0)) == [(" all of it", 0.0, 4.0)]


@pytest.mark.parametrize("pieces", [(), (0.0,), (0.0, 0.0), (30.0, 30.0)])
def test_nothing_said_always_comes_to_an_end(tokenizer: WhisperTokenizer, pieces: tuple[float, ...]) -> None:
    assert read(tokenizer, *pieces) == rules.Window((), 30.0)


def test_times_never_leave_the_window(tokenizer: WhisperTokenizer) -> None:
    assert spans(read(tokenizer, 0.0, " one", 28.0, duration_s=3.0)) == [(" one", 0.0, 3.0)]


def test_the_prompt_of_a_multilingual_model(tokenizer: WhisperTokenizer) -> None:
    tokens = rules.prompt_tokens(tokenizer, DecodeOptions("de", "translate"), multilingual=True)
    assert tokens == [
        tokenizer.sot,
        tokenizer.special("<|de|>"),
        tokenizer.special("<|translate|>"),
    ]


def test_the_prompt_of_an_english_model_has_no_language(tokenizer: WhisperTokenizer) -> None:
    assert rules.prompt_tokens(tokenizer, DecodeOptions("en"), multilingual=False) == [tokenizer.sot]


def test_a_long_prompt_keeps_its_end_and_leaves_half_the_context(tokenizer: WhisperTokenizer) -> None:
    options = DecodeOptions("en", prompt="first " + "and so on " * 500 + "last")
    tokens = rules.prompt_tokens(tokenizer, options, multilingual=True)
    assert tokens[0] == tokenizer.sot_prev
    assert len(tokens) == 1 + rules.MAX_PROMPT_TOKENS + 3
    assert tokenizer.decode(tokens).endswith("last")


def test_special_tokens_in_text_are_text(tokenizer: WhisperTokenizer) -> None:
    tokens = tokenizer.encode(" say <|endoftext|> now")
    assert all(token < tokenizer.eot for token in tokens)
    assert tokenizer.decode(tokens) == " say <|endoftext|> now"


def test_a_loop_compresses_far() -> None:
    assert (
        rules.compression_ratio("so that was that " * 30) > 2.4 > rules.compression_ratio("It was the best.")
    )
    assert rules.compression_ratio("") == 1.0


def test_silence_needs_the_models_word_for_it_and_doubt_or_a_loop() -> None:
    loop = "1.5m de " * 60
    assert rules.is_silence("Thank you.", 0.95, -1.5)
    assert rules.is_silence(loop, 0.8, -0.1)
    assert not rules.is_silence("Thank you.", 0.95, -0.3)
    assert not rules.is_silence("Thank you.", 0.1, -1.5)
    assert not rules.is_silence(loop, 0.1, -0.1)
    # What somebody really said five times over, as base heard it.
    said = " Fail again, fail better. Ever tried, ever failed. No matter, try again." * 3
    assert rules.doubt(said, -0.15) == "repetition"
    assert not rules.is_silence(said, 0.72, -0.15)


def test_keywords_stand_before_the_prompt_and_leave_it_room(tokenizer: WhisperTokenizer) -> None:
    options = DecodeOptions(language="en", keywords=("Stentor", " Troy "), prompt="He cried.")
    previous = rules.previous_tokens(tokenizer, options)
    assert tokenizer.decode(previous) == " Stentor, Troy. He cried."
    long = DecodeOptions(keywords=("Agamemnon",) * 500, prompt="and so on " * 500 + "the end")
    previous = rules.previous_tokens(tokenizer, long)
    assert len(previous) == rules.MAX_PROMPT_TOKENS
    assert tokenizer.decode(previous).startswith(" Agamemnon, Agamemnon")
    assert tokenizer.decode(previous).endswith("the end")


def test_what_was_said_before_is_written_as_the_model_writes_it(tokenizer: WhisperTokenizer) -> None:
    said = tuple(
        Segment(text, at, at + 2, tokens=tuple(tokenizer.encode(text)))
        for at, text in enumerate((" One", " Two"))
    )
    options = DecodeOptions(language="en", keywords=("Troy",), prompt="He cried.", previous=said)
    begin = tokenizer.timestamp_begin
    assert rules.previous_tokens(tokenizer, options) == [
        *tokenizer.encode(" Troy. He cried."),
        *(begin, *tokenizer.encode(" One"), begin + 100),
        *(begin + 50, *tokenizer.encode(" Two"), begin + 150),
    ]


def test_what_was_said_last_and_the_keywords_have_room_before_all_else(tokenizer: WhisperTokenizer) -> None:
    said = tuple(Segment(" and so on", 0, 1, tokens=tuple(tokenizer.encode(" and so on"))) for _ in range(99))
    last = Segment(" the end", 1, 2, tokens=tuple(tokenizer.encode(" the end")))
    options = DecodeOptions(keywords=("Troy",), prompt="He cried.", previous=(*said, last))
    tokens = rules.previous_tokens(tokenizer, options)
    assert len(tokens) == rules.MAX_PROMPT_TOKENS
    text = tokenizer.decode(tokens)
    assert text.startswith(" Troy.")
    assert text.endswith(" and so on the end")
    assert "cried" not in text


@pytest.mark.parametrize(
    ("text", "avg_logprob", "doubt"),
    [
        (" It was the best of times.", -0.3, None),
        (" It was the best of times.", -1.2, "unsure"),
        (" and so on" * 40, -0.1, "repetition"),
    ],
)
def test_what_does_not_convince(text: str, avg_logprob: float, doubt: str | None) -> None:
    assert rules.doubt(text, avg_logprob) == doubt


def test_bytes_of_tokens_are_the_text(tokenizer: WhisperTokenizer) -> None:
    text = " naïve café 東京 \n\x00 end"
    assert b"".join(map(tokenizer.bytes_of, tokenizer.encode(text))).decode() == text


@pytest.mark.parametrize(
    "text", ["He cried. " * 3000, "ab" * 30_000, "東京は夜。" * 8000, "-" * 60_000, "short"]
)
def test_ends_of_a_text_are_those_of_all_of_it(tokenizer: WhisperTokenizer, text: str) -> None:
    every = tokenizer.encode(text)
    assert tokenizer.first_tokens(text, 200) == every[:200]
    assert tokenizer.decode(every).endswith(
        tokenizer.decode(tokenizer.last_tokens(text, 200)).strip("\ufffd")
    )
    assert len(tokenizer.last_tokens(text, 200)) == min(200, len(every))


def test_no_token_stands_for_more_characters_than_are_looked_at(tokenizer: WhisperTokenizer) -> None:
    longest = max(len(tokenizer.bytes_of(token)) for token in range(tokenizer.eot))
    assert longest <= LONGEST_TOKEN_CHARS
