"""FFmpeg, through PyAV: every container that libsndfile does not read, and damaged files that it gives up.

Decoding is one filter graph whose source, `amovie`, reads and decodes by itself: one pull gives a whole
raw block in one call that does not hold the GIL. A loop over PyAV's packets and frames holds it for
40 % of the time and does not gain from a second thread.

What a file may make FFmpeg do is fenced in: it sees one descriptor (`fd:`, no other protocol) through the
one demuxer that the sniffer named (forced, and the only one on the whitelist), and allocates no more at
once than a file within the limits needs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from itertools import islice
from typing import cast

import av
import av._core
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import EOFError as StreamEnd
from av.error import FFmpegError
from av.filter.context import FilterContext
from av.filter.graph import Graph

from stentor.audio.limits import RAW_FRAMES, DecodeFailure, ReaderLimits, check_header, too_long
from stentor.audio.sniff import Sniffed
from stentor.errors import AudioError
from stentor.types import Samples

_PROBE_BYTES = 1 << 16
"""How far FFmpeg reads to learn the streams' parameters (its default is 5 MB: 8 ms for a wav, not 2)."""

_PROBE_BYTES_OF = {"mpegts": 5_000_000, "mpeg": 5_000_000, "flv": 5_000_000}
"""Containers without a header that lists the streams: video may fill megabytes before the first audio."""

PULL_FRAMES = RAW_FRAMES // 2
"""FFmpeg keeps several times what one pull gives: 16 uploads of an hour take 103 MB with a quarter of the
frames, 203 MB with all; mp3 over two threads scales 1.60, 1.71 and 1.82 times."""

_MAX_BAD_PULLS = 256
"""Damaged packets skipped in a row. Noise of 20 KB amid an mp3 makes 4; 256 without one good block between
them is no audio any more."""

_MAX_STREAMS = 16
"""Tracks in a mov or mp4, each of which may fill one index. Phones write up to seven, FFmpeg allows 1000."""

_MIN_ALLOC_BYTES = 32 << 20
_ALLOC_BYTES_PER_S = 2400
"""An mp4's index takes 24 bytes for a frame: 1100 for a second of AAC, 1440 for one of video at 60 Hz."""

_SEEK_PACKETS = 2000
"""How many packets after a seek may still lie before its target: seeks land on a cluster's or a page's
first packet, seconds too early. 2000 are 40 s of AAC, and 10 ms of work."""


class LibavDecoder:
    """Reads one file with FFmpeg. The constructor reads the header.

    Raises:
        DecodeFailure: FFmpeg cannot read the file.
        AudioError: The file has no audio in it, or its header is outside the limits.
    """

    def __init__(self, fd: int, sniffed: Sniffed, limits: ReaderLimits) -> None:
        self._fd = fd
        self._sniffed = sniffed
        self._graph: Graph | None = None
        _limit_allocations(limits)
        self.lost_packets = 0
        self.duration_s: float | None = None
        with self._container() as container:
            stream = container.streams.best("audio")
            if stream is None:
                what = "video but no audio" if container.streams.video else "no audio that can be decoded"
                raise AudioError(f"The file holds {what}. Send a file with an audio track.")
            # Without a decoder for it PyAV leaves the stream's codec context, and its attributes, out.
            if not isinstance(stream, AudioStream) or not getattr(stream, "rate", 0) or not stream.channels:
                raise DecodeFailure("the codec of its audio is not known")
            self._stream_index = stream.index
            self.rate_hz: int = stream.rate
            check_header(stream.rate, stream.channels, limits)
            self.duration_s = _duration_s(container, stream)
            if self.duration_s is not None and self.duration_s > limits.max_audio_s:
                if _reaches(container, stream, limits.max_audio_s):
                    raise too_long(limits)
                self.duration_s = None

    def blocks(self) -> Iterator[Samples]:
        """Raw blocks, float32 (n_frames, n_channels), at most stereo. Damaged packets are skipped."""
        sink = self._sink()
        bad_pulls = 0
        while True:
            try:
                frame = sink.pull()
            except StreamEnd:
                return
            except FFmpegError as error:
                self.lost_packets += 1
                bad_pulls += 1
                if bad_pulls > _MAX_BAD_PULLS:
                    raise DecodeFailure(_reason(error)) from None
                continue
            bad_pulls = 0
            assert isinstance(frame, AudioFrame)
            raw = cast(Samples, frame.to_ndarray()).T
            del frame  # half a megabyte that a file would hold while it waits for its next step
            yield raw

    def close(self) -> None:
        """Let go of the file; the descriptor stays open."""
        self._graph = None

    def _container(self) -> InputContainer:
        os.lseek(self._fd, 0, os.SEEK_SET)
        try:
            # Titles in Latin-1 are common, and PyAV's default for what is not UTF-8 is to fail.
            return av.open(
                "fd:", format=self._sniffed.demuxer, options=self._options(), metadata_errors="replace"
            )
        except (FFmpegError, ValueError) as error:
            raise DecodeFailure(_reason(error)) from None

    def _options(self) -> dict[str, str]:
        demuxer = self._sniffed.demuxer
        return {
            "fd": str(self._fd),
            "protocol_whitelist": "fd",
            "format_whitelist": demuxer,
            "probesize": str(_PROBE_BYTES_OF.get(demuxer, _PROBE_BYTES)),
            "skip_initial_bytes": str(self._sniffed.offset_bytes),
            **({"max_streams": str(_MAX_STREAMS)} if demuxer == "mov" else {}),
        }

    def _sink(self) -> FilterContext:
        """Build the graph and return the end from which blocks are pulled."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        graph = Graph()
        try:
            nodes = [
                graph.add(
                    "amovie",
                    filename="fd:",
                    format_name=self._sniffed.demuxer,
                    stream_index=str(self._stream_index),
                    dec_threads="1",  # more threads save no processor time, and the pool has its own
                    format_opts=":".join(f"{name}={value}" for name, value in self._options().items()),
                ),
                # Cut before anything is converted: a container may hold one packet of 100 MB.
                graph.add("asetnsamples", f"n={PULL_FRAMES}:p=0"),
                # Without it swr adds the channels up instead of weighing them, to 3 dB over full scale.
                graph.add("aresample", "rematrix_maxval=1.0"),
                graph.add("aformat", "sample_fmts=fltp:channel_layouts=mono|stereo"),
                graph.add("abuffersink"),
            ]
            graph.link_nodes(*nodes).configure()
        except (FFmpegError, ValueError) as error:
            raise DecodeFailure(_reason(error)) from None
        self._graph = graph
        return nodes[-1]


def _limit_allocations(limits: ReaderLimits) -> None:
    """Set FFmpeg's own bound (its command line's -max_alloc) on a single allocation, for the whole process.

    Without it 140 KB of wav that claim a title of 2 GB take 2 GB and 3 s, and 100 KB of mp4 that claim 2^24
    frames take 600 MB, before FFmpeg sees that they lie. PyAV does not expose the function; the dynamic
    linker finds it through a module that links to libavutil.
    """
    wanted = max(_MIN_ALLOC_BYTES, limits.max_audio_s * _ALLOC_BYTES_PER_S)
    av_max_alloc = getattr(ctypes.CDLL(av._core.__file__), "av_max_alloc", None)
    if av_max_alloc is not None:  # absent on Windows, whose linker does not look through
        av_max_alloc(ctypes.c_size_t(int(min(wanted, 2**31 - 1))))


def _duration_s(container: InputContainer, stream: AudioStream) -> float | None:
    """What the header says, or FFmpeg's estimate from the bit rate."""
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return container.duration / av.time_base if container.duration is not None else None


def _reaches(container: InputContainer, stream: AudioStream, wanted_s: float) -> bool:
    """Whether there really is audio at `wanted_s`."""
    try:
        container.seek(int(wanted_s * av.time_base))
        for packet in islice(container.demux(stream), _SEEK_PACKETS):
            if packet.pts is None or packet.time_base is None:
                continue
            if (packet.pts - (stream.start_time or 0)) * packet.time_base >= wanted_s:
                return True
    except FFmpegError:
        pass
    return False


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return str(text).lower()
