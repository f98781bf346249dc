"""The site is whole, stops at what is broken, and asks nobody for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.browser import chromium
from support.documents import DOCS, PAGES, ROOT, named

ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//
      | <link\b[^>]*\bhref=["']?(?:https?:)?//
      | url\(["']?(?:https?:)?//
      | @import\b[^;]*//""",
    re.VERBOSE,
)
"""What a browser fetches by itself when it shows a page."""


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does, with everything in a folder of its own."""
    zensical = Path(sys.executable).with_name("zensical")
    if not zensical.exists():
        pytest.skip("zensical is not installed")
    return subprocess.run(
        [zensical, "build", "--clean", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(DOCS, folder / "docs")
    return folder


@pytest.fixture(scope="module")
def site(sources: Path) -> Path:
    built = build(sources)
    assert built.returncode == 0, built.stdout + built.stderr
    return sources / "site"


def html_of(page: Path) -> str:
    """The file of the site that a page becomes."""
    name = page.relative_to(DOCS).with_suffix(".html").as_posix()
    return re.sub(r"README\.html$", "index.html", name)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_page_is_there_and_fetches_nothing_from_elsewhere(site: Path, page: Path) -> None:
    html = (site / html_of(page)).read_text(encoding="utf-8")
    assert "</article>" in html
    assert ELSEWHERE.findall(html) == []


def test_no_style_fetches_anything_from_elsewhere(site: Path) -> None:
    styles = list(site.rglob("*.css"))
    assert styles
    assert [style.name for style in styles if ELSEWHERE.search(style.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("link", ["gone.md", "api.md#gone", "#gone"])
def test_a_broken_link_stops_the_build(sources: Path, tmp_path: Path, link: str) -> None:
    shutil.copytree(sources, tmp_path / "broken", ignore=shutil.ignore_patterns("site", ".cache"))
    with (tmp_path / "broken" / "docs" / "page.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[Broken]({link})\n")
    assert build(tmp_path / "broken").returncode != 0


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that does not say what it was asked for."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


async def test_a_browser_reads_and_searches_it_and_asks_nobody_else(address: str) -> None:
    asked: list[str] = []
    errors: list[str] = []
    async with chromium() as browser:
        page = await browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        for name in ("index.html", "tuning.html", "decisions/0018-site.html"):
            await page.goto(address + name)
            assert await page.locator("article h1").count() == 1
        await page.keyboard.press("/")
        await page.get_by_role("combobox", name="Search").fill("STENTOR_MAX_STORED_BYTES")
        await page.get_by_text("What lies on the disk").first.wait_for(timeout=10_000)
    assert errors == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
