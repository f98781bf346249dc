"""Text in lines: what must stay together, where a line is best broken, and how wide it is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

_TOKEN: Final = re.compile(r"(?:\S|[\u00a0\u2007\u202f])+")
"""What stands between white space. No-break spaces are not such: French writes one before its `!`."""

_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3000-\u30ff\u3100-\u312f\u31f0-\u31ff\uff01-\uff9f"  # CJK punctuation, kana, bopomofo, other widths
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Chinese characters
)
"""Scripts that put nothing between words. Korean is not one of them."""

_NEVER_FIRST: Final = frozenset({"Cf", "Lm", "Mc", "Me", "Mn", "Pd", "Pe", "Pf", "Po", "Sk", "Zs"})
"""Categories of characters that no line begins with: marks on the letter before, closing punctuation,
signs of repetition and length. Source: Unicode UAX #14, classes CL, CM, EX, NS."""

_NEVER_FIRST_LETTERS: Final = frozenset(
    "ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶ"  # small kana: UAX #14, class CJ, strict
    "\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3"  # vowels of Thai and Lao that follow their consonant
)

_NEVER_LAST: Final = frozenset({"Pi", "Ps", "Zs"})
"""Categories of characters that no line ends with. Source: Unicode UAX #14, classes GL, OP."""

_NEVER_LAST_LETTERS: Final = frozenset(
    "\"'\u200d\u2060"  # quotes that may open, joiners
    "\u0e40\u0e41\u0e42\u0e43\u0e44\u0ec0\u0ec1\u0ec2\u0ec3\u0ec4"  # vowels that stand before their consonant
    "\u1039\u17d2"  # signs that stack the next consonant below
)

_SENTENCE_ENDS: Final = frozenset(".!?。．！？｡…؟۔।")
_CLAUSE_ENDS: Final = frozenset(",;:，；：、､—–،؛")
_CLOSING: Final = "\"'”’»)]}」』）】〉》"
"""Stands after the mark that ends a sentence and belongs to it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What stays on one line: a word, or a character of a script that puts nothing between words.

    `begin` is where in the text it stands, in characters; `spaced` says that white space stands before it;
    `width` is in columns.
    """

    text: str
    begin: int
    spaced: bool
    width: int

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


Units = Sequence[Unit]


def units_of(text: str) -> list[Unit]:
    """Take a text apart. Joined, with a space where one is `spaced`, the units have all its words."""
    return [
        Unit(piece, begin, spaced=begin == token.start(), width=display_width(piece))
        for token in _TOKEN.finditer(text)
        if token.group().strip()
        for begin, piece in _pieces(token.group(), token.start())
    ]


def joined(units: Units) -> str:
    """Units as one line."""
    return "".join(" " * (unit.spaced and at > 0) + unit.text for at, unit in enumerate(units))


def lines_of(units: Units, max_width: int) -> list[Units]:
    """Break units into as few lines as there can be, at good places where that costs no line.

    No line is wider than `max_width` columns but one that is a single unit.
    """
    fewest = _filled(units, max_width)
    fair = divided(units, lambda line: _width(line) <= max_width)
    return fair if len(fair) <= len(fewest) else fewest


def divided(units: Units, fits: Callable[[Units], bool]) -> list[Units]:
    """Cut units until each run of them fits or is a single one.

    Always cuts where a sentence ends, or else a clause, a word, a character, and there as near to the middle
    as possible: halves are easier to read than a full line with a word left over.
    """
    if len(units) == 1 or fits(units):
        return [units]
    widths = list(accumulate(unit.width + unit.spaced for unit in units))

    def merit(cut: int) -> tuple[int, int]:
        return _closure(units[cut - 1], units[cut]), -abs(2 * widths[cut - 1] - widths[-1])

    cut = max(range(1, len(units)), key=merit)
    return divided(units[:cut], fits) + divided(units[cut:], fits)


def display_width(text: str) -> int:
    """Columns that a text takes: wide characters of East Asia two, marks on another character none.

    Source: Unicode UAX #11; ambiguous characters are narrow there outside of East Asian contexts.
    """
    return sum(map(_columns, text))


@lru_cache(maxsize=4096)
def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _width(units: Units) -> int:
    return sum(unit.width + unit.spaced for unit in units) - units[0].spaced


def _filled(units: Units, max_width: int) -> list[Units]:
    """Lines that each take as much as they can."""
    starts, width = [0], units[0].width
    for at, unit in enumerate(units[1:], start=1):
        width += unit.spaced + unit.width
        if width > max_width:
            starts.append(at)
            width = unit.width
    return [units[start:end] for start, end in pairwise([*starts, len(units)])]


def _closure(before: Unit, after: Unit) -> int:
    """How much has come to its end between two units: a sentence 3, a clause 2, a word 1, a character 0."""
    last = before.text.rstrip(_CLOSING)[-1:]
    if last in _SENTENCE_ENDS:
        return 3
    if last in _CLAUSE_ENDS:
        return 2
    return 1 if after.spaced else 0


def _pieces(token: str, begin: int) -> Iterator[tuple[int, str]]:
    """A token cut where its script allows that, each piece with its place in the text."""
    cuts = [at for at, (before, after) in enumerate(pairwise(token), start=1) if _parts(before, after)]
    for start, end in pairwise([0, *cuts, len(token)]):
        yield begin + start, token[start:end]


def _parts(before: str, after: str) -> bool:
    """Whether a line may end between two characters that stand side by side."""
    return (
        any(map(_UNSPACED.match, (before, after)))
        and unicodedata.category(after) not in _NEVER_FIRST
        and after not in _NEVER_FIRST_LETTERS
        and unicodedata.category(before) not in _NEVER_LAST
        and before not in _NEVER_LAST_LETTERS
    )
