"""From the chunks' segments to one transcript, in the file's own timeline."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from stentor.text.seams import reconcile
from stentor.types import SAMPLE_RATE, Chunk, EngineOutput, Part, Segment, Task, Transcript
from stentor.whisper.languages import joins_without_spaces

FALLBACK_LANGUAGE = "en"
"""What an audio without any sound is said to be in: an answer needs one, and nobody heard anything."""


class Stitcher:
    """Collects what was heard in the chunks, in their order.

    Args:
        task: What is written down.
        words: Whether the transcript shall have words; where chunks overlap, engines give them in any case.
        timed: Whether the engine knows when words are spoken.
    """

    def __init__(self, task: Task = "transcribe", *, words: bool = True, timed: bool = True) -> None:
        self._task = task
        self._words = words
        self._timed = timed
        self._language: str | None = None
        self._spoken_s: dict[str, float] = {}
        self._segments: list[Segment] = []
        self._end_s = 0.0
        self._held: list[Segment] = []  # heard in the chunk before, from where the present one overlaps it
        self._beginning: list[Segment] = []  # heard in the present one, until it is past that
        self._reconciled = 0  # the last chunk of which the beginning is settled

    def add(self, chunk: Chunk, output: EngineOutput, language: str | None = None) -> Part:
        """Place what was heard next into the file's timeline.

        Whisper's tokens carry their own leading spaces, so texts are joined as they are; only at a seam
        between outputs, where a model may begin without one, a missing space is put in. What was heard in
        the end of a chunk that overlaps the next one waits for what is heard there.

        Args:
            chunk: Where it was heard.
            output: What was said, in the chunk's timeline.
            language: What it is written in; None where nobody knows, as nothing was said.
        """
        self._language = language or self._language
        whole = output.end_s >= chunk.duration_s
        end_s = chunk.end_s if whole else chunk.file_span(0, output.end_s)[1]
        heard = [segment.placed(chunk) for segment in output.segments if segment.text.strip()]
        if chunk.before_samples and self._reconciled < chunk.index:
            self._beginning += heard
            shared_to_s = chunk.file_s(chunk.before_samples / SAMPLE_RATE)
            if not whole and end_s < shared_to_s:
                return Part((), self._end_s)
            heard = reconcile(self._held, self._beginning, chunk.start_s, shared_to_s, timed=self._timed)
            self._held, self._beginning, self._reconciled = [], [], chunk.index
        if chunk.after_samples:
            shared_from_s = chunk.file_s(chunk.duration_s - chunk.after_samples / SAMPLE_RATE)
            ready = [] if self._held else list(takewhile(lambda said: said.end_s < shared_from_s, heard))
            self._held += heard[len(ready) :]
            heard, end_s = ready, min(end_s, shared_from_s)
        return self._part(heard, end_s)

    def transcript(self) -> Transcript:
        """The whole answer."""
        text = "".join(segment.text for segment in self._segments).strip()
        languages = tuple(sorted(self._spoken_s, key=self._spoken_s.__getitem__, reverse=True))
        language = languages[0] if languages else self._language or FALLBACK_LANGUAGE
        return Transcript(text, language, self._end_s, self._task, tuple(self._segments), languages)

    def _part(self, heard: list[Segment], end_s: float) -> Part:
        """Add what is final."""
        if heard and self._language is not None:
            spoken_s = sum(segment.end_s - segment.start_s for segment in heard)
            self._spoken_s[self._language] = self._spoken_s.get(self._language, 0.0) + spoken_s
        if heard and self._segments and self._spaced and not self._seam_has_space(heard[0]):
            heard = [replace(heard[0], text=" " + heard[0].text), *heard[1:]]
        if not self._words:
            heard = [replace(segment, words=()) for segment in heard]
        self._segments += heard
        self._end_s = max(self._end_s, end_s)
        return Part(tuple(heard), self._end_s)

    @property
    def _spaced(self) -> bool:
        """Whether there are spaces between words in what is being written."""
        return self._task == "translate" or not joins_without_spaces(self._language or FALLBACK_LANGUAGE)

    def _seam_has_space(self, segment: Segment) -> bool:
        return segment.text[0].isspace() or self._segments[-1].text[-1].isspace()
