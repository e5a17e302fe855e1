"""docs/limits.md has every limit, with the default, the setting and the code that count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from lorewell.client.problems import CLASSES
from lorewell.settings_table import list_settings

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
SETTINGS = {each.env: each for each in list_settings()}
# They choose what is done, and bound nothing.
NO_LIMITS = frozenset(
    f"LOREWELL_{name}"
    for name in (
        *("DATABASE_URL", "HOST", "PORT", "WORKERS", "AUTH", "ALLOW_UNAUTHENTICATED"),
        *("ALLOWED_HOSTS", "CORS_ORIGINS", "LIVE", "LOG_FORMAT", "LOG_LEVEL", "OTEL"),
        *("TOKENIZER", "TOKENIZER_FILES"),
        *("EMBEDDER", "EMBEDDING_URL", "EMBEDDING_API_KEY", "EMBEDDING_MODEL"),
        *("EMBEDDING_DIMENSIONS", "EMBEDDING_SEND_DIMENSIONS", "AUTO_INDEX"),
        *("EMBEDDING_QUERY_PREFIX", "EMBEDDING_TEXT_PREFIX"),
        *("GATEWAY_UPSTREAM_URL", "GATEWAY_UPSTREAM_API_KEY", "GATEWAY_UPSTREAM_MODEL"),
        *("GATEWAY_TENANT", "GATEWAY_PASS_AUTHORIZATION", "GATEWAY_STRATEGY"),
        *("GATEWAY_STABLE_PREFIX", "GATEWAY_MERGE_ADJACENT", "DEMO_TENANT", "REPLICA_TENANT"),
        "HANDOVER_BYTES",
    )
)
# Words of the last column that are no codes of errors.
REASONS = frozenset(
    ("budget_dropped", "dependency_unavailable", "off", "regex_timeout", "regex_unsupported")
) | {"rest_from"}
# Of parts that are not there yet. Once they are, nothing here is needed.
AWAITED = frozenset(
    f"LOREWELL_{name}"
    for name in (
        *("MAX_CONNECTIONS", "MAX_TENANT_SOCKETS", "MAX_TURN_BYTES", "MAX_JSON_VALUES"),
        *("MAX_STEPS", "MAX_MADE_CHARS", "TURN_SECONDS", "QUEUE_SECONDS", "SHUTDOWN_SECONDS"),
        *("COMPUTE_THREADS", "COMPUTE_REQUESTS", "COMPUTE_QUEUE"),
        *("COMPUTE_TENANT_REQUESTS", "COMPUTE_TENANT_QUEUE"),
    )
)
AWAITED_CODES = frozenset(["json_too_large"])
_MIB = 1024 * 1024
# A fixed limit: the beginning of its row, the constant, and how the row has it.
FIXED = [
    ("Head of a request", "lorewell.http.protocol:MAX_HEAD_BYTES", 1024, "{} KiB"),
    ("Head of a request", "lorewell.http.protocol:MAX_HEADERS", 1, "{} headers"),
    ("Target of a request", "lorewell.http.protocol:MAX_TARGET_BYTES", 1024, "{} KiB"),
    ("Target of a request", "lorewell.http.protocol:MAX_PARAMETERS", 1, "{} parameters"),
    ("Messages of a WebSocket that", "lorewell.http.sockets:_MAX_WAITING", 1, "{}"),
    ("Frames of a live stream", "lorewell.app.live.subscription:MAX_WAITING", 1, "{}"),
    ("Frames of a live stream", "lorewell.app.live.subscription:MAX_WAITING_CHARS", 1, "{:,}"),
    ("Nesting of JSON", "lorewell.model.text:MAX_NESTING", 1, "{}"),
    ("Body of a turn under the policy", "lorewell.http.limits:MAX_REPLICA_BYTES", _MIB, "{} MiB"),
    ("Files of a request", "lorewell.http.routes.imports:_MAX_FILES", 1, "{}"),
    ("One file on the command", "lorewell.formats.files:MAX_FILE_BYTES", _MIB, "{} MiB"),
    ("SillyTavern's chat", "lorewell.formats.chat_file:MAX_CHAT_BYTES", _MIB, "{} MiB"),
    ("SillyTavern's chat", "lorewell.formats.chat_file:MAX_LINE_BYTES", _MIB, "{} MiB"),
    ("SillyTavern's chat", "lorewell.formats.chat_file:MAX_CHAT_MESSAGES", 1, "{:,} messages"),
    ("Values and names", "lorewell.formats.json_text:MAX_VALUES", 1, "{:,}"),
    ("Values and names", "lorewell.formats.json_text:MAX_ROW", 1, "{:,}"),
    ("Chunks of a picture", "lorewell.formats.containers.png:MAX_CHUNKS", 1, "{:,}"),
    ("Chunks of a picture", "lorewell.formats.containers.webp:MAX_CHUNKS", 1, "{:,}"),
    ("Keys in one list", "lorewell.engine.sillytavern.entry.values:MAX_ITEMS", 1, "{:,}"),
    ("Keys in one list", "lorewell.engine.replica.values:MAX_ITEMS", 1, "{:,}"),
    (
        "Lines of decorators",
        "lorewell.engine.sillytavern.entry.card_decorators:MAX_LINES",
        1,
        "{:,}",
    ),
    ("Text in a picture", "lorewell.formats.containers.png:MAX_INFLATED_BYTES", _MIB, "{} MiB"),
    ("Members of an archive", "lorewell.formats.containers.charx:MAX_MEMBERS", 1, "{:,}"),
    ("Members of an archive", "lorewell.formats.containers.charx:MAX_CARD_BYTES", _MIB, "{} MiB"),
    ("Values of a YAML file", "lorewell.formats.yaml_text:MAX_VALUES", 1, "{:,}"),
    ("Warnings of a kind", "lorewell.formats.notes:MAX_NOTICES_A_CODE", 1, "{:,}"),
    ("Warnings of a kind", "lorewell.formats.notes:MAX_REPORT_CHARS", 1, "{:,}"),
    ("Entries of a book", "lorewell.model.book:MAX_ENTRIES", 1, "{:,}"),
    ("Name and description", "lorewell.formats.build:MAX_NAME_CHARS", 1, "{}"),
    ("Name and description", "lorewell.formats.build:MAX_DESCRIPTION_CHARS", 1, "{:,}"),
    ("Keys of an entry", "lorewell.formats.members:MAX_KEYS", 1, "{}"),
    ("Entries of a package", "lorewell.engine.native.compile:MAX_PACKAGE_ENTRIES", 1, "{}"),
    ("Books bound to a prompt", "lorewell.model.binding:MAX_BINDINGS", 1, "{}"),
    ("Turns of one answer", "lorewell.app.sillytavern.activation:MAX_TURNS", 1, "{:,}"),
    ("Memory of the engine", "lorewell.jsregex.engine:MEMORY_LIMIT_BYTES", _MIB, "{} MiB"),
    ("Keys of a request that take", "lorewell.jsregex.guard:MAX_TIMEOUTS", 1, "{}"),
    ("Live events that are kept", "lorewell.app.live.hub:MAX_KEPT", 1, "{:,}"),
]


class Row(NamedTuple):
    what: str
    limit: str
    setting: str
    beyond: str


def rows() -> Iterator[Row]:
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4 and cells[0] not in ("What", "---"):
            yield Row(*cells)


ROWS = tuple(row for row in rows() if row.setting.strip("`") not in AWAITED - SETTINGS.keys())


def test_every_setting_that_is_a_limit_has_one_row() -> None:
    named = [row.setting.strip("`") for row in ROWS if row.setting]
    assert sorted(named) == sorted(SETTINGS.keys() - NO_LIMITS)
    assert SETTINGS.keys() >= NO_LIMITS


@pytest.mark.parametrize("row", [row for row in ROWS if row.setting], ids=lambda row: row.setting)
def test_default_is_that_of_the_setting(row: Row) -> None:
    setting = SETTINGS[row.setting.strip("`")]
    assert row.limit.partition("`")[2].partition("`")[0] == setting.default
    if setting.unit == "bytes":
        assert f"({int(setting.default) // _MIB} MiB)" in row.limit


@pytest.mark.parametrize(("begin", "constant", "unit", "form"), FIXED)
def test_fixed_limit_is_the_one_that_counts(
    begin: str, constant: str, unit: int, form: str
) -> None:
    (row,) = [row for row in ROWS if row.what.startswith(begin)]
    module, _, name = constant.partition(":")
    value = getattr(import_module(module), name)
    shown = form.format(value // unit)
    assert re.search(rf"(?<![\d,]){re.escape(shown)}(?!\d|,\d)", row.limit), (shown, row.limit)


def test_every_row_says_what_happens_beyond_it() -> None:
    assert len({row.what for row in ROWS if not row.what.startswith("Those")}) > 50
    for row in ROWS:
        assert row.beyond, row
        words = set(re.findall(r"`([a-z_.]+)`", row.beyond)) - REASONS
        assert words <= CLASSES.keys() | AWAITED_CODES, row
