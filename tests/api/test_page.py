"""The files of the page: what they are, how they are kept, what they may do, and who gets them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from stentor.api.page import FILES, POLICY
from stentor.engine.fake import FakeEngine
from support.server import Served, serving

PATHS = ["/", *(f"/page/{path.name}" for path in FILES.iterdir() if path.name != "index.html")]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(FakeEngine()) as served:
        yield served


@pytest.mark.parametrize("path", PATHS)
async def test_each_file_says_what_it_is_and_what_it_may_do(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 200
    kinds = {"": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert answer.headers["content-type"].partition(";")[0] == kinds[path.partition(".")[2]]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy == POLICY
    assert policy["default-src"] == "'none'"
    assert not re.search(r"unsafe|https?:|\*|data:", answer.headers["content-security-policy"])


@pytest.mark.parametrize("path", PATHS)
async def test_a_file_that_is_known_is_not_sent_again(http: httpx.AsyncClient, path: str) -> None:
    first = await http.get(path)
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        again = await http.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "content-security-policy" in again.headers
    assert (await http.get(path, headers={"if-none-match": '"other"'})).content == first.content


@pytest.mark.parametrize("path", PATHS)
async def test_head_tells_what_get_would(http: httpx.AsyncClient, path: str) -> None:
    head, get = await http.head(path), await http.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag"):
        assert head.headers[name] == get.headers[name]


async def test_all_that_a_file_names_is_there(http: httpx.AsyncClient) -> None:
    named = re.findall(r'(?:src|href)="([^"#]+)"', (await http.get("/")).text)
    for path in PATHS:
        if path.endswith(".js"):
            named += [f"page/{name}" for name in re.findall(r'from "\./(.+)"', (await http.get(path)).text)]
    assert {f"/{name}" for name in named} == set(PATHS) - {"/"}


@pytest.mark.parametrize(
    "path", ["/page/index.html", "/page/none.js", "/page/", "/page/..%2f__init__.py", "/page/../app.py"]
)
async def test_nothing_else_is_given_away(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_the_page_needs_no_key_and_the_api_does() -> None:
    async with (
        serving(FakeEngine(), api_keys=("sk-one",), keyless=()) as served,
        httpx.AsyncClient(base_url=served.url) as http,
    ):
        for path in PATHS:
            assert (await http.get(path)).status_code == 200
        for path in ("/v1/models", "/status"):
            assert (await http.get(path)).status_code == 401


async def test_the_page_can_be_left_out() -> None:
    async with serving(FakeEngine(), page=False) as served, httpx.AsyncClient(base_url=served.url) as http:
        for path in PATHS:
            assert (await http.get(path)).status_code == 404


async def test_the_page_is_no_part_of_the_api(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert "/status" in paths
    assert not [path for path in paths if path == "/" or path.startswith("/page")]
