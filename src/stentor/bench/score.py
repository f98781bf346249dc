"""Word and character error rates over a corpus.

Texts are normalised as in the Whisper paper (Radford et al. 2022, appendix C): the English normaliser for
English, the basic one for other languages, and split into letters where words are not written apart; Chinese
in simplified characters, with its numbers as digits, as the English normaliser writes them.
Rates are the corpus' (sum of edits / sum of reference units), so a short file weighs what it holds. Words
and characters are never added up with each other: a mixed corpus has one total of each.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, TypeAlias

import cn2an
import jiwer
from opencc import OpenCC

with warnings.catch_warnings():
    # whisper-normalizer 0.1.15 has a "\X" in a docstring; Python complains when it compiles that.
    warnings.simplefilter("ignore")
    from whisper_normalizer.basic import BasicTextNormalizer
    from whisper_normalizer.english import EnglishTextNormalizer
from stentor.whisper.languages import joins_without_spaces

Unit: TypeAlias = Literal["word", "character"]

UNKNOWN_LANGUAGE = "und"
"""ISO 639-2 for a language that nobody named."""


CHINESE = frozenset({"zh", "yue"})
"""Models answer in traditional or simplified characters, and write 2017 or 二零一七. Neither is an error."""


class _Normalizer(Protocol):
    def __call__(self, text: str, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Pair:
    """What is said in a file and what was heard."""

    language: str | None
    reference: str
    hypothesis: str


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Edits that turn references into hypotheses, and how many units the references have."""

    unit: Unit
    references: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def edits(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float | None:
        """Edits per reference unit; None where the references are empty and there is nothing to divide by."""
        return self.edits / self.references if self.references else None

    def __add__(self, other: ErrorCount) -> ErrorCount:
        if self.unit != other.unit:
            raise ValueError("words and characters do not add up")
        return ErrorCount(
            self.unit,
            self.references + other.references,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


@dataclass(frozen=True, slots=True)
class Score:
    """Edits for each language, and in total for each unit."""

    languages: Mapping[str, ErrorCount]

    @property
    def words(self) -> ErrorCount:
        return self._total("word")

    @property
    def characters(self) -> ErrorCount:
        return self._total("character")

    def _total(self, unit: Unit) -> ErrorCount:
        counts = (count for count in self.languages.values() if count.unit == unit)
        return sum(counts, start=ErrorCount(unit))


def score(pairs: Iterable[Pair]) -> Score:
    """Count the edits between references and hypotheses, language by language."""
    spoken: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        spoken[_primary(pair.language)].append(pair)
    return Score({language: _count(language, spoken[language]) for language in sorted(spoken)})


def tokens(text: str, language: str | None) -> list[str]:
    """What a text's edits are counted in: its words, or its characters, after normalising."""
    return _normalizer(_primary(language))(text).split()


def unit_of(language: str | None) -> Unit:
    """What errors in a language are counted in."""
    return "character" if joins_without_spaces(_primary(language)) else "word"


def _primary(language: str | None) -> str:
    """Reduce a tag such as "zh-TW" to its first part."""
    return language.lower().split("-")[0] if language else UNKNOWN_LANGUAGE


def _count(language: str, pairs: list[Pair]) -> ErrorCount:
    normalize = _normalizer(language)
    # Letters split by spaces are words to jiwer, so the same call counts characters.
    output = jiwer.process_words(
        [normalize(pair.reference) for pair in pairs], [normalize(pair.hypothesis) for pair in pairs]
    )
    return ErrorCount(
        unit=unit_of(language),
        references=output.hits + output.substitutions + output.deletions,
        substitutions=output.substitutions,
        deletions=output.deletions,
        insertions=output.insertions,
    )


@cache  # They read their tables of spellings or characters when they are made.
def _normalizer(language: str) -> _Normalizer:
    if language == "en":
        english: _Normalizer = EnglishTextNormalizer()
        return english
    basic: _Normalizer = BasicTextNormalizer(split_letters=joins_without_spaces(language))
    if language in CHINESE:
        simplify: _Normalizer = OpenCC("t2s").convert
        return lambda text: basic(_digits(simplify(text)))
    return basic


def _digits(chinese: str) -> str:
    """Write numbers as digits; what looks like one and is none stays as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cn2an warns of the latter
        digits: str = cn2an.transform(chinese, "cn2an")
    return digits
