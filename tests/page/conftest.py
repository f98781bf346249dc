"""A browser of the machine's own, and pages in it that may ask the server under test and nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from support.browser import chromium
from support.server import Served

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page

Open = Callable[..., Awaitable["Page"]]
"""Opens the page of a server in a window of its own."""

OTHER_NAME = "stentor.test"
"""A name of this machine to which browsers give no microphone, as it is neither https nor localhost."""

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
"""Where `make check` puts it."""

ARGUMENTS = (
    "--use-fake-device-for-media-stream",  # a microphone that beeps
    "--use-fake-ui-for-media-stream",  # and a person who allows it
    "--autoplay-policy=no-user-gesture-required",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Chromium, as the machine has it."""
    async with chromium(*ARGUMENTS, names=f"MAP {OTHER_NAME} 127.0.0.1") as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def visit(browser: Browser, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens pages; fails the test that asked for anything of another origin, or left an error behind."""
    contexts: list[BrowserContext] = []
    asked: list[str] = []
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # What a server refuses is an answer like any other; the browser notes it all the same.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            errors.append(message.text)

    async def open_page(served: Served, *, host: str = "127.0.0.1", **options: Any) -> Page:
        context = await browser.new_context(**options)
        contexts.append(context)
        origin = f"http://{host}:{served.port}/"
        context.on(
            "request",
            lambda request: None if request.url.startswith((origin, "blob:")) else asked.append(request.url),
        )
        page = await context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: errors.append(str(error)))
        await page.goto(origin)
        return page

    yield open_page
    for context in contexts:
        await context.close()
    assert asked == []
    assert errors == []
