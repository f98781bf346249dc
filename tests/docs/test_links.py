"""Links lead somewhere, in the repository as on the site, and every page can be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from support.documents import DOCS, DOCUMENTS, PAGES, ROOT, anchors, links, named


def wrong(document: Path, link: str) -> str | None:
    """What is wrong with a link."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (document.parent / unquote(parts.path)).resolve() if parts.path else document
    if not target.exists():
        return "leads nowhere"
    if parts.fragment and (target.suffix != ".md" or unquote(parts.fragment) not in anchors(target)):
        return "no such heading"
    if document.is_relative_to(DOCS) and not (target.is_file() and target.is_relative_to(DOCS)):
        # The site has the files below docs/ and nothing else.
        return "leads out of docs/, or to a folder: write the path as code, or link the page"
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    assert {link: found for link in links(document) if (found := wrong(document, link))} == {}


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("api.md", None),
        ("api.md#subtitles", None),
        ("https://example.org/", None),
        ("gone.md", "leads nowhere"),
        ("api.md#gone", "no such heading"),
        ("#gone", "no such heading"),
        ("/docs/api.md", "leads nowhere"),
        ("benchmarks/", "leads out"),
        ("../README.md", "leads out"),
    ],
)
def test_a_wrong_link_is_found(link: str, expected: str | None) -> None:
    found = wrong(DOCS / "operations.md", link)
    assert found == expected if expected is None else expected in str(found)


def listed(entries: Any) -> set[str]:
    """The pages of a navigation, and of all that is in it."""
    if isinstance(entries, str):
        return {entries}
    return set().union(*map(listed, entries.values() if isinstance(entries, dict) else entries))


def test_every_page_is_in_the_navigation_or_in_the_list_of_its_folder() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    found = {DOCS / page for page in listed(navigation)}
    assert found <= set(PAGES)
    for folder in ("benchmarks", "decisions"):
        index = DOCS / folder / "README.md"
        assert index in found
        found |= {index.parent / link for link in links(index)}
    assert set(PAGES) - found == set()
