"""Hostile input in every field of every route is refused in words or answered, in time.

The short form: a few shapes for each field, small. The long one is tests/deep/test_field_fuzz.py.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator

import pytest

import hostile_fields as hostile
from service import Api, code, serving

JSON = {"Content-Type": "application/json"}
SIZE = 100
PROBES = 15  # of each operation
GROUPS = 20  # of operations


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    database = f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'lorewell.db'}"
    with serving(database_url=database, replica_tenant="demo") as api:
        yield api


@pytest.fixture(scope="module")
def target(api: Api) -> hostile.Target:
    return hostile.in_process(api)


@pytest.mark.parametrize("number", range(GROUPS))
def test_hostile_input_is_refused_or_answered(target: hostile.Target, number: int) -> None:
    for operation in hostile.operations(target.document, target.known)[number::GROUPS]:
        probes = [*hostile.line_probes(operation), *hostile.body_probes(operation)]
        probes.sort(key=lambda probe: zlib.crc32(f"{probe.field} {probe.shape}".encode()))
        for probe in probes[:PROBES]:
            assert [*hostile.examine(probe, SIZE, target.ask, time.process_time)] == []


def test_every_body_is_fuzzed(target: hostile.Target) -> None:
    operations = hostile.operations(target.document, target.known)
    with_body = {
        path
        for path, declared in target.document["paths"].items()
        if "requestBody" in str(declared)
    }
    probed = {operation.path for operation in operations if [*hostile.body_probes(operation)]}
    assert probed == with_body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"texts": ["a"], "texts": ["a", "b"]}', "200"),  # the last one counts
        (b'\xef\xbb\xbf{"texts": ["a"]}', "200"),
        (b'\xef\xbb\xbf\xef\xbb\xbf{"texts": ["a"]}', "malformed_json"),
        (b'{"texts": ["\xff"]}', "malformed_json"),
        (b'{"texts": ["\xed\xa0\x80"]}', "malformed_json"),
        ('{"texts": ["a"]}'.encode("utf-16"), "malformed_json"),
        (b'{"texts": ["\\ud800"]}', "validation_error"),
        (b'{"texts": ["\\u0000"]}', "validation_error"),
        (b'{"texts": ["\x01"]}', "malformed_json"),
        (b'{"texts": ["a"], "tokenizer": 1e999}', "malformed_json"),
        (b'{"texts": ["a"], "tokenizer": NaN}', "malformed_json"),
        (b'{"texts": ["a"], "tokenizer": ' + b"9" * 5_000 + b"}", "malformed_json"),
        (b'{"texts": ["a"], "tokenizer": -' + b"9" * 4_300 + b"}", "validation_error"),
        (b"[" * 100_000 + b"]" * 100_000, "malformed_json"),
        (b'{"a":' * 100_000, "malformed_json"),
        (b"[" * 100_000, "malformed_json"),
        (b'"' + b"\\" * 100_001, "malformed_json"),
        (b"", "malformed_json"),
        (b"null", "validation_error"),
    ],
)
def test_odd_json_is_refused_in_words(api: Api, body: bytes, expected: str) -> None:
    answer = api("POST", "/v1/tokens/count", content=body, headers=JSON)
    assert code(answer) == expected


@pytest.mark.parametrize("digits", ["9" * 4_301, "-" + "9" * 4_301, "9" * 19, "1" * 40_000, "1e9"])
@pytest.mark.parametrize(
    "path", ["/v1/books?limit=", "/v1/books/b?revision=", "/v1/live?prompt_id=p&last_event_id="]
)
def test_long_digits_in_a_query_are_refused(api: Api, path: str, digits: str) -> None:
    answer = api.run(api.client.get(f"{path}{digits}&tenant_id=demo"))
    assert (answer.status_code, code(answer)) == (422, "validation_error")
    assert len(answer.content) < 2_000


def test_what_is_said_of_an_unknown_name_is_cut(api: Api) -> None:
    for name in ("n" * 1_000_000, "\U0001f600" * 250_000, "\x01" * 150_000):
        body = json.dumps({"texts": ["a"], name: 1}).encode()
        answer = api("POST", "/v1/tokens/count", content=body, headers=JSON)
        assert code(answer) == "validation_error"
        assert len(answer.content) < 10_000
    answer = api.run(api.client.get("/v1/books/" + "b" * 60_000 + "?tenant_id=demo"))
    assert (answer.status_code, len(answer.content) < 5_000) == (404, True)
