"""OpenTelemetry traces: a span for each request, with the extra `otel`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fastapi.telemetry import TelemetryConfig

from lorewell.errors import Fault, ValidationFailedError
from lorewell.settings import Settings, env_name

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_QUERY = "url.query"  # it holds the tenant, the prompt and searched names


def make_provider(settings: Settings) -> TracerProvider | None:
    """Return a provider that exports spans by OTLP, as set by the variables `OTEL_…`; None if off.

    Raises:
        ValidationFailedError: the extra is not installed.
    """
    if not settings.otel:
        return None
    try:
        # Imported here: an extra.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
    except ImportError as error:
        why = "tracing needs the extra: pip install 'lorewell[otel]'"
        fault = Fault("", why, parameter=env_name("otel"))
        raise ValidationFailedError.at(fault) from error
    return provider_of(OTLPSpanExporter())


def provider_of(exporter: SpanExporter) -> TracerProvider:
    """Return a provider that passes finished spans to an exporter, without the query of the URL."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415  see above
    from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    class WithoutQuery(SpanProcessor):
        def on_start(self, span: Span, parent_context: object = None) -> None:  # noqa: ARG002  the base class's
            if span.attributes and _QUERY in span.attributes:
                span.set_attribute(_QUERY, "")

    # OTEL_SERVICE_NAME takes precedence; the SDK's default is "unknown_service:python".
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "lorewell"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(WithoutQuery())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def telemetry(provider: TracerProvider | None) -> TelemetryConfig:
    """Return FastAPI's telemetry settings: only spans, and nothing that quotes a request."""
    config: TelemetryConfig = {
        "tracing": provider is not None,
        "operation_spans": False,
        "metrics": False,
        "logs": False,
        "auto_configure": False,
    }
    if provider is not None:
        config["tracer_provider"] = provider
    return config
