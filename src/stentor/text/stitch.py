"""From the chunks' segments to one transcript, in the file's own timeline."""

from __future__ import annotations

from dataclasses import replace

from stentor.types import Chunk, EngineOutput, Part, Segment, Task, Transcript


class Stitcher:
    """Collects what was heard in the chunks, in their order."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._end_s = 0.0

    def add(self, chunk: Chunk, output: EngineOutput, *, spaced: bool = True) -> Part:
        """Place what was heard next into the file's timeline.

        Whisper's tokens carry their own leading spaces, so texts are joined as they are; only at a seam
        between outputs, where a model may begin without one, a missing space is put in.

        Args:
            chunk: Where it was heard.
            output: What was said, in the chunk's timeline.
            spaced: Whether the language puts spaces between words.
        """
        placed: list[Segment] = []
        for segment in output.segments:
            if not segment.text.strip():
                continue
            segment = segment.placed(chunk)
            if spaced and self._segments and not placed and not self._seam_has_space(segment):
                segment = replace(segment, text=" " + segment.text)
            placed.append(segment)
        self._segments += placed
        whole = output.end_s >= chunk.duration_s
        self._end_s = chunk.end_s if whole else chunk.file_span(0, output.end_s)[1]
        return Part(tuple(placed), self._end_s)

    def transcript(self, *, language: str, task: Task) -> Transcript:
        """The whole answer."""
        text = "".join(segment.text for segment in self._segments).strip()
        return Transcript(text, language, self._end_s, task, tuple(self._segments))

    def _seam_has_space(self, segment: Segment) -> bool:
        return segment.text[0].isspace() or self._segments[-1].text[-1].isspace()
