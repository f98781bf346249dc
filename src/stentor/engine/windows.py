"""How a chunk is heard: window after window, until its end. Every Whisper engine does it so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stentor.types import EngineOutput, EngineRequest
from stentor.whisper import rules
from stentor.whisper.alignment import Alignment
from stentor.whisper.pauses import pauses
from stentor.whisper.tokenizer import WhisperTokenizer
from stentor.whisper.words import with_words

MIN_WINDOW_S = 0.5
"""A rest shorter than this is not heard again: no word fits in, and Whisper dreams over scraps."""

LEAST_REST_S = 10.0
"""What is heard again is so long at least, where it can be. Most chunks end within a sentence, and the model
stops before it: 1 to 8 s are left. Heard alone they cost a point of the words of long English recordings
(docs/decisions/0023-one-window.md)."""

LEAST_SEEK_S = 1.0
"""A window is final so far at least: each costs a pass of the encoder."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One pass of the decoder over a window.

    `logprobs` has one entry for each token, or none where the engine did not keep them. `went_on` says which
    tokens begin what the model would have left for another window, had it been free to end there.
    """

    tokens: Sequence[int]
    temperature: float
    avg_logprob: float
    no_speech_prob: float
    logprobs: Sequence[float] = ()
    went_on: Sequence[int] = ()

    def before(self, place: int) -> Decoded:
        """The pass as if it had ended before that token."""
        # The end counts as a token. Source: openai/whisper decoding.py, avg_logprobs.
        tokens, logprobs = self.tokens[:place], self.logprobs[:place]
        avg_logprob = sum(logprobs) / (place + 1)
        return replace(self, tokens=tokens, logprobs=logprobs, avg_logprob=avg_logprob, went_on=())


def words_before(tokenizer: WhisperTokenizer, request: EngineRequest, offset_s: float) -> int:
    """The time before which a segment that begins has words: behind it nothing is left for another window.

    Args:
        tokenizer: The model's.
        request: Whose chunk it is.
        offset_s: Where in the chunk the window begins.

    Returns:
        A timestamp token, counted from the window's start.
    """
    return tokenizer.timestamp(max(0.0, request.chunk.duration_s - offset_s - MIN_WINDOW_S))


async def hear(
    tokenizer: WhisperTokenizer,
    request: EngineRequest,
    decode: Callable[[float, float], Awaitable[Decoded]],
    align: Callable[[float, rules.Window], Awaitable[Alignment]],
) -> AsyncGenerator[EngineOutput, None]:
    """Hear a chunk: it is one window, unless the model stops before its end; then the rest is heard again.

    That happens where an engine cannot have the end barred (`words_before`). The rest is then heard together
    with the sentences before it.

    Args:
        tokenizer: The model's.
        request: Its `report` is told of each fallback.
        decode: One pass of the decoder over the window that begins at these seconds of the chunk, at a
            temperature. An engine does the encoder's work for a window once.
        align: When the text tokens of the window that begins there are spoken; asked for where words are.
    """
    options, duration_s = request.options, request.chunk.duration_s
    offset_s = spoken_to_s = 0.0
    quiet = pauses(request.chunk) if options.words else ()
    while True:
        decoded = await convincing(tokenizer, request, partial(decode, offset_s), offset_s)
        rest_s = duration_s - offset_s
        window = rules.Window((), rest_s)
        if decoded is not None:
            window = read_window(tokenizer, decoded, rest_s, offset_s=offset_s, logprobs=options.logprobs)
            window = with_longer_rest(window, offset_s, duration_s)
        segments = window.segments
        if options.words and segments:
            alignment = await align(offset_s, window)
            end_s = max(spoken_to_s, offset_s + window.seek_s)
            segments = with_words(
                tokenizer,
                segments,
                alignment,
                options.language,
                offset_s=offset_s,
                from_s=spoken_to_s,
                end_s=end_s,
                quiet=quiet,
            )
            spoken_to_s = max(segment.end_s for segment in segments)
        offset_s += window.seek_s
        if duration_s - offset_s < MIN_WINDOW_S:
            yield EngineOutput(segments, duration_s)
            return
        yield EngineOutput(segments, offset_s)


def with_longer_rest(window: rules.Window, offset_s: float, duration_s: float) -> rules.Window:
    """The window, ended at an earlier segment where what is left behind it is shorter than `LEAST_REST_S`.

    Args:
        window: What a pass of the decoder said.
        offset_s: Where in the chunk it begins.
        duration_s: How long the chunk is.
    """
    if not MIN_WINDOW_S <= duration_s - offset_s - window.seek_s < LEAST_REST_S:
        return window
    later = (segment.start_s for segment in window.segments[1:])
    begins_s = [begin_s for begin_s in later if begin_s - offset_s > LEAST_SEEK_S]
    if not begins_s:
        return window
    far_enough = [begin_s for begin_s in begins_s if duration_s - begin_s >= LEAST_REST_S]
    end_s = far_enough[-1] if far_enough else begins_s[0]
    kept = tuple(segment for segment in window.segments if segment.start_s < end_s)
    return rules.Window(kept, end_s - offset_s)


async def convincing(
    tokenizer: WhisperTokenizer,
    request: EngineRequest,
    decode: Callable[[float], Awaitable[Decoded]],
    offset_s: float = 0.0,
) -> Decoded | None:
    """Decode a window until it convinces, at rising temperatures where none was asked for.

    When none convinces, of those that are no endless loop the likeliest is taken: people repeat themselves.
    Whether there is anything to hear, the first pass tells: at high temperatures the model doubts its words
    over speech as well. Where the model is not sure of itself, somebody else is asked.

    Args:
        tokenizer: The model's.
        request: Its `report` is told of each fallback.
        decode: One pass of the decoder at a temperature.
        offset_s: Where in the chunk the window begins.

    Returns:
        The pass that is believed, or None over silence.
    """
    asked = request.options.temperature
    tried: list[tuple[bool, float, Decoded]] = []
    for temperature in (asked,) if asked > 0 else rules.RISING_TEMPERATURES:
        decoded = await _without_dreamt_end(tokenizer, request, await decode(temperature), offset_s)
        text = tokenizer.decode(decoded.tokens)
        doubt = rules.doubt(text, decoded.avg_logprob)
        if not tried and await _nobody_speaks(request, text, decoded, doubt, offset_s):
            return None
        if doubt is None:
            return decoded
        tried.append((not rules.is_loop(text), decoded.avg_logprob, decoded))
        if temperature < rules.RISING_TEMPERATURES[-1] and asked == 0:
            request.report.fallbacks.append(doubt)
    return max(tried, key=lambda attempt: attempt[:2])[2]


async def _without_dreamt_end(
    tokenizer: WhisperTokenizer, request: EngineRequest, decoded: Decoded, offset_s: float
) -> Decoded:
    """Leave out what the model wrote past the end that it wanted, where nobody speaks there.

    It ends so where a segment is cut off, but sometimes also before music or a hum, and then dreams over
    them.
    """
    if request.speech_s is None:
        return decoded
    for place in reversed(decoded.went_on):
        begin = place - 1  # the time at which the segment begins, behind the one at which the last one ends
        if await request.speech_s(offset_s + tokenizer.seconds(decoded.tokens[begin])) >= rules.CLICK_S:
            break
        decoded = decoded.before(begin)
    return decoded


async def _nobody_speaks(
    request: EngineRequest, text: str, decoded: Decoded, doubt: str | None, offset_s: float
) -> bool:
    """Whether what the first pass heard is to be thrown away as a dream over silence, noise or music."""
    silent = rules.is_silence(text, decoded.no_speech_prob, decoded.avg_logprob)
    suspect = doubt is not None or decoded.no_speech_prob > rules.SUSPECT_NO_SPEECH_PROB
    if request.speech_s is None or not suspect:
        return silent
    speech_s = await request.speech_s(offset_s)
    return speech_s < (rules.SPEECH_S if silent else rules.CLICK_S)


def read_window(
    tokenizer: WhisperTokenizer, decoded: Decoded, duration_s: float, *, offset_s: float, logprobs: bool
) -> rules.Window:
    """What a window's tokens say.

    Args:
        tokenizer: The model's.
        decoded: The pass of the decoder that convinced.
        duration_s: How much audio the window holds.
        offset_s: Where in the chunk it begins.
        logprobs: Whether the segments shall carry each token's log-probability.
    """
    return rules.split_at_timestamps(
        tokenizer,
        decoded.tokens,
        duration_s,
        offset_s=offset_s,
        temperature=decoded.temperature,
        avg_logprob=decoded.avg_logprob,
        no_speech_prob=decoded.no_speech_prob,
        logprobs=decoded.logprobs if logprobs else (),
    )
