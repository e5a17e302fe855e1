"""Hostile input for every field of every route, as the OpenAPI document names them.

Each field of a valid request is replaced by texts, lists, objects and numbers of many shapes, each
in one size and in four times that size. `examine` says what is wrong with a pair of answers.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

Json = Any
Step = str | int
MAX_PROBLEM_BYTES = 65_536
SLACK_S = 0.25
_BODIES = ("application/json", "multipart/form-data")
# Where there is no model server, the gateway and the socket of a chat say so.
_MAY_FAIL = {"upstream_unavailable", "upstream_timeout", "overloaded", "embedding_unavailable"}


class Answer(Protocol):
    """As httpx has it."""

    @property
    def status_code(self) -> int: ...

    @property
    def content(self) -> bytes: ...


class Ask(Protocol):
    """Sends a request and returns the answer."""

    def __call__(
        self, method: str, path: str, *, params: Any, content: bytes | None, headers: Any
    ) -> Answer: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request with one field that is hostile.

    Attributes:
        field: the operation, and the place in its request.
        shape: of the value, which is `size` signs or items.
    """

    method: str
    path: str
    params: Sequence[tuple[str, str]]
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    field: str
    shape: str
    size: int


TEXTS: Mapping[str, Callable[[int], str]] = {
    "one letter": lambda n: "a" * n,
    "spaces": lambda n: " " * n,
    "line breaks": lambda n: "\n" * n,
    "square brackets": lambda n: "[" * n,
    "round brackets": lambda n: "(" * n,
    "braces": lambda n: "{" * n,
    "closing brackets": lambda n: ")]}" * (n // 3),
    "commas": lambda n: "," * n,
    "separators": lambda n: "a.|&;:=/" * (n // 8),
    "dots": lambda n: "a." * (n // 2),
    "quotes": lambda n: "\"'" * (n // 2),
    "backslashes": lambda n: "\\" * n,
    "slashes": lambda n: "/" * n,
    "digits": lambda n: "9" * n,
    "minus signs": lambda n: "-" * n,
    "decorators": lambda n: "@@depth 1\n" * (n // 10),
    "unknown decorators": lambda n: "@@@" * (n // 3),
    "macros": lambda n: "{{user}}" * (n // 8),
    "open macros": lambda n: "{{random:" * (n // 9),
    "conditions": lambda n: "a == 1 && " * (n // 10),
    "negations": lambda n: "!" * n,
    "regex of brackets": lambda n: "/" + "[" * n + "/",
    "regex that repeats": lambda n: "/" + "(a+)+" * (n // 5) + "$/i",
    "regex of branches": lambda n: "/" + "a|" * (n // 2) + "/",
    "regex of groups": lambda n: "/" + "(" * (n // 2) + ")" * (n // 2) + "/",
    "regex of counts": lambda n: "/" + "a{1,9}" * (n // 6) + "/",
    "bidi controls": lambda n: "\u202e" * n,
    "zero width": lambda n: "\u200b" * n,
    "combining marks": lambda n: "e" + "\u0301" * n,
    "emoji": lambda n: "\U0001f600" * n,
    "family emoji": lambda n: "\U0001f468\u200d\U0001f469\u200d" * (n // 4),
    "ideographs": lambda n: "\u96fe" * n,
    "capital sharp s": lambda n: "\u1e9e" * n,
    "U+0000": lambda n: "a\x00" * (n // 2),
    "controls": lambda n: "\x1b[2J" * (n // 4),
    "surrogates": lambda n: "\ud800" * n,
    "ever other": lambda n: "".join(chr(97 + i * i % 26) for i in range(n)),
}
VALUES: Mapping[str, Callable[[int], Json]] = {
    "list of texts": lambda n: ["a"] * n,
    "list of other texts": lambda n: [f"k{i}" for i in range(n)],
    "list of numbers": lambda n: [1] * n,
    "list of lists": lambda n: [[]] * n,
    "list of objects": lambda n: [{}] * n,
    "list of nulls": lambda n: [None] * n,
    "deep list": lambda n: _deep(n, lambda inner: [inner]),
    "deep object": lambda n: _deep(n, lambda inner: {"and": inner}),
    "object": lambda n: {f"k{i}": 1 for i in range(n)},
    "object of objects": lambda n: {f"k{i}": {} for i in range(n)},
    "long name": lambda n: {"k" * n: 1},
    "list of long texts": lambda n: ["a" * 100] * n,
}
# As they stand in the text: some are no JSON.
RAW: Mapping[str, Callable[[int], str]] = {
    "long integer": lambda n: "9" * n,
    "long negative integer": lambda n: "-" + "9" * n,
    "long fraction": lambda n: "0." + "1" * n,
    "long exponent": lambda n: "1e" + "9" * n,
    "1e999": lambda _: "1e999",
    "1e308": lambda _: "1e308",
    "NaN": lambda _: "NaN",
    "Infinity": lambda _: "-Infinity",
    "very small": lambda _: "1e-999",
    "minus zero": lambda _: "-0",
    "64 bits and one": lambda _: str(2**64),
    "true": lambda _: "true",
    "open brackets": lambda n: "[" * n,
    "open text": lambda n: '"' + "a" * n,
    "bad escape": lambda _: r'"\u12"',
    "twice the same name": lambda n: "{" + ",".join(['"a":1'] * n) + "}",
}
EXAMPLE_BOOK = "11111111-1111-4111-8111-111111111111"
_MARK = "\x7fhere\x7f"


def _deep(n: int, wrap: Callable[[Json], Json]) -> Json:
    value: Json = 1
    for _ in range(min(n, 97)):
        value = wrap(value)
    return value


def filled(schema: Json, shown: Json, document: Json) -> Json:
    """Return a value that a schema accepts, with all that it names: what is shown, and the rest."""
    if "$ref" in schema:
        named = schema["$ref"].rpartition("/")[2]
        return filled(document["components"]["schemas"][named], shown, document)
    choices = schema.get("anyOf", [])
    if shown is None and "default" in schema and not _holds_model(schema):
        return schema["default"]
    if choices and (shown is None or len(_models(schema)) == 1):
        return filled((_models(schema) or choices)[0], shown, document)
    if "properties" in schema and (shown is None or isinstance(shown, dict)):
        given = shown or {}
        properties = schema["properties"].items()
        made = {name: filled(each, given.get(name), document) for name, each in properties}
        return {**given, **made}
    if "items" in schema and (shown is None or isinstance(shown, list)):
        return [filled(schema["items"], each, document) for each in shown or [None]]
    if shown is not None:
        return shown
    return schema["enum"][0] if "enum" in schema else _scalar(schema)


def _models(schema: Json) -> list[Json]:
    return [each for each in schema.get("anyOf", ()) if "$ref" in each]


def _holds_model(schema: Json) -> bool:
    return "$ref" in schema or bool(_models(schema)) or "$ref" in schema.get("items", {})


def _scalar(schema: Json) -> Json:
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "string":
            return "a"
        case "array":
            return []
    return {}


def places(value: Json, at: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield the way to the value and to each one in it."""
    yield at
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for step, below in items:
        yield from places(below, (*at, step))


def replaced(value: Json, at: Sequence[Step], new: Json) -> Json:
    """Return a copy with another value at a place."""
    if not at:
        return new
    head, *rest = at
    if isinstance(value, dict):
        return {**value, head: replaced(value[head], rest, new)}
    return [replaced(old, rest, new) if i == head else old for i, old in enumerate(value)]


def written(body: Json, at: Sequence[Step], raw: str) -> bytes:
    """Return the JSON with a text, be it JSON or not, at a place."""
    text = json.dumps(replaced(body, at, _MARK))
    return text.replace(json.dumps(_MARK), raw).encode()


# What the examples of the document leave out; the two bodies of a route are both sent.
_WORLD_ENTRY = {
    "uid": 0,
    "key": ["lamp"],
    "keysecondary": ["mole"],
    "comment": "Lamp",
    "content": "A lamp.",
    "constant": False,
    "vectorized": False,
    "selective": True,
    "selectiveLogic": 0,
    "order": 100,
    "position": 0,
    "disable": False,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "outletName": "o",
    "group": "g",
    "groupWeight": 100,
    "scanDepth": 4,
    "caseSensitive": None,
    "matchWholeWords": None,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": 1,
    "cooldown": 1,
    "delay": 0,
    "delayUntilRecursion": 0,
    "triggers": ["normal"],
    "characterFilter": {"isExclude": False, "names": ["n"], "tags": ["t"]},
    "excludeRecursion": False,
    "preventRecursion": False,
}
_WORLDS = {"books": [{"source": "chat", "name": "Harbour", "entries": {"0": _WORLD_ENTRY}}]}
_FORCED = {"forced": [{"ref": "Harbour.0"}], "vectors": None}
_TRIGGERS = {"keyword": [True, {"key": ["lamp"]}], "condition": [True, {"conditions": ["a == 1"]}]}
_REPLICA_ENTRY = {"uid": "u", "content": "A lamp.", "trigger_config": {"triggers": _TRIGGERS}}
_REPLICA = {"books": {"b": {"name": "b", "entries": {"u": _REPLICA_ENTRY}}}}
_SHOWN: Mapping[str, Sequence[Json]] = {
    "/v1/sillytavern/activate": [{**_WORLDS, **_FORCED}],
    "/v1/sillytavern/preview": [{**_WORLDS, **_FORCED}],
    "/v1/sillytavern/replay": [_WORLDS],
    "/v1/replica/activate": [_REPLICA],
    "/v1/replica/preview": [{**_REPLICA, "changed": []}],
    "/v1/host/assemble": [{"sillytavern": ...}, {"blocks": ...}],
    "/v1/tokens/count": [{"texts": ["a"]}],
    "/api/worldbooks": [{"name": "n", "description": "d", "entries": [_REPLICA_ENTRY]}],
    "/api/worldbooks/{name}": [{"description": "d"}],
    "/api/worldbooks/{name}/entries": [_REPLICA_ENTRY],
    "/api/worldbooks/{name}/entries/{uid}": [_REPLICA_ENTRY],
    "/gateway/v1/chat/completions": [
        {
            "model": "p",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "lamp"}]}],
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "user": "p",
            "max_tokens": 10,
        }
    ],
}
_NAMED = {"tenant_id": "demo", "prompt_id": "p", "format": "native", "from": "1", "to": "1"}


class Operation(NamedTuple):
    """A route and method, and a valid request for it."""

    method: str
    path: str
    params: dict[str, str]
    query: list[str]
    headers: list[str]
    steps: Mapping[str, str]
    bodies: list[Json]
    media_type: str | None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def url(self, step: str | None = None, value: str = "") -> str:
        """Return the path, with a value in the place of a step."""
        path = self.path
        for name, usual in self.steps.items():
            shown = value if name == step else usual
            path = path.replace(f"{{{name}}}", quote(shown, safe="", errors="surrogatepass"))
        return path


def operations(document: Json, known: Mapping[str, str]) -> list[Operation]:
    """Return all operations of a document; `known` are values for steps of their paths."""
    return [
        _operation(method.upper(), path, told, document, known)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]


def _operation(
    method: str, path: str, told: Json, document: Json, known: Mapping[str, str]
) -> Operation:
    parameters = told.get("parameters", [])
    content = told.get("requestBody", {}).get("content", {})
    media_type = next(iter(content), None)
    bodies = []
    if media_type == _BODIES[0]:
        for more in _SHOWN.get(path, [{}]):
            example = {**content[media_type].get("example", {}), **more}
            left_out = [name for name, value in example.items() if value is ...]
            shown = {name: value for name, value in example.items() if value is not ...}
            body = filled(content[media_type]["schema"], shown, document)
            for name in left_out:
                del body[name]
            bodies.append(_with_known(body, known))
    needed = {each["name"] for each in parameters if each["in"] == "query" and each["required"]}
    return Operation(
        method=method,
        path=path,
        params={name: _NAMED[name] for name in sorted(needed)},
        query=[each["name"] for each in parameters if each["in"] == "query"],
        headers=[each["name"] for each in parameters if each["in"] == "header"],
        # What is known has to stay.
        steps={
            name: "1" if method == "DELETE" else known.get(name, "1")
            for name in re.findall(r"\{(\w+)\}", path)
        },
        bodies=bodies,
        media_type=media_type,
    )


def _with_known(body: Json, known: Mapping[str, str]) -> Json:
    return json.loads(json.dumps(body).replace(EXAMPLE_BOOK, known.get("book_id", EXAMPLE_BOOK)))


def body_cases(operation: Operation, size: int, keep: Callable[[str], bool]) -> Iterator[Case]:
    """Yield the operation with each value of its body replaced, and with unknown members."""
    for body in operation.bodies:
        yield from _cases_of(operation, body, size, keep)


def _cases_of(
    operation: Operation, body: Json, size: int, keep: Callable[[str], bool]
) -> Iterator[Case]:
    for at in places(body):
        place = f"{operation.name} /{'/'.join(map(str, at))}"
        for shape, text in TEXTS.items():
            if keep(f"{place} {shape}"):
                yield _with_body(operation, place, shape, size, body, at, json.dumps(text(size)))
        for shape, value in VALUES.items():
            if keep(f"{place} {shape}"):
                yield _with_body(operation, place, shape, size, body, at, json.dumps(value(size)))
        for shape, raw in RAW.items():
            if keep(f"{place} {shape}"):
                yield _with_body(operation, place, shape, size, body, at, raw(size))
        old = functools.reduce(operator.getitem, at, body)
        if isinstance(old, dict) and keep(f"{place} unknown members"):
            more = json.dumps({**old, **{f"unknown{i}": i for i in range(size)}})
            yield _with_body(operation, place, "unknown members", size, body, at, more)
        if isinstance(old, list) and old and keep(f"{place} many items"):
            more = json.dumps(old * size)
            yield _with_body(operation, place, "many items", size, body, at, more)


def _with_body(
    operation: Operation,
    place: str,
    shape: str,
    size: int,
    body: Json,
    at: Sequence[Step],
    raw: str,
) -> Case:
    return Case(
        method=operation.method,
        path=operation.url(),
        params=[*operation.params.items()],
        headers={"Content-Type": _BODIES[0]},
        body=written(body, at, raw),
        field=place,
        shape=shape,
        size=size,
    )


# Headers that every route reads, or something before it.
_HEADERS = (
    *("Accept", "Authorization", "Content-Length", "Content-Type", "Content-Encoding", "Cookie"),
    *("Idempotency-Key", "If-None-Match", "Last-Event-ID", "Origin", "Range", "Referer"),
    *("Traceparent", "User-Agent", "X-Forwarded-For", "X-Request-ID"),
)


def line_cases(operation: Operation, size: int, keep: Callable[[str], bool]) -> Iterator[Case]:
    """Yield the operation with each part of its path, query and headers replaced."""
    body = json.dumps(operation.bodies[0]).encode() if operation.bodies else None
    common: dict[str, Any] = {"method": operation.method, "size": size, "body": body}
    kind = {"Content-Type": operation.media_type} if operation.media_type else {}
    line = min(size, 1_500)  # longer heads are refused before anybody reads them
    for shape, text in TEXTS.items():
        value = text(line)
        for step in operation.steps:
            if keep(f"{operation.name} {{{step}}} {shape}"):
                yield Case(
                    path=operation.url(step, value[:1_500]),
                    params=[*operation.params.items()],
                    headers=kind,
                    field=f"{operation.name} {{{step}}}",
                    shape=shape,
                    **common,
                )
        for name in operation.query:
            if keep(f"{operation.name} ?{name} {shape}"):
                params = {**operation.params, name: value.encode(errors="replace").decode()}
                yield Case(
                    path=operation.url(),
                    params=[*params.items()],
                    headers=kind,
                    field=f"{operation.name} ?{name}",
                    shape=shape,
                    **common,
                )
        plain = re.sub(r"[^ -~]", "?", value)
        for name in dict.fromkeys((*operation.headers, *_HEADERS)):
            if keep(f"{operation.name} {name}: {shape}"):
                yield Case(
                    path=operation.url(),
                    params=[*operation.params.items()],
                    headers={**kind, name: plain.strip()},
                    field=f"{operation.name} {name}:",
                    shape=shape,
                    **common,
                )
    if keep(f"{operation.name} many parameters"):
        many = [(f"p{number}", "1") for number in range(min(size, 4_000))]
        yield Case(
            path=operation.url(),
            params=[*operation.params.items(), *many],
            headers=kind,
            field=f"{operation.name} ?",
            shape="many parameters",
            **common,
        )


class Seen(NamedTuple):
    """What a case came to: its status and code, and the seconds that it took."""

    status: int
    code: str
    taken_s: float


def run(case: Case, ask: Ask, clock: Callable[[], float]) -> tuple[Seen, str | None]:
    """Send a case; return what came of it, and what is wrong with the answer, if anything is."""
    before = clock()
    answer = ask(
        case.method, case.path, params=case.params, content=case.body, headers=case.headers
    )
    taken_s = clock() - before
    status, content = answer.status_code, answer.content
    if status < 400:
        return Seen(status, "", taken_s), None
    problem = json.loads(content)
    code = str(problem.get("error", problem)["code"])
    seen = Seen(status, code, taken_s)
    if len(content) > MAX_PROBLEM_BYTES:
        return seen, f"a problem of {len(content):,} bytes"
    if status >= 500 and code not in _MAY_FAIL:
        return seen, f"{status} {code}"
    return seen, None


def compare(small: Seen, large: Seen) -> str | None:
    """Return what is wrong with the time of an input and of one that is four times as large."""
    if large.status >= 400 and large.taken_s < 1:
        return None
    if large.taken_s > 6 * small.taken_s + SLACK_S:
        return f"{large.taken_s:.2f} s after {small.taken_s:.2f} s for a quarter of it"
    return None


def examine(small: Case, large: Case, ask: Ask, clock: Callable[[], float]) -> Iterator[str]:
    """Yield what is wrong with the answers to a case in one size and in four times that."""
    first, wrong = run(small, ask, clock)
    if wrong:
        yield f"{small.field} {small.shape} × {small.size}: {wrong}"
    second, wrong = run(large, ask, clock)
    if wrong:
        yield f"{large.field} {large.shape} × {large.size}: {wrong}"
    slow = compare(first, second)
    if slow:  # a busy machine is no fault: once more, both of them
        again = [run(each, ask, clock)[0] for each in (small, large)]
        slow = compare(*again)
    if slow:
        yield f"{large.field} {large.shape} × {large.size}: {slow}"


def campaign(
    ask: Ask,
    document: Json,
    *,
    known: Mapping[str, str],
    size: int,
    clock: Callable[[], float],
    keep: Callable[[str], bool] = lambda _: True,
) -> Iterator[str]:
    """Yield what is wrong with the answers of a service to hostile input in every field.

    Args:
        ask: sends a request to the service.
        document: its OpenAPI document.
        known: values for steps of paths, such as the id of a book that is there.
        size: signs or items of the smaller input; the larger one has four times as many.
        clock: seconds that count, such as those of a CPU if the service is in this process.
        keep: says by its name whether a case is sent.
    """
    for operation in operations(document, known):
        for make in (line_cases, body_cases):
            pairs = zip(make(operation, size, keep), make(operation, 4 * size, keep), strict=True)
            for small, large in pairs:
                yield from examine(small, large, ask, clock)
