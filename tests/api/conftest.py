"""Clients of the server that a test serves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import openai
import pytest

from support.server import Served


@pytest.fixture
async def http(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
        yield client


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's own, which does not try again."""
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client
