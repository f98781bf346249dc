"""Which token of a text is which token of another, and when the tokens that were heard are spoken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import jiwer

from stentor.bench.score import tokens

Kind: TypeAlias = Literal["equal", "substitute", "delete", "insert"]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring tokens with the same fate; a half-open range of the reference's and of what was heard."""

    kind: Kind
    reference_start: int
    reference_end: int
    heard_start: int
    heard_end: int

    @property
    def edits(self) -> int:
        if self.kind == "equal":
            return 0
        return max(self.reference_end - self.reference_start, self.heard_end - self.heard_start)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word, or any other piece of text, and when it is spoken."""

    text: str
    start_s: float
    end_s: float


def align(reference: Sequence[str], heard: Sequence[str]) -> tuple[Run, ...]:
    """The fewest edits that turn one list of tokens into the other, in order."""
    if not reference:  # jiwer counts these insertions and lists none of them
        return (Run("insert", 0, 0, 0, len(heard)),) if heard else ()
    output = jiwer.process_words(" ".join(reference), " ".join(heard))
    return tuple(
        Run(
            cast(Kind, chunk.type),
            chunk.ref_start_idx,
            chunk.ref_end_idx,
            chunk.hyp_start_idx,
            chunk.hyp_end_idx,
        )
        for chunk in output.alignments[0]
    )


def origins(parts: Sequence[Sequence[str]], whole: Sequence[str]) -> list[tuple[int, int] | None]:
    """Which part, and which of its tokens, each token of the whole is.

    A text that is normalised as a whole has not always the tokens of its normalised parts: "twenty" and
    "five" become "25". What has no counterpart has no origin.
    """
    places = [(part, place) for part, part_tokens in enumerate(parts) for place in range(len(part_tokens))]
    found: list[tuple[int, int] | None] = [None] * len(whole)
    for run in align([token for part in parts for token in part], whole):
        if run.kind in ("equal", "substitute"):
            found[run.heard_start : run.heard_end] = places[run.reference_start : run.reference_end]
    return found


def times(
    words: Sequence[Spoken], heard: Sequence[str], language: str | None
) -> list[tuple[float, float] | None]:
    """When each token of what was heard begins and ends, in seconds of the file; None where no word tells."""
    parts = [tokens(word.text, language) for word in words]
    found: list[tuple[float, float] | None] = []
    for origin in origins(parts, heard):
        if origin is None:
            found.append(None)
            continue
        part, place = origin
        word, count = words[part], len(parts[part])
        length_s = (word.end_s - word.start_s) / count
        found.append((word.start_s + place * length_s, word.start_s + (place + 1) * length_s))
    return found
