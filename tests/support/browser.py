"""The machine's own Chromium, which may ask this machine and nobody else."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@asynccontextmanager
async def chromium(*arguments: str, names: str = "") -> AsyncIterator[Browser]:
    """A browser until the context is left; skips the test where the machine has none.

    Args:
        arguments: Further ones of its command line.
        names: Rules for further names (Chromium's `--host-resolver-rules`), such as `MAP name 127.0.0.1`.
    """
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    from playwright.async_api import async_playwright

    rules = ", ".join(filter(None, (names, "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1")))
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # root has none
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[f"--host-resolver-rules={rules}", *arguments, *sandbox]
        )
        yield browser
        await browser.close()
