"""Stretches of a file, packed into chunks: as many as fit, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stentor.audio.chunker import CHUNK_SAMPLES, cut
from stentor.types import SAMPLE_RATE, Chunk, Piece, Samples

LEAST_CHUNK_SAMPLES = 20 * SAMPLE_RATE
"""A chunk ends between two pieces where that leaves it so long at least; else where it is quiet. With 10 s,
35 minutes of test data make 86 chunks, with 20 s 81; without leaving anything out they make 77."""

MAX_SPAN_SAMPLES = 120 * SAMPLE_RATE
"""How far a chunk may reach in the file. Reading so much takes 0.1 s, and others wait for the thread."""


class Packer:
    """Puts stretches of a file together to chunks of at most `MAX_CHUNK_S`.

    Args:
        search_s: Where a chunk must end within a stretch, how far before the limit the quiet place is
            looked for.
    """

    def __init__(self, search_s: float) -> None:
        self._search_s = search_s
        self._growing = np.empty(CHUNK_SAMPLES, np.float32)
        self._filled = 0
        self._pieces: list[Piece] = []
        self._index = 0
        self._told_to = 0  # in the file: where the chunk before ends
        self._kept_to = 0  # in the file: where the growing chunk ends
        self._before = 0  # samples that the chunk before ends with as well

    def add(self, start: int, samples: Samples) -> Iterator[Chunk]:
        """Take the next stretch, which begins at `start` in the file; gives the chunks that it fills."""
        if len(samples) and (not self._pieces or start != self._kept_to):
            self._pieces.append(Piece(self._filled, start))
        taken = 0
        while taken < len(samples):
            if self._filled == CHUNK_SAMPLES:  # only here is it known that more follows
                yield self._chunk(*self._cut())
            part = samples[taken : taken + CHUNK_SAMPLES - self._filled]
            self._growing[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            taken += len(part)
        self._kept_to = start + len(samples)

    def pause(self, at: int) -> Iterator[Chunk]:
        """Nothing before `at` in the file will be added any more: end a chunk that reaches far enough.

        Where nothing grows, it is an empty one that tells how far the file has been read.
        """
        begun = self._pieces[0].file_samples if self._pieces else self._told_to
        if at - begun >= MAX_SPAN_SAMPLES:
            yield self._chunk(self._filled, self._filled) if self._filled else self._empty(at)

    def end(self, file_samples: int) -> Iterator[Chunk]:
        """Nothing follows, and the file is so long: the last chunk ends there, if need be an empty one."""
        ends_the_file = self._filled > 0 and self._kept_to == file_samples
        if self._filled:
            yield replace(self._chunk(self._filled, self._filled), last=ends_the_file)
        if file_samples and not ends_the_file:
            yield replace(self._empty(file_samples), last=True)

    def _cut(self) -> tuple[int, int]:
        """Where the growing chunk ends and the next one begins."""
        between = self._pieces[-1].chunk_samples
        if between >= LEAST_CHUNK_SAMPLES:
            return between, between
        return cut(self._growing, self._search_s)

    def _chunk(self, end: int, resume: int) -> Chunk:
        """The growing chunk up to `end`; what lies behind `resume` becomes the next one's beginning."""
        pieces = tuple(piece for piece in self._pieces if piece.chunk_samples < end)
        told_to, resumed_at = self._place(end), self._place(resume)
        following = [piece for piece in self._pieces if piece.chunk_samples >= resume]
        if resume < self._filled and not (following and following[0].chunk_samples == resume):
            following.insert(0, Piece(resume, resumed_at))
        self._told_to = told_to
        self._pieces = [Piece(piece.chunk_samples - resume, piece.file_samples) for piece in following]
        samples = self._growing[:end].copy()
        self._filled -= resume
        self._growing[: self._filled] = self._growing[resume : resume + self._filled]
        self._index += 1
        before, self._before = self._before, end - resume
        return Chunk(
            self._index - 1,
            pieces[0].file_samples,
            samples,
            pieces=pieces,
            before_samples=before,
            after_samples=end - resume,
        )

    def _place(self, at: int) -> int:
        """Where in the file a place of the growing chunk is; at a seam, where the piece before it ends."""
        piece = next(piece for piece in reversed(self._pieces) if piece.chunk_samples < max(1, at))
        return piece.file_samples + at - piece.chunk_samples

    def _empty(self, at: int) -> Chunk:
        self._told_to = at
        self._index += 1
        return Chunk(self._index - 1, at, np.empty(0, np.float32))
