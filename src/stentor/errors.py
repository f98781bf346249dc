"""One tree of errors; each class knows how HTTP and OpenAI's clients name it.

    StentorError
    ├── BadRequest            400  the caller can mend it
    │   ├── InvalidValue      400  one field has a value we cannot honour (`param` names it)
    │   └── AudioError        400  the upload is not audio that we can read
    │       └── AudioTooLong  400  it is, and there is more of it than the limit allows
    ├── Unauthorized          401
    ├── ModelNotFound         404
    ├── UploadTooSlow         408
    ├── UploadTooLarge        413
    ├── ClientDisconnected    499  nobody is left to answer; only logs and counters see it
    ├── Overloaded            429  come back after `retry_after_s`
    ├── Unavailable           503
    │   ├── Draining          503  the server is on its way out
    │   └── EngineError       503  the engine cannot answer
    │       └── EngineAborted 503  somebody aborted the engine request
    ├── DeadlineExceeded      504
    └── SetupError            500  the program cannot start as asked
        └── ModelError        500  no such model, or its files are damaged

No HTTP library is imported here. Errors are raised narrow and caught at the edges: `api/errors.py`, `cli/`.
"""

from __future__ import annotations

from typing import ClassVar


class StentorError(Exception):
    """Base of everything Stentor raises on purpose. The message is for the person who can act on it."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s


class BadRequest(StentorError):
    """The request cannot be served as it is; the caller can mend it."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class InvalidValue(BadRequest):
    """A field holds a value that we cannot honour; `param` names the field."""

    code = "invalid_value"


class AudioError(BadRequest):
    """The upload is not audio that we can read."""

    code = "invalid_audio"

    def __init__(self, message: str) -> None:
        super().__init__(message, param="file")


class AudioTooLong(AudioError):
    """The audio goes on past the limit."""

    code = "audio_too_long"


class Unauthorized(StentorError):
    """No API key, or a wrong one."""

    status = 401
    type = "invalid_request_error"
    code = "invalid_api_key"


class ModelNotFound(StentorError):
    """The request names a model that is not served here."""

    status = 404
    type = "invalid_request_error"
    code = "model_not_found"


class UploadTooSlow(StentorError):
    """The body stopped coming."""

    status = 408
    type = "invalid_request_error"
    code = "upload_timeout"


class UploadTooLarge(StentorError):
    """The body is larger than the limit."""

    status = 413
    type = "invalid_request_error"
    code = "request_too_large"


class Overloaded(StentorError):
    """Everything is taken; come back later."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"


class ClientDisconnected(StentorError):
    """The client left. 499 is nginx's number for it; it never reaches a wire."""

    status = 499
    code = "client_disconnected"


class Unavailable(StentorError):
    """The server cannot take this now."""

    status = 503
    code = "unavailable"


class Draining(Unavailable):
    """The server is on its way out and takes no new work."""

    code = "draining"


class EngineError(Unavailable):
    """The engine cannot answer."""

    code = "engine_error"


class EngineAborted(EngineError):
    """The engine request was aborted before it was finished."""

    code = "engine_aborted"


class DeadlineExceeded(StentorError):
    """The request took longer than the server allows."""

    status = 504
    type = "server_error"
    code = "deadline_exceeded"


class SetupError(StentorError):
    """The program cannot start as asked."""

    code = "setup_error"


class ModelError(SetupError):
    """No such model, or its files are missing or damaged."""

    code = "model_error"
