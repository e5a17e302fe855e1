"""Metrics for Prometheus. No label holds a tenant, a book or a text."""

from __future__ import annotations

import os
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from lorewell.app.computing.pool import ComputeCounts, Computing
from lorewell.app.live.hub import LiveCounts
from lorewell.app.runtime.cache import BookCache, CacheCounts
from lorewell.model import ReplicaResponse, SelectResponse

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
# A client may close with any code; the common ones are counted separately.
_CODES = frozenset({1000, 1001, 1005, 1006, 1008, 1009, 1011, 1012})
_OUR_CODES = frozenset({*range(400, 600), *range(4400, 4600)})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics of one service, across all its processes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "lorewell_http_requests",
            "Answered requests.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._request_seconds = Histogram(
            "lorewell_http_request_seconds",
            "Time to answer a request.",
            ["method", "route"],
            registry=registry,
            buckets=_SECONDS,
        )
        self._sockets = Gauge(
            "lorewell_sockets",
            "Open sockets.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._sockets_closed = Counter(
            "lorewell_sockets_closed",
            "Sockets that were refused or have ended.",
            ["route", "code"],
            registry=registry,
        )
        self._select_seconds = Histogram(
            "lorewell_select_seconds",
            "Time of a selection, without HTTP and database.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._degraded = Counter(
            "lorewell_degraded",
            "Selections that could not use all the requested features.",
            ["reason"],
            registry=registry,
        )
        self._triggers = Counter(
            "lorewell_replica_triggers",
            "Entries that the policy replica activated, by what triggered them.",
            ["trigger"],
            registry=registry,
        )
        self._positions = Counter(
            "lorewell_replica_positions",
            "Entries that the policy replica activated, by their position.",
            ["position"],
            registry=registry,
        )
        self._hits = Counter(
            "lorewell_cache_hits", "Compiled books found in the cache.", registry=registry
        )
        self._misses = Counter(
            "lorewell_cache_misses", "Compiled books not found in the cache.", registry=registry
        )
        self._evictions = Counter(
            "lorewell_cache_evictions", "Compiled books evicted from the cache.", registry=registry
        )
        self._compile_seconds = Counter(
            "lorewell_compile_seconds", "Time spent compiling books.", registry=registry
        )
        self._live = {
            name: Counter(f"lorewell_live_{name}", help_text, registry=registry)
            for name, help_text in (
                ("published", "Live events written."),
                ("lost", "Live events lost because they came faster than they could be written."),
                ("told", "Frames sent to subscribers."),
                ("slow", "Subscribers dropped because they read too slowly."),
            )
        }
        self._seen_live = LiveCounts()
        self._refused = Counter(
            "lorewell_compute_refused",
            "Requests refused because too many wait, or ended by their time limit.",
            registry=registry,
        )
        self._left = Counter(
            "lorewell_compute_left",
            "Requests whose work was cancelled because the caller left.",
            registry=registry,
        )
        self._computing = {
            name: Gauge(
                f"lorewell_compute_{name}", text, registry=registry, multiprocess_mode="livesum"
            )
            for name, text in (
                ("running", "Requests that are computing."),
                ("waiting", "Requests that wait to compute."),
            )
        }
        self._seen_computing = ComputeCounts()
        self._bytes = Gauge(
            "lorewell_cache_bytes",
            "Approximate bytes of compiled books held.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._seen = CacheCounts()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer; `route` is the template of its path."""
        shown = method if method in _METHODS else "OTHER"
        self._requests.labels(shown, route, str(status)).inc()
        self._request_seconds.labels(shown, route).observe(seconds)

    def socket_opened(self) -> None:
        """Count an opened socket."""
        self._sockets.inc()

    def socket_closed(self, route: str, code: int, *, was_open: bool) -> None:
        """Count a closed or refused socket, by its close code or status."""
        if was_open:
            self._sockets.dec()
        shown = str(code) if code in _CODES or code in _OUR_CODES else "other"
        self._sockets_closed.labels(route, shown).inc()

    def selected(self, response: SelectResponse) -> None:
        """Count a selection."""
        self._select_seconds.observe(response.duration_ms / 1000)
        for reason in response.degraded:
            self._degraded.labels(reason).inc()

    def activated(self, response: ReplicaResponse) -> None:
        """Count the entries that the policy `replica` activated."""
        for trigger, count in response.stats.by_trigger.items():
            self._triggers.labels(trigger).inc(count)
        for each in response.stats.by_position:
            self._positions.labels(str(each.position)).inc(each.count)

    def collect(
        self, cache: BookCache, computing: Computing, live: LiveCounts | None = None
    ) -> None:
        """Add the new counts of the cache, the compute pool and the live channel."""
        self._computing["running"].set(computing.running)
        self._computing["waiting"].set(computing.waiting)
        if computing.counts != self._seen_computing:
            self._refused.inc(computing.counts.refused - self._seen_computing.refused)
            self._left.inc(computing.counts.left - self._seen_computing.left)
            self._seen_computing = replace(computing.counts)
        counts, seen = cache.counts, self._seen
        now = CacheCounts(counts.hits, counts.misses, counts.evictions, counts.compile_s)
        self._hits.inc(now.hits - seen.hits)
        self._misses.inc(now.misses - seen.misses)
        self._evictions.inc(now.evictions - seen.evictions)
        self._compile_seconds.inc(now.compile_s - seen.compile_s)
        self._bytes.set(cache.held_bytes)
        self._seen = now
        if live is not None and live != self._seen_live:
            for name, counter in self._live.items():
                counter.inc(getattr(live, name) - getattr(self._seen_live, name))
            self._seen_live = replace(live)

    def to_text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        if MULTIPROCESS not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # it has no types
        return generate_latest(registry)
