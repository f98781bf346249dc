"""In which language the chunks of a request are heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Iterable
from dataclasses import replace

from stentor.audio.chunker import is_silent
from stentor.calls import EngineCalls, Hearing
from stentor.types import Chunk, DecodeOptions, LanguageGuess

PLACES = 3
"""Chunks that are asked for the language of a file, from the first speech on: a greeting in another language
is outvoted, and the file's first words wait for no more than what has to be encoded anyway."""

LEAST_SPEECH_S = 1.0
"""A chunk with less speech tells its own language, but not that of the chunks after it: music before the
speech must not decide what language a file is in."""


async def in_their_own(chunks: AsyncIterable[Chunk], options: DecodeOptions) -> AsyncGenerator[Hearing, None]:
    """Each chunk in its own language: what is spoken may change from one to the next."""
    async for chunk in chunks:
        yield Hearing(chunk, options)


async def in_one_language(
    chunks: AsyncIterable[Chunk], options: DecodeOptions, calls: EngineCalls, group: asyncio.TaskGroup
) -> AsyncGenerator[Hearing, None]:
    """All chunks in one language: that of most of the speech in the first places.

    The chunks before the first speech are heard in their own, whatever it is that sounds there.
    """
    asked: list[tuple[Chunk, float, asyncio.Task[LanguageGuess]]] = []
    async for chunk in chunks:
        decided = options.language is not None
        if decided or (not asked and is_silent(chunk.samples)):
            yield Hearing(chunk, options)
            continue
        speech_s = await calls.speech_s(chunk)
        if not asked and not chunk.last and speech_s < LEAST_SPEECH_S:
            yield Hearing(chunk, options)
            continue
        asked.append((chunk, speech_s, group.create_task(calls.detect_language(chunk, options))))
        if chunk.last or len(asked) == PLACES:
            options = replace(
                options, language=await _vote((speech_s, guess) for _, speech_s, guess in asked)
            )
            for held, _, _ in asked:
                yield Hearing(held, options)
            asked.clear()


async def _vote(guesses: Iterable[tuple[float, Awaitable[LanguageGuess]]]) -> str:
    """The language that most seconds of speech are likely to be in."""
    votes: dict[str, float] = {}
    for speech_s, probe in guesses:
        guess = await probe
        votes[guess.language] = votes.get(guess.language, 0.0) + speech_s * guess.probability
    return max(votes, key=votes.__getitem__)
