"""The project's documents as their readers see them: links, anchors, code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PAGES = tuple(sorted(DOCS.rglob("*.md")))
"""What the site is made of."""

DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "native/README.md")),
    *PAGES,
)
"""All that people are told."""

SHELL = ("sh", "bash")
SEPARATORS = re.compile(r"[|&;<>()]+")


def named(document: Path) -> str:
    """A document's path as a test's name."""
    return document.relative_to(ROOT).as_posix()


@cache
def tokens(document: Path) -> tuple[Token, ...]:
    """A document in the pieces that Markdown knows, those within lines after the line."""
    parsed = MarkdownIt("commonmark").enable("table").parse(document.read_text(encoding="utf-8"))
    return tuple(piece for token in parsed for piece in (token, *(token.children or ())))


def links(document: Path) -> Iterator[str]:
    """Where it points, and the images that it shows."""
    for token in tokens(document):
        target = token.attrs.get({"link_open": "href", "image": "src"}.get(token.type, ""))
        if target is not None:
            yield str(target)


@cache
def anchors(document: Path) -> frozenset[str]:
    """Its headings by the names that GitHub gives them. The site's build checks them by its own."""
    seen: dict[str, int] = {}
    pieces = tokens(document)
    for token, inline in pairwise(pieces):
        if token.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
            if seen[slug]:
                seen[f"{slug}-{seen[slug]}"] = 0
    return frozenset(seen)


def fences(document: Path, *languages: str) -> Iterator[str]:
    """Its blocks of code in these languages."""
    for token in tokens(document):
        if token.type == "fence" and token.info in languages:
            yield token.content


def commands(document: Path) -> Iterator[list[str]]:
    """What it tells people to type, in blocks and within lines, as words.

    A line of a block may go on after a backslash. Variables that are set for a command are left out.
    """
    lines = [line for block in fences(document, *SHELL) for line in block.replace("\\\n", " ").splitlines()]
    lines += [token.content for token in tokens(document) if token.type == "code_inline"]
    for line in lines:
        yield from _separated(line)


def _separated(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        words = [*lexer, ";"]
    except ValueError:  # a quotation mark alone: code, but nothing to type
        return
    for word in words:
        if not SEPARATORS.fullmatch(word):
            command.append(word)
            continue
        while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
            command.pop(0)
        if command:
            yield command
        command = []
