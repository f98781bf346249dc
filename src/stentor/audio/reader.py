"""Any container in, blocks of 16 kHz mono float32 out, in constant memory.

    fd ──► sniff ──► decoder ──► raw blocks ──► cleaned ──► downmix ──► resampler ──► blocks of 5 s
                     libsndfile  (n, channels)
                     or FFmpeg

The content decides who decodes (`sniff.py`). When libsndfile fails, at the header or anywhere later, FFmpeg
takes over at the sample where it stopped: it finds its way past damaged frames. What cannot be decoded
after that is lost, the rest is given, and `damage` says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from stentor.audio.channels import Resampler, cleaned, downmix
from stentor.audio.chunker import chunks
from stentor.audio.libav import LibavDecoder
from stentor.audio.limits import SUPPORTED, DecodeFailure, Decoder, ReaderLimits, Stopped, too_long
from stentor.audio.sndfile import SndfileDecoder
from stentor.audio.sniff import sniff
from stentor.audio.vad import VadOptions, speech_chunks
from stentor.errors import AudioError, AudioTooLong
from stentor.types import SAMPLE_RATE, Chunk, Samples

__all__ = ["AudioReader", "AudioReport", "ReaderLimits", "Stopped", "read_chunks"]

BLOCK_SAMPLES = 5 * SAMPLE_RATE


@dataclass(slots=True)
class AudioReport:
    """What was found out about a file while it was read; see the attributes of `AudioReader`."""

    format: str | None = None
    duration_s: float | None = None
    damage: str | None = None


def read_chunks(
    fd: int,
    limits: ReaderLimits,
    stop: threading.Event,
    *,
    search_s: float = 5.0,
    vad: VadOptions | None = None,
    report: AudioReport | None = None,
) -> Iterator[Chunk]:
    """Read an open file chunk by chunk; each step decodes as much as its chunk needs.

    The file is opened by the first step and let go of when the iterator ends or is closed.

    Args:
        fd: See `AudioReader`, as for the next two.
        limits: What the audio may be.
        stop: Ends the running step when set.
        search_s: See `chunks`.
        vad: Leave out what is not speech; see `speech_chunks`. By default all audio is kept.
        report: Filled in on the way.

    Raises:
        AudioError: The file cannot be read as audio.
        AudioTooLong: There is more audio than `limits` allow.
        Stopped: `stop` was set.
    """
    report = report or AudioReport()
    with AudioReader(fd, limits, stop) as reader:
        report.format, report.duration_s = reader.format, reader.duration_s
        if vad is None:
            yield from chunks(reader.blocks(), search_s=search_s)
        else:
            yield from speech_chunks(reader.blocks(), vad, search_s=search_s)
        report.damage = reader.damage


class AudioReader:
    """Any container -> blocks of 16 kHz mono float32, in constant memory.

    The constructor sniffs the content and reads the header, so it belongs into a worker thread as much
    as the blocks do.

    Args:
        fd: Descriptor of a regular file. It is read from the beginning, whatever its position, and
            stays open; nobody else may use its position meanwhile.
        limits: What the audio may be.
        stop: When set, the running step ends within milliseconds by `Stopped`.

    Attributes:
        format: What the content is, in one word of a closed list ("wav", "mp3", "ogg-opus", "m4a", ...).
        duration_s: What the header says, for information, or None where it says nothing or lies.
        damage: What was lost, once `blocks` has ended; None where nothing was.

    Raises:
        AudioError: The file is no audio that we read.
        AudioTooLong: The header says that there is more audio than `limits` allow, and the file confirms it.
    """

    def __init__(
        self,
        fd: int,
        limits: ReaderLimits = ReaderLimits(),  # noqa: B008 - frozen
        stop: threading.Event | None = None,
    ) -> None:
        self._fd = fd
        self._limits = limits
        self._stop = stop
        self._sniffed = sniff(fd)
        self.format = self._sniffed.format
        self.damage: str | None = None
        self._decoder: Decoder = self._open()
        self.duration_s = self._decoder.duration_s or None  # 0: a wav whose writer never came to fill it in

    def __enter__(self) -> AudioReader:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; the descriptor stays open."""
        self._decoder.close()

    def blocks(self) -> Iterator[Samples]:
        """The audio in blocks of 5 s, the last one shorter; each owns its samples. To be walked once.

        Raises:
            AudioError: Nothing could be decoded, or what was is no audio.
            AudioTooLong: There is more audio than the limits allow.
            Stopped: The `stop` event was set.
        """
        block = np.empty(BLOCK_SAMPLES, np.float32)
        filled = 0
        for piece in self._pieces():
            taken = 0
            while taken < len(piece):
                part = piece[taken : taken + BLOCK_SAMPLES - filled]
                block[filled : filled + len(part)] = part
                filled += len(part)
                taken += len(part)
                if filled == BLOCK_SAMPLES:
                    yield block
                    block = np.empty(BLOCK_SAMPLES, np.float32)
                    filled = 0
        if filled:
            yield block[:filled].copy()

    def _pieces(self) -> Iterator[Samples]:
        """16 kHz mono in pieces of any length, across a change of decoder, within the limit."""
        limit_samples = self._limits.max_audio_s * SAMPLE_RATE
        given = 0
        while True:
            skip = given  # what the decoder before has given, to the sample: the decoders agree on that
            failure: DecodeFailure | None = None
            try:
                for decoded in self._decoded():
                    piece = decoded[skip:]
                    skip -= len(decoded) - len(piece)
                    given += len(piece)
                    if given > limit_samples:
                        raise too_long(self._limits)
                    yield piece
            except DecodeFailure as error:
                failure = error
            if (given and not failure) or not self._take_over():
                break
        self._judge(given, failure)

    def _decoded(self) -> Iterator[Samples]:
        """16 kHz mono from the present decoder."""
        resampler = Resampler(self._decoder.rate_hz)
        for raw in self._decoder.blocks():
            if self._stop is not None and self._stop.is_set():
                raise Stopped
            piece = resampler.feed(downmix(cleaned(raw)))
            del raw  # as for `frame` in libav.py
            yield piece
        yield resampler.flush()

    def _open(self) -> Decoder:
        try:
            if self._sniffed.sndfile:
                try:
                    return SndfileDecoder(self._fd, self._limits)
                except DecodeFailure:
                    pass  # FFmpeg may know the codec; if it does not, its reason is as good
            return LibavDecoder(self._fd, self._sniffed, self._limits)
        except DecodeFailure as failure:
            raise self._unreadable(failure) from None

    def _take_over(self) -> bool:
        """Let FFmpeg go on where libsndfile failed or found nothing; False when nobody is left to ask."""
        if isinstance(self._decoder, LibavDecoder):
            return False
        self._decoder.close()
        try:
            self._decoder = LibavDecoder(self._fd, self._sniffed, self._limits)
        except AudioTooLong:
            raise
        except (DecodeFailure, AudioError):
            return False  # what libsndfile said and gave stands
        return True

    def _judge(self, given: int, failure: DecodeFailure | None) -> None:
        """Say what became of the file, now that nothing more comes."""
        lost_packets = self._decoder.lost_packets
        if given:
            if failure:
                self.damage = f"the audio after {given / SAMPLE_RATE:.1f} s cannot be decoded: {failure}"
            elif lost_packets:
                self.damage = f"{lost_packets} damaged packets were skipped"
        elif failure or lost_packets:
            raise self._unreadable(failure or DecodeFailure("every packet is damaged"))
        else:
            raise AudioError(
                f"The file holds no audio samples: its {self.format} header is fine, and nothing follows. "
                "Check the program that wrote it."
            )

    def _unreadable(self, failure: DecodeFailure) -> AudioError:
        return AudioError(
            f"The file looks like {self.format}, but cannot be decoded ({failure}). It may be damaged or cut "
            f"off. Send {SUPPORTED}."
        )
