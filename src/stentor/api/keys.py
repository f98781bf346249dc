"""API keys: who may use the server, decided before a byte of the body is read."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

from fastapi.requests import HTTPConnection
from fastapi.security import HTTPBearer

from stentor.api.services import services_of
from stentor.errors import Unauthorized


class ApiKeys(HTTPBearer):
    """A dependency of routes: passes whoever sends a known key as `Authorization: Bearer KEY`.

    Only digests are kept, and all of them are compared whole, so that neither the memory nor the time taken
    gives a key away. The OpenAPI document shows it as the scheme of every route that depends on it.

    Args:
        keys: All that are known.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        super().__init__(scheme_name="ApiKey", description="One of STENTOR_API_KEYS.", auto_error=False)
        self._digests = [_digest(key) for key in keys]

    async def __call__(self, request: HTTPConnection) -> None:
        """Check the key of a request.

        Raises:
            Unauthorized: It has none, or one that is not known.
        """
        given = await super().__call__(request)
        if given is not None:
            digest = _digest(given.credentials)
            # Not `any`, which would stop at the key that fits.
            if sum(compare_digest(digest, known) for known in self._digests):
                return
        services_of(request).metrics.unauthorized()
        if given is None:
            raise Unauthorized("an API key is needed: send it as the header 'Authorization: Bearer KEY'")
        raise Unauthorized("the API key is not known here; ask whoever runs this server for one")


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
