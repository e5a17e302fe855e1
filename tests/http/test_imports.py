"""The doors for several books and for foreign files."""

from __future__ import annotations

import time

import pytest

from service import BOOK, WORLD_INFO, Api, Json, code, places, serving

MIB = 1024 * 1024
NAME = "world.json"
BOUNDARY = "frontier"


def sent(*files: tuple[str, bytes], field: str = "files") -> Json:
    return {"files": [(field, file) for file in files]}


def raw(body: bytes, boundary: str = BOUNDARY) -> Json:
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return {"content": body, "headers": headers}


def part(name: str, content: bytes, disposition: str = "") -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{disposition}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def end() -> bytes:
    return f"--{BOUNDARY}--\r\n".encode()


def world_info(size: int) -> bytes:
    """Return a world-info file of exactly this many bytes."""
    head = b'{"entries": {"0": {"uid": 0, "key": ["lamp"], "content": "A lamp."}}, "pad": "'
    return head + b"x" * (size - len(head) - 2) + b'"}'


def test_several_books_are_stored_together(api: Api) -> None:
    answer = api("POST", "/v1/imports", json={"books": [BOOK] * 10})
    assert answer.status_code == 201
    assert len({made["book_id"] for made in answer.json()["books"]}) == 10
    for books in ([], [BOOK] * 11):
        assert places(api("POST", "/v1/imports", json={"books": books})) == ["/books"]


def test_one_bad_book_stops_all(api: Api) -> None:
    circle = {"name": "B", "entries": [{"id": "a", "content": "x", "requires": ["a"]}]}
    answer = api("POST", "/v1/imports", json={"books": [BOOK, circle]})
    assert code(answer) == "invalid_dependency"
    assert api("GET", "/v1/books").json()["books"] == []


def test_a_batch_takes_a_key(api: Api) -> None:
    key = {"Idempotency-Key": "k"}
    assert api("POST", "/v1/imports", json={"books": [BOOK]}, headers=key).status_code == 201
    replay = api("POST", "/v1/imports", json={"books": [BOOK]}, headers=key)
    assert (replay.status_code, replay.json()["replayed"]) == (200, True)
    other = api("POST", "/v1/imports", json={"books": [BOOK] * 2}, headers=key)
    assert code(other) == "idempotency_conflict"


def test_a_preview_stores_nothing_and_its_book_can_be_stored(api: Api) -> None:
    answer = api("POST", "/v1/imports/preview", **sent((NAME, WORLD_INFO), field="file"))
    assert answer.status_code == 200
    assert answer.json()["import_report"]["format"] == "st_world"
    assert answer.json()["import_report"]["source_file"]["name"] == NAME
    assert api("GET", "/v1/books").json()["books"] == []
    book_id = api.create(answer.json()["book"])
    stored = api("GET", f"/v1/books/{book_id}").json()["revision"]
    assert stored["entries"] == answer.json()["book"]["entries"]


def test_files_are_stored_and_known_again(api: Api) -> None:
    first = api("POST", "/v1/imports/files", **sent((NAME, WORLD_INFO)))
    assert first.status_code == 201
    book_id = first.json()["books"][0]["book_id"]
    api.publish(book_id, 1)
    again = api("POST", "/v1/imports/files", **sent(("other.json", WORLD_INFO)))
    assert again.status_code == 200
    (known,) = again.json()["books"]
    assert (known["book_id"], known["revision"], known["deduplicated"]) == (book_id, 1, True)
    mixed = api("POST", "/v1/imports/files", **sent((NAME, WORLD_INFO), (NAME, world_info(999))))
    assert mixed.status_code == 201
    assert [each["deduplicated"] for each in mixed.json()["books"]] == [True, False]


def test_files_take_a_key(api: Api) -> None:
    key = {"Idempotency-Key": "k"}
    files = sent((NAME, WORLD_INFO))
    assert api("POST", "/v1/imports/files", headers=key, **files).status_code == 201
    replay = api("POST", "/v1/imports/files", headers=key, **files)
    assert (replay.status_code, replay.json()["replayed"]) == (200, True)
    other = sent((NAME, world_info(500)))
    answer = api("POST", "/v1/imports/files", headers=key, **other)
    assert code(answer) == "idempotency_conflict"


@pytest.mark.parametrize(
    ("content", "expected", "status"),
    [
        (b"", "import_invalid", 422),
        (b"<html></html>", "import_invalid", 422),
        (b'{"entries": {', "import_invalid", 422),
        (b"\x89PNG\r\n\x1a\n\x00", "import_invalid", 422),
        (b"just some words", "unsupported_media_type", 415),
        (b'{"entries": ' + b"[" * 101 + b"]" * 101 + b"}", "import_invalid", 422),
    ],
)
def test_one_bad_file_stops_all(api: Api, content: bytes, expected: str, status: int) -> None:
    files = sent((NAME, WORLD_INFO), ("bad.json", content))
    answer = api("POST", "/v1/imports/files", **files)
    assert (answer.status_code, code(answer)) == (status, expected)
    assert answer.json()["details"]["file"] == "bad.json"
    assert api("GET", "/v1/books").json()["books"] == []
    preview = api("POST", "/v1/imports/preview", **sent(("bad.json", content), field="file"))
    assert (preview.status_code, code(preview)) == (status, expected)


def test_a_file_of_exactly_the_limit_is_read(api: Api) -> None:
    exact = sent((NAME, world_info(16 * MIB)), field="file")
    assert api("POST", "/v1/imports/preview", **exact).status_code == 200
    above = sent((NAME, world_info(16 * MIB + 1)), field="file")
    answer = api("POST", "/v1/imports/preview", **above)
    assert (answer.status_code, code(answer)) == (413, "file_too_large")
    assert answer.json()["details"] == {"file": NAME, "limit_bytes": 16 * MIB}


def test_files_are_limited_one_by_one_and_together(database: str) -> None:
    limits = {"max_file_bytes": 300, "max_files_bytes": 500, "max_body_bytes": 2_000}
    with serving(database_url=database, **limits) as api:
        files = sent(("a", world_info(200)), ("b", world_info(300)))
        assert api("POST", "/v1/imports/files", **files).status_code == 201
        for sizes, expected in (
            ((301,), "file_too_large"),
            ((200, 200, 101), "batch_too_large"),
            ((2_000,), "body_too_large"),
        ):
            files = sent(*((f"f{size}", world_info(size)) for size in sizes))
            answer = api("POST", "/v1/imports/files", **files)
            assert (answer.status_code, code(answer)) == (413, expected)
        small = {"max_file_bytes": 300, "max_files_bytes": 200}
    with serving(database_url=database, **small) as api:
        answer = api("POST", "/v1/imports/preview", **sent(("f", world_info(201)), field="file"))
        assert code(answer) == "batch_too_large"


def test_the_fields_are_one_file_or_up_to_ten_files(api: Api) -> None:
    several = [(f"{n}.json", world_info(200 + n)) for n in range(11)]
    assert api("POST", "/v1/imports/files", **sent(*several[:10])).status_code == 201
    assert places(api("POST", "/v1/imports/files", **sent(*several))) == ["/files"]
    assert places(api("POST", "/v1/imports/files", **sent(several[0], field="file"))) == ["/file"]
    two = sent(*several[:2], field="file")
    assert places(api("POST", "/v1/imports/preview", **two)) == ["/file"]
    nothing = api("POST", "/v1/imports/files", **raw(end()))
    assert (code(nothing), places(nothing)) == ("validation_error", ["/files"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing of the kind",
        part("file", WORLD_INFO),
        part("file", WORLD_INFO)[:-20],
        part("file", WORLD_INFO).replace(b"form-data", b"attachment") + end(),
        part("file", WORLD_INFO).replace(b'name="file"', b"") + end(),
        b"--frontier\r\n\r\nno head\r\n" + end(),
        b"--frontier\r\nX: " + b"x" * 100_000 + b"\r\n\r\n\r\n" + end(),
    ],
)
def test_what_is_no_form_is_malformed(api: Api, body: bytes) -> None:
    answer = api("POST", "/v1/imports/preview", **raw(body))
    assert (answer.status_code, code(answer)) == (400, "malformed_multipart")


@pytest.mark.parametrize("boundary", ["", "b" * 1000, "käse"])
def test_an_odd_boundary_is_malformed(api: Api, boundary: str) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}".encode()}
    answer = api("POST", "/v1/imports/preview", content=b"--", headers=headers)
    assert (answer.status_code, code(answer)) == (400, "malformed_multipart")


@pytest.mark.parametrize(
    ("disposition", "shown"),
    [
        ('; filename="../../etc/passwd"', "passwd"),
        ('; filename="C:\\\\books\\\\world.json"', "world.json"),
        ('; filename="bell\x07.json"', "bell\ufffd.json"),
        ('; filename="灯.json"', "灯.json"),
        ("", ""),
    ],
)
def test_a_file_name_is_only_shown(api: Api, disposition: str, shown: str) -> None:
    body = part("file", WORLD_INFO, disposition) + end()
    answer = api("POST", "/v1/imports/preview", **raw(body))
    assert answer.status_code == 200
    assert answer.json()["import_report"]["source_file"]["name"] == shown


def test_a_file_that_holds_no_book_is_previewed_but_not_stored(api: Api) -> None:
    card = b'{"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Ada"}}'
    preview = api("POST", "/v1/imports/preview", **sent(("c", card), field="file"))
    assert preview.json()["import_report"]["entry_count"] == 0
    assert code(api("POST", "/v1/imports/files", **sent(("c", card)))) == "import_invalid"


COSTLY = b'{"entries": {"0": {"x": [' + b'"<a onx=",' * 90_000 + b'""]}}}'
DOORS = (
    ("/v1/imports/preview", "file"),
    ("/v1/imports/files", "files"),
    ("/api/worldbooks/a/import", "file"),
)


@pytest.mark.parametrize(("path", "field"), DOORS)
def test_file_that_takes_too_many_steps_is_refused_with_the_setting(path: str, field: str) -> None:
    with serving(max_import_steps=1_000, replica_tenant="demo") as api:
        answer = api("POST", path, **sent((NAME, COSTLY), field=field))
    assert answer.status_code == 422
    assert code(answer) == "too_expensive"
    problem = answer.json()
    assert problem["details"]["max_steps"] == 1_000
    assert problem["detail"].endswith("The limit is LOREWELL_MAX_IMPORT_STEPS.")


@pytest.mark.parametrize(("path", "field"), DOORS)
def test_file_that_takes_too_long_is_refused_with_the_setting(path: str, field: str) -> None:
    with serving(import_seconds=0.05, replica_tenant="demo") as api:
        begin = time.perf_counter()
        answer = api("POST", path, **sent((NAME, COSTLY), field=field))
        taken_s = time.perf_counter() - begin
    print(f"{path}: refused after {taken_s:.2f} s")
    assert (answer.status_code, code(answer)) == (503, "overloaded")
    assert "LOREWELL_IMPORT_SECONDS" in answer.json()["detail"]
    assert answer.headers["Retry-After"]
    assert taken_s < 2
