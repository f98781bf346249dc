"""How a chunk is heard: window after window, until its end. Every Whisper engine does it so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from stentor.types import Chunk, EngineOutput
from stentor.whisper import rules
from stentor.whisper.tokenizer import WhisperTokenizer

MIN_WINDOW_S = 0.5
"""A rest shorter than this is not heard again: no word fits in, and Whisper dreams over scraps."""


async def hear(
    chunk: Chunk, listen: Callable[[float], Awaitable[rules.Window]]
) -> AsyncGenerator[EngineOutput, None]:
    """Hear a chunk: it is one window, unless the model stops before its end; then the rest is heard again.

    Args:
        chunk: What is heard.
        listen: Hears the window that begins at these seconds of the chunk.
    """
    offset_s = 0.0
    while True:
        window = await listen(offset_s)
        yield EngineOutput(window.segments)
        offset_s += window.seek_s
        if chunk.duration_s - offset_s < MIN_WINDOW_S:
            return


def read_window(
    tokenizer: WhisperTokenizer,
    tokens: Sequence[int],
    duration_s: float,
    *,
    offset_s: float,
    temperature: float,
    avg_logprob: float,
    no_speech_prob: float,
) -> rules.Window:
    """What a window's tokens say; nothing, to its end, where they are a dream over silence.

    Args: see `rules.split_at_timestamps`.
    """
    if rules.is_silence(tokenizer.decode(tokens), no_speech_prob, avg_logprob):
        return rules.Window((), duration_s)
    return rules.split_at_timestamps(
        tokenizer,
        tokens,
        duration_s,
        offset_s=offset_s,
        temperature=temperature,
        avg_logprob=avg_logprob,
        no_speech_prob=no_speech_prob,
    )
