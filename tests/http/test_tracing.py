"""Traces: a span for each request, and nothing in it that a person wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lorewell.http import app as application, tracing
from service import serving


def test_a_request_is_a_span_without_its_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    made: list[TracerProvider] = []

    def provider(_settings: object) -> TracerProvider:
        made.append(tracing.provider_of(exporter))
        return made[0]

    monkeypatch.setattr(application, "make_provider", provider)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with serving(database_url=f"sqlite:///{tmp_path / 'l.db'}", otel=True) as api:
        book = api.create(tenant="somebody")
        turn = {"books": [{"book_id": book}], "query": "xyzzy lamp"}
        api("POST", "/v1/context/select", json=turn, tenant="somebody",
            headers={"traceparent": parent})  # fmt: skip
        api("GET", "/v1/books", params={"q": "xyzzy"}, tenant="somebody")
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "POST /v1/books",
        "POST /v1/context/select",
        "GET /v1/books",
    ]
    context = spans[1].get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == parent[3:35]
    assert spans[1].resource.attributes["service.name"] == "lorewell"
    exported = "".join(span.to_json() for span in spans)
    assert "xyzzy" not in exported
    assert "somebody" not in exported


def test_nothing_is_traced_by_default(tmp_path: Path) -> None:
    with serving(database_url=f"sqlite:///{tmp_path / 'l.db'}") as api:
        assert tracing.make_provider(api.app.state.shared.settings) is None
        assert tracing.telemetry(None)["tracing"] is False
