"""Traces: a span for each stage of a request where OpenTelemetry is asked for, else nothing at no price.

OpenTelemetry is imported by `start_tracing` only. Until then, and without the extra, `begin` gives one span
that does nothing, always the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from stentor.errors import SetupError, StentorError

SERVICE = "stentor"
"""What we are called in traces, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say otherwise."""

Value = str | bool | int | float


class Span:
    """A stretch of time in a trace, the present one from its beginning to its end. Also a context.

    Attributes:
        trace_id: Of the whole trace, in hexadecimal; empty where nothing is traced.
    """

    def __init__(self, span: Any = None) -> None:
        self._span = span
        self.trace_id = ""
        if span is not None:
            from opentelemetry import context, trace

            self.trace_id = trace.format_trace_id(span.get_span_context().trace_id)
            self._detach: Callable[[Any], None] = context.detach
            self._token = context.attach(trace.set_span_in_context(span))

    def note(self, **values: Value) -> None:
        """Add what became known meanwhile, as attributes `stentor.…`."""
        if self._span is not None:
            self._span.set_attributes({f"stentor.{name}": value for name, value in values.items()})

    def answered(self, name: str, status: int) -> None:
        """Give a call's span its name and status, once they are known."""
        if self._span is not None:
            self._span.update_name(name)
            self._span.set_attribute("http.response.status_code", status)

    def end(self, error: str | None = None) -> None:
        """End it, in the task that began it; `error` is why, in one word, where it ended badly."""
        if self._span is None:
            return
        if error is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)
        self._detach(self._token)
        self._span.end()

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.end(None if exc is None else _word(exc))


_NOTHING = Span()
_tracer: Any = None


def start_tracing() -> Callable[[], None]:
    """Trace from now on, and send the spans where the `OTEL_…` variables say; returns what ends it.

    Raises:
        SetupError: OpenTelemetry is not installed.
    """
    global _tracer
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SetupError("STENTOR_TRACING needs OpenTelemetry: pip install 'stentor[otel]'") from error
    resource = Resource.create({SERVICE_NAME: SERVICE}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer(SERVICE)

    def end() -> None:
        global _tracer
        _tracer = None
        provider.shutdown()

    return end


def begin(name: str, **values: Value) -> Span:
    """Begin a span under the present one, and make it the present one."""
    if _tracer is None:
        return _NOTHING
    return Span(
        _tracer.start_span(name, attributes={f"stentor.{key}": value for key, value in values.items()})
    )


def begin_call(method: str, path: str, headers: Mapping[str, str]) -> Span:
    """Begin the span of a whole call, under the caller's own trace where its headers name one (W3C)."""
    if _tracer is None:
        return _NOTHING
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = TraceContextTextMapPropagator().extract(headers)
    attributes = {"http.request.method": method, "url.path": path}
    return Span(_tracer.start_span(method, parent, SpanKind.SERVER, attributes))


def _word(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return error.code if isinstance(error, StentorError) else type(error).__name__
