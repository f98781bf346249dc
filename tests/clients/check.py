"""Clients that others wrote, pointed at a server by their address alone: do they get the words?

    python tests/clients/check.py http://127.0.0.1:8000 speech.wav "what is said in it"

It runs in an environment of its own (`make clients`), so it knows nothing of Stentor. Prints a line for each
client; the exit code is 1 where one of them fails.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import sys
import wave
from importlib.metadata import version
from pathlib import Path

# As a user would say it: the clients read these, as they read OpenAI's own.
URL, AUDIO, REFERENCE = f"{sys.argv[1]}/v1", Path(sys.argv[2]), sys.argv[3]
os.environ["OPENAI_API_KEY"] = "none"
os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_API_BASE"] = URL

WAV = AUDIO.read_bytes()

LEAST_ALIKE = 0.9
"""Of the words; the small models mishear one in twenty."""


async def langchain() -> str:
    """LangChain's parser. It cuts the audio up with FFmpeg."""
    import imageio_ffmpeg
    from langchain_community.document_loaders.parsers.audio import OpenAIWhisperParser
    from langchain_core.documents.base import Blob
    from pydub import AudioSegment

    AudioSegment.converter = imageio_ffmpeg.get_ffmpeg_exe()
    documents = await asyncio.to_thread(OpenAIWhisperParser().parse, Blob.from_path(str(AUDIO)))
    return " ".join(document.page_content for document in documents)


async def llama_index() -> str:
    """LlamaIndex's reader."""
    from llama_index.readers.whisper import WhisperReader

    documents = await WhisperReader().aload_data(AUDIO)
    return " ".join(document.text for document in documents)


async def livekit_default() -> str:
    """LiveKit's plugin as it comes."""
    return await _livekit()


async def livekit_whisper() -> str:
    """LiveKit's plugin with whisper-1, for which it asks for verbose_json, and finding out the language."""
    return await _livekit(model="whisper-1", detect_language=True)


async def _livekit(**options: object) -> str:
    from livekit import rtc
    from livekit.plugins import openai

    with wave.open(str(AUDIO)) as audio:
        samples = audio.readframes(audio.getnframes())
        frame = rtc.AudioFrame(samples, audio.getframerate(), audio.getnchannels(), audio.getnframes())
    stt = openai.STT(use_realtime=False, **options)
    try:
        event = await stt.recognize(frame)
    finally:
        await stt.aclose()
    return str(event.alternatives[0].text)


async def pipecat_default() -> str:
    """Pipecat's service as it comes."""
    return await _pipecat()


async def pipecat_with_keywords_and_probabilities() -> str:
    """Pipecat's service with keywords, a prompt and log-probabilities."""
    return await _pipecat(
        include_prob_metrics=True,
        settings={
            "model": "gpt-4o-transcribe",
            "keywords": ["wisdom"],
            "prompt": "Dickens.",
            "temperature": 0,
        },
    )


async def _pipecat(settings: dict[str, object] | None = None, **options: object) -> str:
    from pipecat.frames.frames import TranscriptionFrame
    from pipecat.services.openai.stt import OpenAISTTService

    told = OpenAISTTService.Settings(**settings) if settings else None
    service = OpenAISTTService(settings=told, **options)
    frames = [frame async for frame in service.run_stt(WAV)]
    return " ".join(frame.text for frame in frames if isinstance(frame, TranscriptionFrame))


CLIENTS = {
    langchain: "langchain-community",
    llama_index: "llama-index-readers-whisper",
    livekit_default: "livekit-plugins-openai",
    livekit_whisper: "livekit-plugins-openai",
    pipecat_default: "pipecat-ai",
    pipecat_with_keywords_and_probabilities: "pipecat-ai",
}


def alike(text: str) -> float:
    """The share of words that text and reference have in common, in order."""
    words, expected = (re.findall(r"[a-z']+", told.lower()) for told in (text, REFERENCE))
    return difflib.SequenceMatcher(None, words, expected, autojunk=False).ratio()


async def main() -> int:
    """Ask with each client in turn."""
    failed = 0
    for client, package in CLIENTS.items():
        share = alike(await client())
        failed += share < LEAST_ALIKE
        outcome = "ok  " if share >= LEAST_ALIKE else "FAIL"
        print(
            f"{outcome} {client.__name__:42} {package} {version(package)}: {share:.0%} of the words",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
