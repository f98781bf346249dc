"""The report of `stentor bench` in a browser: complete in itself, and for everybody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed")

from playwright.async_api import Browser
from rich.console import Console

from page.conftest import AXE
from stentor.bench.report.writing import write_report
from support.results import HOSTILE, write_results

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_results(folder / "bench.jsonl")
    quiet = Console(quiet=True)
    write_report([folder / "bench.jsonl"], folder / "report.html", quiet, quiet)
    return folder / "report.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
async def test_the_report_asks_nobody_and_axe_finds_nothing(
    browser: Browser, report: Path, scheme: str, width: int
) -> None:
    if not AXE.exists():
        pytest.skip("axe is not installed; `make check` does it")
    axe = await asyncio.to_thread(AXE.read_text, encoding="utf-8")
    context = await browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 800}
    )
    asked: list[str] = []
    errors: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = await context.new_page()
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    await page.goto(report.as_uri())
    assert await page.get_by_text(HOSTILE.replace(" \u2028", "")).count() > 0
    assert await page.get_by_role("img").count() >= 4
    await page.evaluate(f"() => {{ {axe} }}")
    found = await page.evaluate(
        """async () => {
          const { violations } = await axe.run({ resultTypes: ["violations"] });
          return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
        }"""
    )
    wide, window = await page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    await context.close()
    assert found == []
    assert wide == window
    assert asked == [report.as_uri()]
    assert errors == []


async def test_the_report_is_dark_where_the_system_is(browser: Browser, report: Path) -> None:
    page = await browser.new_page(color_scheme="light")
    await page.goto(report.as_uri())
    ink = "() => getComputedStyle(document.querySelector('svg path[style*=currentColor]')).stroke"
    light = await page.evaluate(ink)
    await page.emulate_media(color_scheme="dark")
    assert await page.evaluate(ink) != light
    await page.close()
