"""Every documented problem of every operation can be met, and has one shape."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import AsyncIterator, Callable, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, get_args

import pytest

from fakes import MemoryStore
from lorewell.app.ports import Part
from lorewell.errors import BookBoundError, LorewellError, StorageUnavailableError
from lorewell.http import bodies
from lorewell.http.problems import STATUSES, problem_of, status_of
from service import BOOK, UNKNOWN_BOOK, Api, Json, bearer, code, places, serving

PARAMS = {"prompt_id": "p", "from": "1", "to": "2", "format": "native"}


def leaves(error: type[LorewellError]) -> Iterator[type[LorewellError]]:
    if error.code != "internal_error":
        yield error
    for child in error.__subclasses__():
        yield from leaves(child)


def all_operations(api: Api) -> Iterator[tuple[str, str, Json]]:
    for path, methods in api.document["paths"].items():
        shown = path.replace("{book_id}", UNKNOWN_BOOK).replace("{n}", "1")
        shown = re.sub(r"\{\w+\}", "0" * 16, shown)
        for method, operation in methods.items():
            yield method.upper(), shown, operation


def with_body(api: Api) -> Iterator[tuple[str, str, str]]:
    for method, path, operation in all_operations(api):
        if "requestBody" in operation:
            (kind,) = operation["requestBody"]["content"]
            yield method, path, kind


class BrokenStore(MemoryStore):
    """Fails whatever is asked of it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def read(self, work: Callable[[Any], Any]) -> Any:
        del work
        raise self.error

    write = read

    async def check(self) -> str | None:
        raise self.error


def test_each_code_has_one_status_and_one_title() -> None:
    errors = list(leaves(LorewellError))
    assert len({error.code for error in errors}) == len(errors)
    for error in errors:
        problem = problem_of(error("Text."), "id")
        assert problem["status"] == status_of(error) == STATUSES.get(error, status_of(error))
        assert problem["type"] == f"urn:lorewell:problem:{error.code}"
        assert problem["title"]


def test_each_code_is_documented_somewhere(database: str) -> None:
    with serving(database_url=database, replica_tenant="demo") as api:  # some are of its routes
        text = str(api.document["paths"])
    missing = {error.code for error in leaves(LorewellError) if f"`{error.code}`" not in text}
    # No operation can answer the first one; the others are a client's or a host's own.
    assert missing == {
        "method_not_allowed",
        "service_unreachable",
        "worldbook.identity_missing",
        "worldbook.conversation_mismatch",
        "worldbook.service_unavailable",
        "upstream_refused",
        "upstream_invalid",
    }


def test_an_unknown_route_and_method_are_said(api: Api) -> None:
    for path in ("/", "/v1", "/v1/books/", "/v2/books", "/V1/books", "/docs", "/redoc"):
        answer = api("GET", path)
        assert (answer.status_code, code(answer)) == (404, "not_found")
    for path, methods in api.document["paths"].items():
        shown = re.sub(r"\{\w+\}", "1", path)
        answer = api("PATCH", shown)
        assert (answer.status_code, code(answer)) == (405, "method_not_allowed")
        allowed = answer.headers["Allow"].split(", ")
        if path != "/v1/books/{book_id}":
            assert allowed == sorted(method.upper() for method in methods)
    assert api("PATCH", "/openapi.json").headers["Allow"] == "GET"


def test_misdirected_and_invalid_requests_are_refused_everywhere(api: Api) -> None:
    for method, path, _ in all_operations(api):
        given = {"params": PARAMS}
        assert code(api(method, path, headers={"Host": "evil"}, **given)) == "misdirected_request"
        nul = api(method, path, params={**PARAMS, "x": "\x00"})
        assert (code(nul), places(nul)) == ("validation_error", ["x"])
        if path.startswith("/v1/") and "/admin/" not in path:
            assert places(api(method, path, tenant=None, **given)) == ["tenant_id"]


def test_a_database_out_of_order_is_said_everywhere() -> None:
    error = StorageUnavailableError("at /secret/path", folder="/secret/path")
    with serving(BrokenStore(error), auth=True) as api:
        headers = {"Authorization": "Bearer lw_a_b"}
        for method, path, operation in all_operations(api):
            if operation["operationId"] == "check_health":
                continue
            answer = api(method, path, params=PARAMS, headers=headers)
            assert (answer.status_code, code(answer)) == (503, "storage_unavailable")
            assert answer.headers["Retry-After"] == "1"
            assert "secret" not in answer.text


def test_a_failure_inside_is_said_everywhere_and_tells_nothing() -> None:
    with serving(BrokenStore(RuntimeError("secret lore")), auth=True) as api:
        headers = {"Authorization": "Bearer lw_a_b", "X-Request-ID": "find-me"}
        for method, path, operation in all_operations(api):
            if operation["operationId"] == "check_health":
                continue
            answer = api(method, path, params=PARAMS, headers=headers)
            assert (answer.status_code, code(answer)) == (500, "internal_error")
            assert answer.headers["X-Request-ID"] == "find-me"
            if not path.startswith("/gateway/"):  # errors have OpenAI's form there
                assert answer.json()["details"] == {}
                assert answer.json()["request_id"] == "find-me"
            assert "secret" not in answer.text


def test_a_refused_row_is_a_failure_inside() -> None:
    error = LorewellError("The database refused a row.", reason="23505")
    with serving(BrokenStore(error), auth=True) as api:
        answer = api("GET", "/v1/books", headers={"Authorization": "Bearer lw_a_b"})
        assert (code(answer), answer.json()["details"]) == ("internal_error", {})


def test_readiness_names_what_is_missing() -> None:
    store = MemoryStore()
    with serving(store) as api:
        assert api("GET", "/readyz", tenant=None).json() == {"status": "ready"}
        for part in ("migrations", "storage"):
            store._migrated = False
            store._closed = part == "storage"
            answer = api("GET", "/readyz", tenant=None)
            assert answer.status_code == 503
            assert answer.json()["details"] == {"part": part}
            assert api("GET", "/healthz", tenant=None).status_code == 200


def test_bodies_that_cannot_be_read_are_malformed_everywhere(api: Api) -> None:
    deep = b"[" * 101 + b"]" * 101
    for method, path, kind in with_body(api):
        if kind == "application/json":
            headers = {"Content-Type": kind}
            for body in (b"", b"{", b"NaN", b'{"a": 1e999}', b"\xff", deep, b'{"a": 1} x'):
                answer = api(method, path, params=PARAMS, content=body, headers=headers)
                assert (answer.status_code, code(answer)) == (400, "malformed_json")
            for body in (b"[]", b"1", b"null", b'"text"', b"[" * 100 + b"]" * 100):
                answer = api(method, path, params=PARAMS, content=body, headers=headers)
                expected = (400, [None]) if path.startswith("/gateway/") else (422, [""])
                assert (answer.status_code, places(answer)) == expected
        else:
            headers = {"Content-Type": f"{kind}; boundary=x"}
            answer = api(method, path, content=b"nothing", headers=headers)
            assert (answer.status_code, code(answer)) == (400, "malformed_multipart")


def test_a_lone_surrogate_is_refused_wherever_it_stands(api: Api) -> None:
    headers = {"Content-Type": "application/json"}
    for body, place in (
        (b'{"name": "\\ud800"}', "/name"),
        (b'{"name": "B", "metadata": {"a": "\\ud800"}}', "/metadata/a"),
        (b'{"name": "B", "\\ud800": 1}', ""),  # a member without a name that can be told
    ):
        answer = api("POST", "/v1/books", content=body, headers=headers)
        assert (answer.status_code, places(answer)) == (422, [place])


def test_a_body_of_another_kind_is_refused_everywhere(api: Api) -> None:
    for method, path, _ in with_body(api):
        headers = {"Content-Type": "text/plain"}
        answer = api(method, path, params=PARAMS, content=b"x", headers=headers)
        assert (answer.status_code, code(answer)) == (415, "unsupported_media_type")


def beginning(path: str, kind: str) -> tuple[bytes, dict[str, str]]:
    """Return how a body of this kind may begin, and its header."""
    if kind == "application/json":
        return b'{"x": "', {"Content-Type": kind}
    field = "file" if path.endswith("preview") else "files"
    head = f'--x\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n'
    return head.encode(), {"Content-Type": f"{kind}; boundary=x"}


async def endless(begin: bytes, sent: list[int]) -> AsyncIterator[bytes]:
    yield begin
    while True:
        sent.append(1000)
        yield b"x" * 1000


async def stuck(begin: bytes) -> AsyncIterator[bytes]:
    yield begin
    await asyncio.Event().wait()


async def dripping(begin: bytes) -> AsyncIterator[bytes]:
    yield begin
    while True:
        await asyncio.sleep(0.01)
        yield b"x"


def test_bodies_are_counted_while_they_arrive_everywhere(database: str) -> None:
    with serving(database_url=database, max_body_bytes=10_000) as api:
        for method, path, kind in with_body(api):
            begin, headers = beginning(path, kind)
            given = {"params": PARAMS, "headers": {**headers, "Content-Length": "10001"}}
            answer = api(method, path, content=b"", **given)
            assert (answer.status_code, code(answer)) == (413, "body_too_large")
            sent: list[int] = []
            given["headers"] = headers
            answer = api(method, path, content=endless(begin, sent), **given)
            assert (answer.status_code, code(answer)) == (413, "body_too_large")
            if not path.startswith("/gateway/"):
                assert answer.json()["details"] == {"limit_bytes": 10_000}


def test_a_full_disk_is_no_failure_inside(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile(SpooledTemporaryFile[bytes]):
        def write(self, _data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bodies, "SpooledTemporaryFile", FullFile)
    assert code(api("POST", "/v1/books", json=BOOK)) == "storage_unavailable"


def test_slow_senders_are_given_up_everywhere(database: str) -> None:
    with serving(database_url=database, body_timeout_s=0.05) as api:
        for slow in (stuck, dripping):
            for method, path, kind in with_body(api):
                begin, headers = beginning(path, kind)
                answer = api(method, path, params=PARAMS, content=slow(begin), headers=headers)
                assert (answer.status_code, code(answer)) == (408, "request_timeout")
                assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize("given", ["a", "a" * 100, "~ !"])
def test_a_request_keeps_its_own_id(api: Api, given: str) -> None:
    for path in ("/healthz", "/v1/books", "/nothing"):
        answer = api("GET", path, headers={"X-Request-ID": given})
        assert answer.headers["X-Request-ID"] == given


@pytest.mark.parametrize("given", ["", "a" * 101, "käse", "a\tb"])
def test_a_bad_id_is_replaced(api: Api, given: str) -> None:
    answer = api("GET", "/nothing", headers={"X-Request-ID": given.encode("latin-1")})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["X-Request-ID"])


def test_of_many_faults_the_first_are_listed_and_the_rest_counted(api: Api) -> None:
    book = {"name": "B", "entries": [{"content": n} for n in range(1000)]}
    problem = api("POST", "/v1/books", json=book).json()
    assert [each["pointer"] for each in problem["errors"]] == [
        *(f"/entries/{n}/content" for n in range(100)),
        "",
    ]
    assert problem["errors"][-1]["detail"] == "and 900 more"
    assert problem["detail"].endswith("and 997 more")
    assert problem["details"] == {"fault_count": 1000}


def test_no_problem_is_larger_than_64_kib(api: Api) -> None:
    name = "\x01" * 300
    book = {"name": "B", "entries": [{name + str(n): 1, "content": ""} for n in range(200)]}
    answer = api("POST", "/v1/books", json=book)
    problem = answer.json()
    assert len(answer.content) <= 65_536
    assert 10 < len(problem["errors"]) < 100
    listed = len(problem["errors"]) - 1
    assert problem["errors"][-1] == {"pointer": "", "detail": f"and {200 - listed} more"}


def test_long_facts_are_cut_and_too_many_left_out() -> None:
    error = BookBoundError("x" * 100_000, prompts=["p" * 1_000] * 1_000, at={"n" * 9: "m" * 1_000})
    problem = problem_of(error, "id")
    assert len(problem["detail"]) == 2_000
    assert problem["details"] == {}
    error = BookBoundError("x", prompts=["p" * 1_000, *"ab"], at={"n": "m" * 1_000})
    prompts, at = problem_of(error, "id")["details"].values()
    assert (len(prompts[0]), prompts[1:], len(at["n"])) == (500, ["a", "b"], 500)


def test_a_key_and_a_body_do_not_meet_in_a_problem(database: str) -> None:
    with serving(database_url=database, auth=True) as api:
        key = bearer(api, "read")
        answer = api("POST", "/v1/books", json=BOOK, headers=key)
        assert key["Authorization"] not in answer.text


@pytest.mark.parametrize("part", get_args(Part))
def test_what_is_not_ready_is_said(part: Part) -> None:
    class UnreadyStore(MemoryStore):
        async def check(self) -> Part | None:
            return part

    with serving(UnreadyStore()) as api:
        answer = api("GET", "/readyz", tenant=None)
        assert (answer.status_code, answer.json()["details"]) == (503, {"part": part})
        assert answer.json()["detail"].startswith("The ")
