"""Whisper's rules around the network: its prompt, its timestamp grammar, and when not to believe it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stentor.types import DecodeOptions, Segment, TokenLogprob
from stentor.whisper.tokenizer import WhisperTokenizer

MAX_CONTEXT_TOKENS = 448
"""The decoder's positions. Source: openai/whisper model.py, n_text_ctx."""

MAX_PROMPT_TOKENS = MAX_CONTEXT_TOKENS // 2 - 1
"""Tokens of previous text before the start. Source: openai/whisper decoding.py, _get_initial_tokens."""

NO_SPEECH_PROB = 0.6
NO_SPEECH_LOGPROB = -1.0
"""A window is silence when both agree. Source: openai/whisper transcribe.py, no_speech_threshold and
logprob_threshold. Either alone misleads: clean speech has been seen at a no-speech probability of 0.58."""

DOUBTFUL_LOGPROB = -1.0
"""A window whose mean log-probability is lower did not convince. Source: openai/whisper transcribe.py,
logprob_threshold."""

RISING_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""At which a window is heard until it convinces. Source: openai/whisper transcribe.py, temperature."""

REPETITION_COMPRESSION = 2.4
"""Text that shrinks further repeats itself. Source: openai/whisper, compression_ratio_threshold."""

LOOP_COMPRESSION = 4.0
"""Text that shrinks so far is an endless loop. Over noise, hum, tones and melodies in four languages base's
were between 4.1 and 45, at no-speech probabilities from 0.64 and log-probabilities up to -0.05. A text that
somebody says three times in a window is heard with 3.1, 0.72 and -0.15."""

UNSURE_TEMPERATURE = 0.5
"""What was heard at a higher one is no ground to go on from. Source: openai/whisper transcribe.py,
prompt_reset_since."""

SUSPECT_NO_SPEECH_PROB = 0.2
"""From here on, or where the text is doubtful, a voice activity detector is asked as well. It costs 30 ms, as
much as a tenth of a window."""

CLICK_S = 0.2
"""Where a detector hears less speech, whatever the model wrote is a dream: in 30 s of noise, hum, ringing or
melodies it hears none, in a clipped word 0.3 s."""

SPEECH_S = 1.0
"""Where it hears so much, somebody speaks, also where the model says that nobody does."""


@dataclass(frozen=True, slots=True)
class Window:
    """What one pass of the decoder said about the audio from `offset_s` of its chunk on.

    `seek_s` is how far into the window its words are final; past it the window is to be heard again.
    """

    segments: tuple[Segment, ...]
    seek_s: float

    @property
    def tokens(self) -> list[int]:
        """The text tokens of all segments."""
        return [token for segment in self.segments for token in segment.tokens]


def prompt_tokens(tokenizer: WhisperTokenizer, options: DecodeOptions, *, multilingual: bool) -> list[int]:
    """The tokens before the transcript: previous text, start, language, task."""
    previous = previous_tokens(tokenizer, options)
    before = [tokenizer.sot_prev, *previous] if previous else []
    return [*before, *start_tokens(tokenizer, options, multilingual=multilingual)]


def start_tokens(tokenizer: WhisperTokenizer, options: DecodeOptions, *, multilingual: bool) -> list[int]:
    """The prompt without previous text: start, language, task.

    Models for English alone have the language tokens in their vocabulary but were trained without: given
    them, they answer with nothing.
    """
    if not multilingual:
        return [tokenizer.sot]
    names = (f"<|{options.language}|>", f"<|{options.task}|>")
    return [tokenizer.sot, *map(tokenizer.special, names)]


def previous_tokens(tokenizer: WhisperTokenizer, options: DecodeOptions) -> list[int]:
    """What the model shall believe to have written before: keywords as a list, the prompt, what was said.

    Whisper has no other ear for any of them. When there is too much, the text keeps its end, as with OpenAI,
    and the keywords their beginning, up to half of the room.
    """
    keywords = ", ".join(keyword.strip() for keyword in options.keywords if keyword.strip())
    prompt = (options.prompt or "").strip()
    wanted = tokenizer.first_tokens(f" {keywords}.", MAX_PROMPT_TOKENS // 2) if keywords else []
    room = MAX_PROMPT_TOKENS - len(wanted)
    text = tokenizer.last_tokens(f" {prompt}", room) if prompt else []
    said = [token for segment in options.previous for token in timed_tokens(tokenizer, segment)]
    return [*wanted, *[*text, *said][-room:]]


def timed_tokens(tokenizer: WhisperTokenizer, segment: Segment) -> list[int]:
    """A segment as the model writes it: its text between its two times.

    Without the times the model takes after what it reads and gives up writing any; it then leaves out whole
    sentences as well (tiny.en on long recordings: 11.5 % instead of 9.3 % of the words wrong).
    """
    stamp = tokenizer.timestamp
    return [stamp(segment.start_s), *segment.tokens, stamp(segment.end_s)]


def doubt(text: str, avg_logprob: float) -> str | None:
    """Why a window should be heard again at a higher temperature, in one word; None if it convinces.

    Source: openai/whisper transcribe.py, decode_with_fallback.
    """
    if compression_ratio(text) > REPETITION_COMPRESSION:
        return "repetition"
    return "unsure" if avg_logprob < DOUBTFUL_LOGPROB else None


def is_unsure(segments: Iterable[Segment]) -> bool:
    """Whether what was heard is no ground for what follows to go on from."""
    return any(segment.temperature > UNSURE_TEMPERATURE for segment in segments)


def is_loop(text: str) -> bool:
    """Whether the model has got stuck."""
    return compression_ratio(text) > LOOP_COMPRESSION


def compression_ratio(text: str) -> float:
    """How far zlib shrinks the text; a loop shrinks far. Source: openai/whisper utils.py."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 1.0


def is_silence(text: str, no_speech_prob: float, avg_logprob: float) -> bool:
    """Whether a window's likeliest text is to be thrown away as the model's dream over silence or noise.

    The model must say itself that nobody speaks, and either doubt its words or be stuck in a loop.
    """
    return no_speech_prob > NO_SPEECH_PROB and (avg_logprob < NO_SPEECH_LOGPROB or is_loop(text))


def split_at_timestamps(
    tokenizer: WhisperTokenizer,
    tokens: Sequence[int],
    duration_s: float,
    *,
    offset_s: float = 0.0,
    temperature: float = 0.0,
    avg_logprob: float = 0.0,
    no_speech_prob: float = 0.0,
    logprobs: Sequence[float] = (),
) -> Window:
    """Read segments out of a window's tokens.

    The grammar: `<|t0|> text <|t1|> <|t1|> text <|t2|>`. Two timestamps side by side end a segment and
    begin the next. A window whose last tokens are such a pair was cut inside a segment that the model did
    not want to begin: its words up to there are final, and hearing goes on from there. A single timestamp
    at the end says that nothing is spoken after it. Source: openai/whisper transcribe.py.

    Args:
        tokenizer: The model's.
        tokens: What the decoder produced, without the prompt, with or without the end token.
        duration_s: How much audio the window holds.
        offset_s: Where in the chunk the window begins; added to all times.
        temperature: Recorded in the segments, as are the next two.
        avg_logprob: Mean log-probability of the window's tokens.
        no_speech_prob: The model's.
        logprobs: One for each of `tokens`, or none.
    """
    begin = tokenizer.timestamp_begin
    places = [place for place, token in enumerate(tokens) if token < tokenizer.eot or token >= begin]
    spoken = [tokens[place] for place in places]

    def segment(first: int, end: int, start_s: float, end_s: float) -> Segment:
        piece = spoken[first:end]
        text = tokenizer.decode(piece)
        return Segment(
            text=text,
            start_s=offset_s + min(start_s, duration_s),
            end_s=offset_s + min(max(end_s, start_s), duration_s),
            tokens=tuple(piece),
            temperature=temperature,
            avg_logprob=avg_logprob,
            compression_ratio=compression_ratio(text.strip()),
            no_speech_prob=no_speech_prob,
            logprobs=tuple(
                TokenLogprob(tokenizer.bytes_of(spoken[at]), logprobs[places[at]])
                for at in range(first, end)
                if logprobs
            ),
        )

    segments: list[Segment] = []
    start_s, first = 0.0, 0
    last_stamp_s: float | None = None
    for at, token in enumerate(spoken):
        if token < begin:
            continue
        last_stamp_s = tokenizer.seconds(token)
        if first < at:
            segments.append(segment(first, at, start_s, last_stamp_s))
        start_s, first = last_stamp_s, at + 1
    if first < len(spoken):
        segments.append(segment(first, len(spoken), start_s, duration_s))
        return Window(tuple(segments), duration_s)
    ends_in_pair = len(spoken) >= 2 and spoken[-1] >= begin and spoken[-2] >= begin
    if ends_in_pair and last_stamp_s is not None and 0 < last_stamp_s < duration_s:
        return Window(tuple(segments), last_stamp_s)
    return Window(tuple(segments), duration_s)
