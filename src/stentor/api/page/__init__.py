"""The page at `/`, on which people hear a file turned into text.

Its files are what a browser reads: no build, nothing from elsewhere. They are read once, when the server is
made, and hold no secret, so that they need no key; what the page asks the API for does.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

FILES = Path(__file__).parent / "files"

INDEX = "index.html"

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "media-src": "blob:",  # the file that was chosen, played where it is
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
}
"""What the page may load and do: its own files, this server's API, and sound that the browser holds."""

HEADERS = {
    "cache-control": "no-cache",  # kept, and asked for again by its tag
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent. The tag is of its content: dates in a wheel are all the same."""

    content: bytes
    media_type: str
    tag: str

    @classmethod
    def read(cls, path: Path) -> PageFile:
        """Read a file of the page."""
        content = path.read_bytes()
        return cls(content, MEDIA_TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')

    def answer(self, request: Request) -> Response:
        """The file, or that the caller has it already."""
        headers = {**HEADERS, "etag": self.tag}
        known = request.headers.get("if-none-match", "")
        if self.tag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type=self.media_type)


def page_router() -> APIRouter:
    """The routes of the page: `/` and the files that it names."""
    router = APIRouter(include_in_schema=False)
    files = {path.name: PageFile.read(path) for path in FILES.iterdir()}

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index(request: Request) -> Response:
        return files[INDEX].answer(request)

    @router.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def file(request: Request, name: str) -> Response:
        if name not in files or name == INDEX:
            raise HTTPException(404)
        return files[name].answer(request)

    return router
